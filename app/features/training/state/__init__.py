"""Trainings of the open model: what stands behind the panel Training."""
