"""Work beside the window: jobs in a worker process, threads for what takes milliseconds."""
