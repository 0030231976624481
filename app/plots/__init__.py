"""The charts, one file each."""
