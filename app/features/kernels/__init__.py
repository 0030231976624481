"""Panel Kernels: one module per tab and widget."""
