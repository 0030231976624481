"""The Outline panel."""
