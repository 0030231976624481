"""The files beside a design in its folder: bench, vectors, scripts, README."""
