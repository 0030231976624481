"""The command line's `shard`. No Qt."""
