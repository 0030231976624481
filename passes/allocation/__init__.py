"""Allocation of formats and sparsities to layers under budgets, with least change of the outputs."""
