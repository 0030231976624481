"""Charts of kernels: speed, memory, the picture of each answer."""
