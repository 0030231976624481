"""The Log panel."""
