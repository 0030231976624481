"""Measures kernels: what one is (spec), how it is timed, what the machine can do at most, results as files."""
