"""What flows through ports while a model runs on data, as figures: no tensor outlives its batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from espalier.model.formats.scaled import ScaledFormat
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import base_port, floating
from espalier.model.graph.views import View, view_at
from espalier.passes.base import Context
from espalier.passes.observed.histogram import Histogram
from espalier.passes.observed.moments import Moments
from espalier.passes.observed.sample import RowSample

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.model.data.base import Split

Place = tuple[str, str]


@dataclass(slots=True)
class Observed:
    """The figures of one tensor. `histogram` is None where none was wanted."""

    sample: RowSample
    histogram: Histogram | None = None
    moments: Moments = field(default_factory=Moments)

    @classmethod
    def begun(cls, seed: int, histogram: bool = True) -> Observed:
        """Of nothing yet."""
        return cls(RowSample(seed), Histogram() if histogram else None)

    def add(self, rows: NDArray[Any]) -> None:
        """Take in a floating array [n, row]: rows as the port's format sees them."""
        self.moments.add(rows)
        self.sample.add(rows)
        if self.histogram is not None:
            self.histogram.add(rows)


def stream(
    graph: Graph,
    split: Split,
    batch_size: int,
    wanted: Mapping[Place, tuple[str, ...]],
    context: Context,
    histogram: bool = True,
) -> dict[Place, Observed]:
    """Run the graph on `split`; the figures of each wanted place, before its own format.

    `wanted`: (node, port) → the ports of the node whose tensors count as one there (`operands`). Raises DataError where
    the data does not fit the model.
    """
    from espalier.passes.running.observing import observe

    found: dict[Place, Observed] = {}
    ports, place_of = told(wanted)

    def sink(node: str, port: str, x: Tensor) -> None:
        place = place_of[node, port]
        if place not in found:
            found[place] = Observed.begun(context.seed, histogram)
        found[place].add(rows_of(x, view_at(graph[node], port)))

    observe(graph, split, batch_size, ports, sink, context)
    return found


def told(wanted: Mapping[Place, tuple[str, ...]]) -> tuple[dict[str, list[str]], dict[Place, Place]]:
    """What `observe` is asked for, node → ports, and to which place each of these belongs."""
    place_of = {(node, p): (node, port) for (node, port), ports in wanted.items() for p in ports}
    ports: dict[str, list[str]] = {}
    for node, port in place_of:
        ports.setdefault(node, []).append(port)
    return ports, place_of


def operands(node: Node, port: str) -> tuple[str, ...]:
    """The ports that take their format from `port`: data_in stands for data_in_1, data_in_2, … too.

    A scale from outside is of one tensor and holds for `port` alone.
    """
    held = node.precision.get(port)
    if held is not None and isinstance(held.format, ScaledFormat):
        return (port,)
    return tuple(p for p, meta in node.ports.items() if base_port(p) == port and floating(meta))


def rows_of(x: Tensor, view: View | None) -> NDArray[Any]:
    """A tensor of any rank as an array [n, row] in the view of its port."""
    seen = (x if view is None else view.of(x)).detach()
    plain = seen if seen.dtype.itemsize == 8 else seen.float()
    return plain.reshape(-1, plain.shape[-1] if plain.dim() else 1).cpu().numpy()
