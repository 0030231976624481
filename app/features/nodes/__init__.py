"""The table of all nodes: facts and choices as columns, filtered by text or expression."""
