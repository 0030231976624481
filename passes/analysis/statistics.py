"""Statistics of weights and activations, with one tensor or one batch in memory at a time."""

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
from espalier.passes.observed.tensor_statistics import PortRef, TensorStatistics, operands, stream

Floats = NDArray[np.float32]
QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)


@dataclass(frozen=True, slots=True)
class StatisticsOptions(ObserveOptions):
    """Data for activations, and the width of the range around the mean."""

    sigmas: float = field(default=3.0, metadata={"min": 0.0, "max": 100.0, "help": "mean ± so many deviations"})


@analysis("statistics", "Statistics", StatisticsOptions)
def statistics(graph: Graph, options: StatisticsOptions, context: Context) -> tuple[Graph, Report]:
    """Range, mean, deviation, mean magnitude, quantiles and zeros of each masked weight.

    One row per parameter and floating buffer, shared ones once; with data also one per quantisable activation, before
    its format (quantiles to 1/2000 of its range). Figures are of finite elements; `not_finite` counts the others, and
    values below −1e30, which attention masks use. Deviations divide by n.
    """
    masks = _masks(graph)
    names = [n for n, w in graph.weights.items() if w.dtype.startswith(("float", "bfloat")) and w.elements]
    users = _users(graph)
    rows: list[Row] = []
    for i, name in enumerate(names):
        context.progress(i, len(names), name)
        user = users.get(name, (None, None))
        rows.append(_row(name, user, graph, context.store, masks.get(name), options.sigmas))
    totals = {k: sum(r[k] for r in rows) for k in ("elements", "zeros")}
    summary: Row = {"weights": len(rows), **totals}
    if options.data:
        activations = _activations(graph, options, context)
        rows, summary = [*rows, *activations], {**summary, "activations": len(activations)}
    return graph, Report("statistics", tuple(rows), summary)


def _users(graph: Graph) -> dict[str, tuple[str, str]]:
    """Weight → the first (node, port) that reads it."""
    users: dict[str, tuple[str, str]] = {}
    for node in graph:
        for port, name in weights_of(node, graph):
            users.setdefault(name, (node.id, port))
    return users


def _activations(graph: Graph, options: StatisticsOptions, context: Context) -> list[Row]:
    from espalier.passes.running.splits import load_split

    split = load_split(options, context)
    refs = [(n.id, p) for n in graph for p in quantisable(n) if weight_at(n, p, graph) is None]
    ports = {(node, p): operands(graph[node], p) for node, p in refs}
    observed = stream(graph, split, options.batch_size, ports, context)
    return [_activation(ref, graph, observed[ref], options.sigmas) for ref in refs if ref in observed]


def _activation(ref: PortRef, graph: Graph, observed: TensorStatistics, sigmas: float) -> Row:
    node, port = ref
    meta, moments, histogram = graph[node].ports[port], observed.moments, observed.histogram
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
    pairs = ((weight_at(n, p, graph), s) for n in graph for p, s in n.sparsity.items())
    return {name: s for name, s in pairs if name is not None}


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
    user: tuple[str | None, str | None],
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
        "node": user[0],
        "port": user[1],
        "role": weight.role,
        "shape": weight.shape,
        "dtype": weight.dtype,
        "elements": weight.elements,
        **_figures(moments, quantiles, sigmas),
    }


def _figures(moments: Moments, quantiles: Sequence[float | None], sigmas: float) -> Row:
    names = ("min", "max", "mean", "std", "variance", "sigma_low", "sigma_high", "abs_mean")
    std = math.sqrt(moments.variance)
    values = (moments.low, moments.high, moments.mean, std, moments.variance, moments.mean - sigmas * std,
              moments.mean + sigmas * std, moments.abs_mean)  # fmt: skip
    figures = dict(zip(names, values, strict=True)) if moments.count else dict.fromkeys(names)
    shares = {f"q{round(q * 100):02d}": v for q, v in zip(QUANTILES, quantiles, strict=True)}
    return {**figures, **shares, "zeros": moments.zeros, "not_finite": moments.not_finite}
