"""Charts of the panel Kernels: speed, memory, pictures of answers."""
