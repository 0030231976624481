"""Data sets: made ones, bundled ones, and those of a folder, a file or the hub."""
