"""The share of zeros among the weights of Linear and convolution layers."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Weight
from espalier.model.graph.ops import spec
from espalier.model.graph.ports import weight_at
from espalier.model.packed.layout import Use
from espalier.passes.costs.base import COSTS, Cost, Shares


def zeros(name: str, weight: Weight, uses: Sequence[Use]) -> float:
    """Elements that masks remove of a weight."""
    return float(max((u.zeros for u in uses), default=0))


def layers(graph: Graph) -> int:
    """Elements of the weights that can be pruned, each once."""
    names = {weight_at(n, "weight", graph) for n in graph if spec(n.op).category == "linear"}
    return sum(graph.weights[name].elements for name in names if name is not None)


COSTS.add("sparsity", Cost(
    "sparsity", "Sparsity", "share", "high", "zeros over elements of Linear and convolution weights",
    of=lambda graph, score: score.sparsity,
    shares=Shares(
        weight=zeros,
        figure=lambda total, graph: total / max(layers(graph), 1),
        amount=lambda figure, graph: figure * layers(graph),
    ),
))  # fmt: skip
