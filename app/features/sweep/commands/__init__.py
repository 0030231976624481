"""The command line's `sweep`. No Qt."""
