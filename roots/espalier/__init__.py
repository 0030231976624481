"""Espalier: see a neural network as a graph, make it smaller, and carry it to kernels and hardware."""
