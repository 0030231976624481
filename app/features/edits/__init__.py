"""Edits of the graph from the canvas: the context menu of nodes."""
