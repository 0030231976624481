"""Sweeps: one option over a list of values, with variants and seeds; every point is a recipe with its score."""
