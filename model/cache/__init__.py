"""What was computed before, kept on disk by content: captured graphs, and scores."""
