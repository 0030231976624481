"""Corresponding nodes: at the same position of repeated blocks, or of the same operation."""

from __future__ import annotations

import re
from collections import Counter

from espalier.model.graph.graph import Graph, Node

PATH_NUMBER = re.compile(r"(?<![^.])[0-9]+(?![^.])")  # a component of a module's path that is a number


def twins(graph: Graph, node: Node) -> tuple[str, ...]:
    """The nodes at the same position in all blocks: equal operations whose paths differ only in the block's number.

    A function has no path: it is identified as the n-th of its operation in its module.
    """
    positions, count = dict[str, tuple[str, int]](), Counter[str]()
    for other in graph:
        if other.op == node.op:
            path = other.target if other.call == "call_module" else other.module_path
            count[path] += 1
            positions[other.id] = PATH_NUMBER.sub("#", path, count=1), count[path]
    position = positions[node.id]
    return tuple(i for i, p in positions.items() if p == position) if "#" in position[0] else (node.id,)


def alike(graph: Graph, node: Node) -> tuple[str, ...]:
    """All nodes of the same operation."""
    return tuple(n.id for n in graph if n.op == node.op)
