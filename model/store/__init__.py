"""Tensors by key, in memory or in files that are held open."""
