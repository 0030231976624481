"""Fast versions of formats and kernels: numba on the CPU, Triton on a GPU; nothing is imported here."""
