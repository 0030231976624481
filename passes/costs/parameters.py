"""How many parameters a model has: what an architecture costs, whatever their formats."""

from __future__ import annotations

from espalier.passes.costs.base import COSTS, Cost
from espalier.passes.costs.weight_bits import parameters

COSTS.add("parameters", Cost(
    "parameters", "Parameters", "", "low", "elements of all parameters",
    of=lambda graph, score: float(parameters(graph)),
))  # fmt: skip
