"""What differs between two graphs: pairs of nodes, changes, groups of equal changes, scores. Free of torch."""
