"""Jobs of the window and the command line: what they are, and the worker process that runs them."""
