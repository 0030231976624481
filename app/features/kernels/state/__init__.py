"""Measured kernels and answers about them: what stands behind the panel Kernels."""
