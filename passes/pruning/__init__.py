"""Pruning of elements: scores, patterns and masks."""
