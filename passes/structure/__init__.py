"""Which channels, neurons, heads and layers belong together, and how they are taken out."""
