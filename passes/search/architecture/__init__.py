"""Searches over architectures: what a configuration may be, models built from one, weights that they inherit."""
