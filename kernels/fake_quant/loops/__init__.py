"""The compiled loops of fake quantisation on the CPU; importing one imports numba."""
