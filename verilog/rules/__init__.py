"""Lowering rules, one file per family of ops: from a node of the graph to instances of templates."""
