"""Charts of the inspector: histogram, sparsity map, staircase."""
