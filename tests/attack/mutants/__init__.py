"""Damaged files of every kind, through the functions that the command line uses; `make attack` runs them all."""
