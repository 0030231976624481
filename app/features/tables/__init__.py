"""Reports as tables."""
