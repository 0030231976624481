"""Serving a sharded model under load: requests, batches, answers, and restarts of ranks."""
