"""Statistics of the tensors at ports during a run on data; no tensor outlives its batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import base_port, floating
from espalier.model.graph.ports import choice
from espalier.model.graph.views import View, view_at
from espalier.passes.base import Context
from espalier.passes.observed.histogram import Histogram
from espalier.passes.observed.moments import Moments
from espalier.passes.observed.sample import RowSample

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split

PortRef = tuple[str, str]


@dataclass(slots=True)
class TensorStatistics:
    """Statistics of one tensor; `histogram` is optional."""

    sample: RowSample
    histogram: Histogram | None = None
    moments: Moments = field(default_factory=Moments)

    @classmethod
    def empty(cls, seed: int, histogram: bool = True) -> TensorStatistics:
        """Statistics without values."""
        return cls(RowSample(seed), Histogram() if histogram else None)

    def add(self, rows: NDArray[Any]) -> None:
        """Add a floating-point array [n, row] in the view of the port."""
        self.moments.add(rows)
        self.sample.add(rows)
        if self.histogram is not None:
            self.histogram.add(rows)


def stream(
    graph: Graph,
    split: Split,
    batch_size: int,
    wanted: Mapping[PortRef, tuple[str, ...]],
    context: Context,
    histogram: bool = True,
) -> dict[PortRef, TensorStatistics]:
    """Run the graph on `split`; statistics of each wanted port, before its format.

    `wanted`: (node, port) → the ports of the node whose tensors count together (`operands`). Raises DataError for unfit
    data.
    """
    from espalier.passes.running.observing import observe

    statistics: dict[PortRef, TensorStatistics] = {}
    ports, port_of = port_map(wanted)

    def sink(node: str, port: str, x: Tensor) -> None:
        target = port_of[node, port]
        if target not in statistics:
            statistics[target] = TensorStatistics.empty(context.seed, histogram)
        statistics[target].add(rows_of(x, view_at(graph[node], port)))

    observe(graph, split, batch_size, ports, sink, context)
    return statistics


def port_map(wanted: Mapping[PortRef, tuple[str, ...]]) -> tuple[dict[str, list[str]], dict[PortRef, PortRef]]:
    """(node → ports to observe, observed port → wanted port)."""
    port_of = {(node, p): (node, port) for (node, port), ports in wanted.items() for p in ports}
    ports: dict[str, list[str]] = {}
    for node, port in port_of:
        ports.setdefault(node, []).append(port)
    return ports, port_of


def operands(node: Node, port: str) -> tuple[str, ...]:
    """The ports that take their format from `port`: data_in also applies to data_in_1, data_in_2, ….

    A static scale is of one tensor and applies to `port` only.
    """
    precision = choice(node, port)
    if precision is not None and isinstance(precision.format, ScaledFormat):
        return (port,)
    return tuple(p for p, meta in node.ports.items() if base_port(p) == port and floating(meta))


def rows_of(x: Tensor, view: View | None) -> NDArray[Any]:
    """A tensor of any rank as an array [n, row] in the view of its port."""
    viewed = (x if view is None else view.of(x)).detach()
    plain = viewed if viewed.dtype.itemsize == 8 else viewed.float()
    return plain.reshape(-1, plain.shape[-1] if plain.dim() else 1).cpu().numpy()
