"""Sweeps: one option over a list of values, in variants, over seeds; every point a recipe with its score."""
