"""Recipes: read as people write them (our form, or a dialect of another tool), checked, and replayed on a graph."""
