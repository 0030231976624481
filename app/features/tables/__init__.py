"""The Tables panel."""
