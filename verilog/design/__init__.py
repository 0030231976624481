"""A design in memory: streams, templates, instances and wires, and what the host computes for it."""
