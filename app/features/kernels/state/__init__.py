"""State of the panel Kernels: runs, answers, measurements."""
