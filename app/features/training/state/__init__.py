"""State of the panel Training."""
