"""The recipe."""
