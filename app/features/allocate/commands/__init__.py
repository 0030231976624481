"""The command line's `allocate`. No Qt."""
