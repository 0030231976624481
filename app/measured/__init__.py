"""Measurements and estimates of the open model: scores, sensitivities, quantisation errors."""
