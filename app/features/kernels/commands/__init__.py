"""The command line's `kernels`. No Qt."""
