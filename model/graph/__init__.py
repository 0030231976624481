"""The graph: nodes, ports, ops, what is chosen on them, and what is wrong with it."""
