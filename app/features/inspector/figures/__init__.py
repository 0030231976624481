"""What is worked out of a node's values, to be drawn."""
