"""Predicted divergence of a whole configuration, as in the score, where errors of layers may add up or cancel.

The solver minimises the sum of the layers' divergences; that sum is never shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from espalier.model.graph.graph import Graph, Node
from espalier.passes.allocation.decisions import FLOAT, PortRef
from espalier.passes.sensitivity.combined import CombinedDivergences
from espalier.passes.sensitivity.table import Candidate, Sensitivity


class TotalPredictor:
    """Predicts configurations of a graph; ports without a choice keep what the graph has."""

    def __init__(self, totals: CombinedDivergences, rows: Sequence[Sensitivity], graph: Graph) -> None:
        self._totals = totals
        present_choices = {(r.node, r.port): present(r, graph.nodes[r.node]) for r in rows if r.node in graph.nodes}
        self._rest = {port: c for port, c in present_choices.items() if c != FLOAT}

    def of(self, chosen: Mapping[PortRef, Candidate]) -> float:
        """Divergence in nats a sample; a format that the table lacks counts as 0."""
        return self._totals.of({**self._rest, **chosen})


def present(row: Sensitivity, node: Node) -> Candidate:
    """The present candidate at a row's port."""
    precision, sparsity = node.precision.get(row.port), node.sparsity.get(row.port)
    return Candidate(precision.format if precision else None, sparsity.ratio if sparsity else 0.0,
                     sparsity.method if sparsity else "l1")  # fmt: skip


def divergence_of(row: Sensitivity, node: Node) -> float | None:
    """Divergence of the present candidate at a row's port alone; None if the table lacks it."""
    present_bits = present(row, node)
    if present_bits == FLOAT:
        return 0.0
    return next((kl for c, kl in zip(row.candidates, row.known, strict=True) if c == present_bits), None)
