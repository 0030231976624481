"""Passes that leave the graph as it is and report what they find, one file each."""
