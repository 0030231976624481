"""Stored bits per parameter element: what the weights of a configuration take."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Weight
from espalier.model.packed.layout import Use, stored
from espalier.passes.costs.base import COSTS, Cost, Shares


def parameter_bits(name: str, weight: Weight, uses: Sequence[Use]) -> float:
    """Stored bits of a parameter under its uses: values, masks and what its format shares."""
    return float(sum(p.bits for p in stored(name, weight, uses))) if weight.role == "parameter" else 0.0


def parameters(graph: Graph) -> int:
    """Elements of all parameters; scales that formats are given are part of other weights' bits."""
    scales = {c.scale for n in graph for c in n.precision.values() if c.scale}
    return sum(w.elements for name, w in graph.weights.items() if w.role == "parameter" and name not in scales)


COSTS.add("weight_bits", Cost(
    "weight_bits", "Weight bits", "bits", "low", "stored bits per parameter element, masks and scales included",
    of=lambda graph, score: score.weight_bits,
    shares=Shares(
        weight=parameter_bits,
        figure=lambda total, graph: total / max(parameters(graph), 1),
        amount=lambda figure, graph: figure * parameters(graph),
    ),
))  # fmt: skip
