"""Passes that only look: one file each."""
