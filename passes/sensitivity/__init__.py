"""Sensitivities: what one pass with gradients tells of every format at every port, and what is measured of it."""
