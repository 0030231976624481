"""Stored bits of what flows into layers and matmuls, mean over its elements."""

from __future__ import annotations

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import spec
from espalier.passes.costs.base import COSTS, Cost, Shares
from espalier.passes.score import multiplied_elements, one_sample, port_bits


def flowing_bits(node: Node, graph: Graph) -> float:
    """Bits of all that a node multiplies in one sample."""
    sizes = one_sample(graph)
    return multiplied_elements(node, sizes) * port_bits(node, "data_in", sizes) if spec(node.op).macs else 0.0


def flowing(graph: Graph) -> int:
    """Elements that are multiplied in one sample."""
    sizes = one_sample(graph)
    return sum(multiplied_elements(n, sizes) for n in graph if spec(n.op).macs)


COSTS.add("activation_bits", Cost(
    "activation_bits", "Activation bits", "bits", "low", "stored bits of data_in, mean over the multiplied elements",
    of=lambda graph, score: score.activation_bits,
    shares=Shares(
        node=flowing_bits,
        ports=("data_in",),
        figure=lambda total, graph: total / max(flowing(graph), 1),
        amount=lambda figure, graph: figure * flowing(graph),
    ),
))  # fmt: skip
