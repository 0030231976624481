"""The panel SQNR."""
