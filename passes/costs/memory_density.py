"""How many times less the parameters take than in 32 bits each."""

from __future__ import annotations

from espalier.passes.costs.base import COSTS, Cost, Shares
from espalier.passes.costs.weight_bits import parameter_bits, parameters
from espalier.passes.score import FLOAT_BITS

COSTS.add("memory_density", Cost(
    "memory_density", "Memory density", "×", "high", "32 × elements over the bits that the parameters take",
    of=lambda graph, score: score.memory_density,
    shares=Shares(
        weight=parameter_bits,
        figure=lambda total, graph: FLOAT_BITS * parameters(graph) / total if total else 0.0,
        amount=lambda figure, graph: FLOAT_BITS * parameters(graph) / figure if figure > 0 else float("inf"),
        falls=True,
    ),
))  # fmt: skip
