"""What differs between two models, as a report of the Python interface."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.app.api.reports import Report
from espalier.app.figures.difference import compared
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Report):
    """Difference of two models: a row a change, with `node`, `what`, `before` and `after`.

    Figures: numbers of added, removed and changed nodes; costs of both, such as `size_bytes` and
    `size_bytes_before`. False if nothing differs.
    """

    def __bool__(self) -> bool:
        return bool(self.table)


def difference(before: Graph, after: Graph, stores: tuple[WeightStore, WeightStore] | None = None) -> Difference:
    """What turned one graph into the other; with both stores, by how much weights changed."""
    figures, rows = compared(before, after, stores)
    return Difference("difference", figures, rows)
