"""The panel Kernels, a file for each of its tabs and parts."""
