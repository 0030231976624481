"""Searches: the space of choices, the objective, allocation, studies and their workers."""
