"""The panel Allocate."""
