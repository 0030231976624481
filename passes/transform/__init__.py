"""Passes that return another graph, one file each."""
