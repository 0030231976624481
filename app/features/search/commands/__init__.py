"""The command line's `search`, `worker` and `serve-storage`. No Qt."""
