"""The panel Data."""
