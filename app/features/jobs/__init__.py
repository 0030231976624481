"""All jobs of this run."""
