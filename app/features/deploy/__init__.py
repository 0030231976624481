"""Distributed deployment: plans, launches and what they show."""
