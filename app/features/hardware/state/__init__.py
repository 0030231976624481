"""State of the panel Hardware."""
