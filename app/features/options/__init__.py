"""The form of a pass's options."""
