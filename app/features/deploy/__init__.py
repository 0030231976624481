"""Distributed deployment: plans over devices, launches, and the panel Deploy."""
