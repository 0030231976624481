"""Nodes that correspond to one another: at the same place of repeated blocks, or of the same operation."""

from __future__ import annotations

import re
from collections import Counter

from espalier.model.graph.graph import Graph, Node

_NUMBER = re.compile(r"(?<![^.])[0-9]+(?![^.])")  # a whole part of a module's path


def twins(graph: Graph, node: Node) -> tuple[str, ...]:
    """The nodes at the same place of the other blocks: equal operations whose paths differ in the block's number alone.

    A function has no path of its own: it is the n-th of its operation in its module.
    """
    places, count = dict[str, tuple[str, int]](), Counter[str]()
    for each in graph:
        if each.op == node.op:
            path = each.target if each.call == "call_module" else each.module_path
            count[path] += 1
            places[each.id] = _NUMBER.sub("#", path, count=1), count[path]
    place = places[node.id]
    return tuple(i for i, p in places.items() if p == place) if "#" in place[0] else (node.id,)


def alike(graph: Graph, node: Node) -> tuple[str, ...]:
    """All nodes of the same operation."""
    return tuple(n.id for n in graph if n.op == node.op)
