"""Pictures of a node: histogram of its weight, map of its mask, staircase of its format."""
