"""The kernels, one per file: fast versions, reference versions, formulas, FLOPs and bytes."""
