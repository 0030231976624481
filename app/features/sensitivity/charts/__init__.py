"""Sensitivities as a heat map, bars and dots."""
