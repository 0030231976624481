"""The outline."""
