"""What the weights look like: one tensor in memory at a time, numpy alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.errors import PassError
from model.graph import Graph
from model.meta import Sparsity
from model.weights import WeightStore
from passes.base import Context, NoOptions, Report, Row, analysis

Floats = NDArray[np.float32]
NO_WEIGHTS = (
    "The model was opened without weights, so there is nothing to measure.",
    "Open it with weights.",
)
QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)


@analysis("statistics", "Weight statistics")
def statistics(graph: Graph, options: NoOptions, context: Context) -> tuple[Graph, Report]:
    """Range, mean, deviation, mean magnitude, quantiles and zeros of each weight, pruned as chosen.

    One row per parameter and floating buffer, each once however many nodes share it. Figures are of finite
    elements; `not_finite` counts the others.
    """
    masks = _masks(graph)
    names = [n for n, w in graph.weights.items() if w.dtype.startswith(("float", "bfloat")) and w.elements]
    rows: list[Row] = []
    for i, name in enumerate(names):
        context.progress(i, len(names), name)
        rows.append(_row(name, graph, context.store, masks.get(name)))
    totals = {k: sum(r[k] for r in rows) for k in ("elements", "zeros")}
    return graph, Report("statistics", tuple(rows), {"weights": len(rows), **totals})


def _masks(graph: Graph) -> dict[str, Sparsity]:
    return {n.weights[p]: s for n in graph for p, s in n.sparsity.items() if p in n.weights}


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


def _row(name: str, graph: Graph, store: WeightStore, sparsity: Sparsity | None) -> Row:
    weight, values = graph.weights[name], read(name, graph, store)
    kept = keep(sparsity, weight.elements, store) if sparsity else None
    if kept is not None:
        values = np.where(kept, values, np.float32(0))
    finite = values[np.isfinite(values)]
    return {
        "weight": name,
        "role": weight.role,
        "shape": weight.shape,
        "dtype": weight.dtype,
        "elements": weight.elements,
        **_figures(finite),
        "zeros": int(np.count_nonzero(values == 0)),
        "not_finite": values.size - finite.size,
    }


def _figures(values: Floats) -> Row:
    names = ("min", "max", "mean", "std", "abs_mean", *(f"q{round(q * 100):02d}" for q in QUANTILES))
    if not values.size:
        return dict.fromkeys(names)
    found = [
        values.min(),
        values.max(),
        values.mean(dtype=np.float64),
        values.std(dtype=np.float64),
        np.abs(values).mean(dtype=np.float64),
        *np.quantile(values, QUANTILES),
    ]
    return {n: float(v) for n, v in zip(names, found, strict=True)}
