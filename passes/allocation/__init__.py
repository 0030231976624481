"""Allocation: which format and sparsity each layer gets, so that budgets hold and the outputs change least."""
