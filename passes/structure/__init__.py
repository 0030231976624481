"""Structured pruning: sets of coupled channels, neurons, heads and layers, their scores, masks and removal."""
