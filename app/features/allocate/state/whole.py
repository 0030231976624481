"""What a configuration is predicted to cost as a whole, as the score says it: layers' errors add up or cancel.

What is made least is the sum of the layers' own divergences; that sum is never shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from espalier.model.graph.graph import Graph, Node
from espalier.passes.allocation.decisions import FLOAT, Place
from espalier.passes.sensitivity.combined import Wholes
from espalier.passes.sensitivity.table import Candidate, Sensitivity


class Told:
    """Configurations over a graph: what is chosen, and elsewhere what the graph has."""

    def __init__(self, wholes: Wholes, rows: Sequence[Sensitivity], graph: Graph) -> None:
        self._wholes = wholes
        has = {(r.node, r.port): present(r, graph.nodes[r.node]) for r in rows if r.node in graph.nodes}
        self._rest = {place: c for place, c in has.items() if c != FLOAT}

    def of(self, chosen: Mapping[Place, Candidate]) -> float:
        """The divergence in nats a sample; a format given by hand that the table lacks counts nothing."""
        return self._wholes.of({**self._rest, **chosen})


def present(row: Sensitivity, node: Node) -> Candidate:
    """What a row's port has now."""
    precision, sparsity = node.precision.get(row.port), node.sparsity.get(row.port)
    return Candidate(precision.format if precision else None, sparsity.ratio if sparsity else 0.0,
                     sparsity.method if sparsity else "l1")  # fmt: skip


def lost(row: Sensitivity, node: Node) -> float | None:
    """What the present choice at a row's port costs by itself, as the table has it; None where it is not in it."""
    now = present(row, node)
    if now == FLOAT:
        return 0.0
    return next((kl for c, kl in zip(row.candidates, row.known, strict=True) if c == now), None)
