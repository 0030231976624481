"""What weights and activations look like: one tensor, or one batch, in memory at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Sparsity
from espalier.model.graph.ops import quantisable
from espalier.model.graph.ports import weight_at, weights_of
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.observed.chunks import FINITE
from espalier.passes.observed.moments import Moments
from espalier.passes.observed.options import ObserveOptions
from espalier.passes.observed.stored_tensors import NO_WEIGHTS
from espalier.passes.observed.tensor_statistics import Place, TensorStatistics, operands, stream

Floats = NDArray[np.float32]
QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)


@dataclass(frozen=True, slots=True)
class StatisticsOptions(ObserveOptions):
    """Data to see activations on, and how wide the range around the mean is."""

    sigmas: float = field(default=3.0, metadata={"min": 0.0, "max": 100.0, "help": "mean ± so many deviations"})


@analysis("statistics", "Statistics", StatisticsOptions)
def statistics(graph: Graph, options: StatisticsOptions, context: Context) -> tuple[Graph, Report]:
    """Range, mean, deviation, mean magnitude, quantiles and zeros of each weight, pruned as chosen.

    One row per parameter and floating buffer, each once however many nodes share it; with data also one per activation
    that can be quantised, before its format (quantiles to 1/2000 of its range). Figures are of finite elements;
    `not_finite` counts the others, and what a mask puts below −1e30. Deviations divide by n.
    """
    masks = _masks(graph)
    names = [n for n, w in graph.weights.items() if w.dtype.startswith(("float", "bfloat")) and w.elements]
    users = _users(graph)
    rows: list[Row] = []
    for i, name in enumerate(names):
        context.progress(i, len(names), name)
        place = users.get(name, (None, None))
        rows.append(_row(name, place, graph, context.store, masks.get(name), options.sigmas))
    totals = {k: sum(r[k] for r in rows) for k in ("elements", "zeros")}
    summary: Row = {"weights": len(rows), **totals}
    if options.data:
        seen = _activations(graph, options, context)
        rows, summary = [*rows, *seen], {**summary, "activations": len(seen)}
    return graph, Report("statistics", tuple(rows), summary)


def _users(graph: Graph) -> dict[str, tuple[str, str]]:
    """Weight → the first (node, port) that reads it."""
    found: dict[str, tuple[str, str]] = {}
    for node in graph:
        for port, name in weights_of(node, graph):
            found.setdefault(name, (node.id, port))
    return found


def _activations(graph: Graph, options: StatisticsOptions, context: Context) -> list[Row]:
    from espalier.passes.running.splits import load_split

    split = load_split(options, context)
    places = [(n, p) for n in graph for p in quantisable(n) if weight_at(n, p, graph) is None]
    wanted = {(n.id, p): operands(n, p) for n, p in places}
    found = stream(graph, split, options.batch_size, wanted, context)
    return [_streamed((n.id, p), graph, found[n.id, p], options.sigmas) for n, p in places if (n.id, p) in found]


def _streamed(place: Place, graph: Graph, found: TensorStatistics, sigmas: float) -> Row:
    node, port = place
    meta, moments, histogram = graph[node].ports[port], found.moments, found.histogram
    quantiles = [histogram.quantile(q) for q in QUANTILES] if histogram and moments.count else [None] * len(QUANTILES)
    return {
        "weight": f"{node}.{port}",
        "node": node,
        "port": port,
        "role": "activation",
        "shape": meta.shape,
        "dtype": meta.dtype,
        "elements": moments.count + moments.not_finite,
        **_figures(moments, quantiles, sigmas),
    }


def _masks(graph: Graph) -> dict[str, Sparsity]:
    found = ((weight_at(n, p, graph), s) for n in graph for p, s in n.sparsity.items())
    return {name: s for name, s in found if name is not None}


def read(name: str, graph: Graph, store: WeightStore) -> Floats:
    """A weight's stored values, flat float32; raises PassError for a model without weights."""
    key = graph.weights[name].key
    if key is None:
        raise PassError(*NO_WEIGHTS)
    return store.get(key).float32().reshape(-1)


def keep(sparsity: Sparsity, elements: int, store: WeightStore) -> NDArray[np.bool_] | None:
    """The mask of a pruned weight, flat, True = kept."""
    if sparsity.mask is None:
        return None
    packed: NDArray[Any] = store.get(sparsity.mask).array
    return np.unpackbits(packed.astype(np.uint8), count=elements).astype(bool)


def _row(
    name: str,
    place: tuple[str | None, str | None],
    graph: Graph,
    store: WeightStore,
    sparsity: Sparsity | None,
    sigmas: float,
) -> Row:
    weight, values = graph.weights[name], read(name, graph, store)
    kept = keep(sparsity, weight.elements, store) if sparsity else None
    if kept is not None:
        values = np.where(kept, values, np.float32(0))
    moments = Moments()
    moments.add(values)
    finite = values[np.abs(values) < FINITE] if moments.not_finite else values
    quantiles = [float(q) for q in np.quantile(finite, QUANTILES)] if finite.size else [None] * len(QUANTILES)
    return {
        "weight": name,
        "node": place[0],
        "port": place[1],
        "role": weight.role,
        "shape": weight.shape,
        "dtype": weight.dtype,
        "elements": weight.elements,
        **_figures(moments, quantiles, sigmas),
    }


def _figures(found: Moments, quantiles: Sequence[float | None], sigmas: float) -> Row:
    names = ("min", "max", "mean", "std", "variance", "sigma_low", "sigma_high", "abs_mean")
    std = math.sqrt(found.variance)
    values = (found.low, found.high, found.mean, std, found.variance, found.mean - sigmas * std,
              found.mean + sigmas * std, found.abs_mean)  # fmt: skip
    known = dict(zip(names, values, strict=True)) if found.count else dict.fromkeys(names)
    shares = {f"q{round(q * 100):02d}": v for q, v in zip(QUANTILES, quantiles, strict=True)}
    return {**known, **shares, "zeros": found.zeros, "not_finite": found.not_finite}
