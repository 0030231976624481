"""The command line's `emit`. No Qt."""
