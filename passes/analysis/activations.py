"""A sample of what flows through every port that can be quantised, for histograms and for choosing formats."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import quantisable
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.observed.options import ObserveOptions

MOST = 1 << 14  # values of a port that are handed on


@dataclass(frozen=True, slots=True)
class ActivationOptions(ObserveOptions):
    """The data, and how much of it."""

    limit: int = field(default=16, metadata={"min": 0, "help": "maximum number of samples; 0 = all"})


@dataclass(frozen=True, slots=True)
class ActivationSample:
    """Rows [n, row] of a port's tensor before its own format, as formats see them; float32.

    `elements` of the data that was run were seen, in `least` … `most`.
    """

    node: str
    port: str
    rows: NDArray[np.float32]
    elements: int
    least: float
    most: float


@analysis("activations", "Activations", ActivationOptions)
def activations(graph: Graph, options: ActivationOptions, context: Context) -> tuple[Graph, Report]:
    """Per port that takes an activation: range, mean, deviation and zeros on the data."""
    from espalier.passes.observed.tensor_statistics import operands, stream
    from espalier.passes.running.splits import load_split

    split = load_split(options, context)
    wanted = {(n.id, p): operands(n, p) for n in graph for p in activation_ports(n)}
    found = stream(graph, split, min(options.batch_size, len(split)), wanted, context, histogram=False)
    rows: list[Row] = []
    for (node, port), seen in found.items():
        kept, moments = seen.sample.rows, seen.moments
        kept = kept[: max(1, MOST // max(kept.shape[1], 1))]
        context.found(ActivationSample(node, port, kept.copy(), moments.count, moments.low, moments.high))
        figures = {"min": moments.low, "max": moments.high, "mean": moments.mean, "std": moments.variance**0.5}
        zeros = moments.zeros / max(moments.count, 1)
        rows.append({"node": node, "port": port, "elements": moments.count, **figures, "zeros": zeros})
    return graph, Report("activations", tuple(rows), {"samples": len(split), "ports": len(rows)})


def activation_ports(node: Node) -> tuple[str, ...]:
    """The ports of a node that take or give a computed tensor of floats, under the names of their formats."""
    return tuple(p for p in quantisable(node) if p.startswith("data"))
