"""The layer that gives a model's results: fine-tuning on other classes trains it whole (PEFT's modules_to_save)."""

from __future__ import annotations

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import category
from espalier.model.graph.ports import weight_at, weights_of


def head_of(graph: Graph) -> list[Node]:
    """The last layers with stored weights before the outputs; raises PassError where other layers share them."""
    found: dict[str, Node] = {}
    left, seen = [r.node for r in graph.output.inputs], set[str]()
    while left:
        node = graph.nodes[left.pop()]
        if node.id in seen:
            continue
        seen.add(node.id)
        if category(node) in ("linear", "embedding") and weight_at(node, "weight", graph):
            found[node.id] = node
        else:
            left.extend(r.node for r in node.inputs)
    if not found:
        raise PassError("No layer gives the model's results, so there is no head to train.", "Leave train_head out.")
    names = {name for n in found.values() for name in n.weights.values()}
    other = next((n for n in graph if n.id not in found for _, w in weights_of(n, graph) if w in names), None)
    if other:
        raise PassError(f"The head shares a weight with {other.id}, which would train with it.",
                        "Leave train_head out: the head then has an adapter like the others.", other.id)  # fmt: skip
    return [n for n in graph if n.id in found]
