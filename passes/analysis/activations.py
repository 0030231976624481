"""Samples the tensors at every quantisable port, for histograms and for choosing formats."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import quantisable
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.observed.options import ObserveOptions

MAX_VALUES = 1 << 14  # of a port's sample


@dataclass(frozen=True, slots=True)
class ActivationOptions(ObserveOptions):
    """The data and the number of samples."""

    limit: int = field(default=16, metadata={"min": 0, "help": "maximum number of samples; 0 = all"})


@dataclass(frozen=True, slots=True)
class ActivationSample:
    """A sample of `rows` [n, row] of a port's tensor in the view of its format, before it; float32.

    `elements`: number of elements on the data, in the range `least` … `most`.
    """

    node: str
    port: str
    rows: NDArray[np.float32]
    elements: int
    least: float
    most: float


@analysis("activations", "Activations", ActivationOptions)
def activations(graph: Graph, options: ActivationOptions, context: Context) -> tuple[Graph, Report]:
    """Range, mean, deviation and zeros of each activation on the data."""
    from espalier.passes.observed.tensor_statistics import operands, stream
    from espalier.passes.running.splits import load_split

    split = load_split(options, context)
    ports = {(n.id, p): operands(n, p) for n in graph for p in activation_ports(n)}
    statistics = stream(graph, split, min(options.batch_size, len(split)), ports, context, histogram=False)
    rows: list[Row] = []
    for (node, port), observed in statistics.items():
        sample, moments = observed.sample.rows, observed.moments
        sample = sample[: max(1, MAX_VALUES // max(sample.shape[1], 1))]
        context.found(ActivationSample(node, port, sample.copy(), moments.count, moments.low, moments.high))
        figures = {"min": moments.low, "max": moments.high, "mean": moments.mean, "std": moments.variance**0.5}
        zeros = moments.zeros / max(moments.count, 1)
        rows.append({"node": node, "port": port, "elements": moments.count, **figures, "zeros": zeros})
    return graph, Report("activations", tuple(rows), {"samples": len(split), "ports": len(rows)})


def activation_ports(node: Node) -> tuple[str, ...]:
    """The quantisable ports of a node with computed tensors."""
    return tuple(p for p in quantisable(node) if p.startswith("data"))
