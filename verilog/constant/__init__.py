"""Constant matrices as networks of adders: signed digits, what rows have in common computed once."""
