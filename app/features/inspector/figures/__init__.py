"""Computations behind the inspector's charts."""
