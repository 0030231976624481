"""Whether a graph is still the circuit that something was measured on, in this process or an earlier one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

from espalier.model.document.graph_json import graph_to_json
from espalier.model.graph.annotation import PLAIN
from espalier.model.graph.graph import Graph, Node

# What says nothing of the circuit: where a node stands in the source, what is written on it.
ASIDE: dict[str, Any] = {"module_path": "", "source": "", "annotation": PLAIN}


def alike(now: Graph, then: Graph, parallel: bool = True) -> bool:
    """Whether two graphs are the same circuit; `parallel`: also in what is computed at once."""
    if now is then:
        return True
    if now.nodes.keys() != then.nodes.keys() or now.symbols != then.symbols:
        return False
    pairs = ((a, then.nodes[a.id]) for a in now)
    same = all(a is b or _plain(a, parallel) == _plain(b, parallel) for a, b in pairs)
    return same and _keys(now) == _keys(then)


def _plain(node: Node, parallel: bool) -> Node:
    return replace(node, **ASIDE, parallel=node.parallel if parallel else None)


def _keys(graph: Graph) -> dict[str, str | None]:
    return {name: w.key for name, w in graph.weights.items()}


def mark_of(graph: Graph, parallel: bool = True) -> str:
    """Equal for equal circuits, in any process."""
    plain = replace(graph, nodes={n.id: _plain(n, parallel) for n in graph})
    data = graph_to_json(plain)
    data["weights"] = _keys(graph)
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
