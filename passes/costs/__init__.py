"""Costs of a configuration: one file adds one, and searches, budgets and charts know it by its name."""
