"""A model, or one node of it, as the hardware computes it, in the place of the float model."""
