"""Benchmarks of kernels: specification, timing, limits of the machine, files of results."""
