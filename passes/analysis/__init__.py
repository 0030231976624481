"""Analyses: passes that do not change the graph, one file each."""
