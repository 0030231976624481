"""The calls of one module in a recorded model, which share one mask."""

from __future__ import annotations

from espalier.model.graph.graph import Graph, Node


def all_calls(nodes: list[Node], graph: Graph) -> list[Node]:
    """`nodes`; in a recorded model with all other calls of their modules, which share one mask."""
    if graph.runs != "module":
        return nodes
    targets = {n.target for n in nodes if n.call == "call_module"}
    ids = {n.id for n in nodes}
    return [n for n in graph if n.id in ids or (n.call == "call_module" and n.target in targets)]
