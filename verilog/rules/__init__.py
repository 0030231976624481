"""One file per family of ops: how a node of the graph becomes instances of templates."""
