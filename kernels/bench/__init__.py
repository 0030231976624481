"""Benchmarks of kernels: specification, timing, limits of the machine, result files."""
