"""The head of a model. Fine-tuning for other classes trains it in full (PEFT's `modules_to_save`)."""

from __future__ import annotations

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import category
from espalier.model.graph.ports import weight_at, weights_of


def head_of(graph: Graph) -> list[Node]:
    """The last layers with stored weights before the outputs. Raises PassError if other layers share their weights."""
    heads: dict[str, Node] = {}
    stack, visited = [r.node for r in graph.output.inputs], set[str]()
    while stack:
        node = graph.nodes[stack.pop()]
        if node.id in visited:
            continue
        visited.add(node.id)
        if category(node) in ("linear", "embedding") and weight_at(node, "weight", graph):
            heads[node.id] = node
        else:
            stack.extend(r.node for r in node.inputs)
    if not heads:
        raise PassError("The model has no head: no layer with weights precedes its outputs.", "Switch train_head off.")
    names = {name for n in heads.values() for name in n.weights.values()}
    other = next((n for n in graph if n.id not in heads for _, w in weights_of(n, graph) if w in names), None)
    if other:
        raise PassError(f"The head shares a weight with {other.id}, which would be trained too.",
                        "Switch train_head off, so that the head gets an adapter.", other.id)  # fmt: skip
    return [n for n in graph if n.id in heads]
