"""Recipes: read as people write them (typed, or the dicts of the MASE labs), checked, and replayed on a graph."""
