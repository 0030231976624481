"""State of the panel Allocate."""
