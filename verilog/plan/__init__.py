"""What of a graph becomes hardware, and how it is laid out before modules are chosen."""
