"""The panel Training."""
