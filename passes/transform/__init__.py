"""Passes that change the graph: one file each."""
