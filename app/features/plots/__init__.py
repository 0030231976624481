"""Curves of a training while it runs."""
