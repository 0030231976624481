"""Panel SQNR."""
