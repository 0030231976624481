"""Identity of circuits: whether a graph still is the one that a measurement was made of, also in a later process."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

from espalier.model.document.graph_json import graph_to_json
from espalier.model.graph.annotation import PLAIN
from espalier.model.graph.graph import Graph, Node

# Fields of a node that do not affect the circuit.
IGNORED: dict[str, Any] = {"module_path": "", "source": "", "annotation": PLAIN}


def is_same_circuit(now: Graph, then: Graph, parallel: bool = True) -> bool:
    """Whether two graphs give the same circuit; `parallel`: also compare the parallelism of their nodes."""
    if now is then:
        return True
    if now.nodes.keys() != then.nodes.keys() or now.symbols != then.symbols:
        return False
    pairs = ((a, then.nodes[a.id]) for a in now)
    same = all(a is b or _plain(a, parallel) == _plain(b, parallel) for a, b in pairs)
    return same and _keys(now) == _keys(then)


def _plain(node: Node, parallel: bool) -> Node:
    return replace(node, **IGNORED, parallel=node.parallel if parallel else None)


def _keys(graph: Graph) -> dict[str, str | None]:
    return {name: w.key for name, w in graph.weights.items()}


def circuit_fingerprint(graph: Graph, parallel: bool = True) -> str:
    """A hash that is equal for equal circuits, in any process (BLAKE2b, 128 bits, hexadecimal)."""
    plain = replace(graph, nodes={n.id: _plain(n, parallel) for n in graph})
    data = graph_to_json(plain)
    data["weights"] = _keys(graph)
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
