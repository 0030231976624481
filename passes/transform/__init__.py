"""Transforms: passes that change the graph, one file each."""
