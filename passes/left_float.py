"""What a preset leaves in float: the share of the parameters by operation, and how to reach it."""

from __future__ import annotations

from collections import Counter

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import base_port, quantisable
from espalier.model.graph.ports import choice, weights_of

SMALLEST = 0.005  # share of an operation that is named


def left_float(graph: Graph) -> str:
    """Sentences on the parameters without a format; empty if they are fewer than SMALLEST of all.

    A weight that is transposed or reshaped before its product is stored as it is: formats of the product round it in
    the run alone.
    """
    elements = {n: w.elements for n, w in graph.weights.items() if w.role == "parameter"}
    readers, chosen = dict[str, Node](), set[str]()
    reached = set[str]()
    for node in graph:
        for port, name in weights_of(node, graph):
            readers.setdefault(name, node)
            if port and choice(node, port) is not None:
                chosen.add(name)
            if port and base_port(port) in quantisable(node):
                reached.add(name)
    total, left = sum(elements.values()), [n for n in elements if n in readers and n not in chosen]
    sizes, reachable = Counter[str](), Counter[str]()
    for name in left:
        sizes[readers[name].op] += elements[name]
        reachable[readers[name].op] += elements[name] if name in reached else 0
    if not total or sum(sizes.values()) < SMALLEST * total:
        return ""
    named = {op: n for op, n in sizes.most_common() if n >= SMALLEST * total}
    parts = ", ".join(f"{op} {n / total:.0%}" for op, n in named.items())
    apart = [op for op in named if not reachable[op]]
    reach = [op for op in named if reachable[op]]
    texts = [f"{sum(sizes.values()) / total:.0%} of the parameters stay float ({parts})."]
    if reach:
        texts.append(f'quantize("all", weight = …) reaches {", ".join(reach)}.')
    if apart:
        texts.append(f"Weights that are read through {', '.join(apart)} are always stored in float.")
    return " ".join(texts)
