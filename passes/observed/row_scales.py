"""Values of the rows of a tensor over several batches, for static scales of heads and channels of a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.model.graph.graph import Graph
from espalier.model.graph.views import view_at
from espalier.passes.base import Context
from espalier.passes.observed.tensor_statistics import PortRef, TensorStatistics

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split

COLUMNS = 8192  # of a row: the values of each batch are thinned to this number in all


class RowValues:
    """Values of each row: a sample, evenly spaced in each batch, and the smallest and largest of all."""

    def __init__(self, batches: int) -> None:
        self.columns = max(COLUMNS // max(batches, 1), 1)
        self.parts: list[Tensor] = []
        self.ends: tuple[Tensor, Tensor] | None = None
        self.statistics = TensorStatistics.empty(0, histogram=False)

    def add(self, rows: Tensor) -> None:
        """Add a batch [..., columns], in the view of its port."""
        rows = rows.detach().float()
        self.statistics.moments.add(rows.reshape(-1, rows.shape[-1]).numpy())
        finite = rows.nan_to_num(0.0, 0.0, 0.0)
        low, high = finite.amin(-1, keepdim=True), finite.amax(-1, keepdim=True)
        self.ends = (low, high) if self.ends is None else (self.ends[0].minimum(low), self.ends[1].maximum(high))
        step = -(-rows.shape[-1] // self.columns)
        self.parts.append(rows[..., ::step].clone())

    def sample(self) -> Tensor:
        """The sample with both ends of each row [..., columns]."""
        import torch

        assert self.ends is not None
        return torch.cat([*self.parts, *self.ends], -1)


def row_values(
    graph: Graph, split: Split, batch_size: int, wanted: list[PortRef], context: Context
) -> dict[PortRef, RowValues]:
    """Run the graph on `split` and collect the rows of each wanted port, before its format."""
    from espalier.passes.running.observing import observe

    batches = -(-len(split) // batch_size)
    found = {ref: RowValues(batches) for ref in wanted}
    ports: dict[str, list[str]] = {}
    for node, port in wanted:
        ports.setdefault(node, []).append(port)

    def sink(node: str, port: str, x: Tensor) -> None:
        view = view_at(graph[node], port)
        found[node, port].add(x if view is None else view.of(x))

    observe(graph, split, batch_size, ports, sink, context)
    return found
