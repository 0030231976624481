"""Timing of a running model: layer times, profiler spans, subgraphs, weights rounded once, explanations."""
