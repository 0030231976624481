"""Fast versions of formats and kernels: numba on the processor, Triton on a GPU; nothing is imported here."""
