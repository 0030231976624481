"""The panel Search."""
