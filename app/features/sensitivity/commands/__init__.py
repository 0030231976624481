"""The command line's `sensitivity`. No Qt."""
