"""The companion files of an emitted design: test bench, vectors, scripts, README."""
