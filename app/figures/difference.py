"""Differences between two models: nodes, formats, sparsities, edges, weights by norm, costs. Free of Qt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Graph, Node
from espalier.model.store.weights import Tensor, WeightStore
from espalier.passes.score import static_score

Row = dict[str, Any]
FIGURES = ("size_bytes", "weight_bits", "activation_bits", "sparsity", "bitops")
FLOATS = ("float16", "float32", "float64", "bfloat16")


def compared(
    before: Graph, after: Graph, stores: tuple[WeightStore, WeightStore] | None = None
) -> tuple[dict[str, Any], tuple[Row, ...]]:
    """(metrics, rows) of the differences between two graphs; nodes are matched by id.

    Metrics: nodes `added`, `removed` and `changed`; costs of both (`size_bytes`, `size_bytes_before`, …). Rows: `node`,
    `what`, `before`, `after`. With the `stores` of both, `after` of a weight with other values is
    ‖after − before‖ / ‖before‖ (Frobenius norms).
    """
    delta = after.delta(before)
    rows: list[Row] = [{"node": i, "what": "added", "before": None, "after": after[i].op} for i in delta.added]
    rows += [{"node": i, "what": "removed", "before": before[i].op, "after": None} for i in delta.removed]
    for node in delta.changed:
        rows += _changes(before[node], after[node])
    rows += _weights(before, after, stores)
    old, new = static_score(before), static_score(after)
    figures: dict[str, Any] = {"added": len(delta.added), "removed": len(delta.removed), "changed": len(delta.changed)}
    for name in FIGURES:
        figures |= {name: getattr(new, name), f"{name}_before": getattr(old, name)}
    return figures, tuple(rows)


def _changes(old: Node, new: Node) -> Iterator[Row]:
    for port in dict.fromkeys((*old.precision, *new.precision)):
        a, b = old.precision.get(port), new.precision.get(port)
        if a != b:
            yield _row(new, f"{port} format", str(a.format) if a else "float", str(b.format) if b else "float")
    for port in dict.fromkeys((*old.sparsity, *new.sparsity)):
        a, b = old.sparsity.get(port), new.sparsity.get(port)
        if a != b:
            yield _row(new, f"{port} sparsity", a.ratio if a else 0.0, b.ratio if b else 0.0)
    for what in ("op", "target", "call", "adapters", "attrs", "weights"):
        a, b = getattr(old, what), getattr(new, what)
        if a != b:
            yield _row(new, what, str(a), str(b))
    for what in ("title", "note", "colour", "muted"):
        a, b = getattr(old.annotation, what), getattr(new.annotation, what)
        if a != b:
            yield _row(new, what, str(a), str(b))
    if old.args != new.args or old.kwargs != new.kwargs:
        yield _row(new, "inputs", ", ".join(r.node for r in old.inputs), ", ".join(r.node for r in new.inputs))


def _row(node: Node, what: str, before: object, after: object) -> Row:
    return {"node": node.id, "what": what, "before": before, "after": after}


def _weights(before: Graph, after: Graph, stores: tuple[WeightStore, WeightStore] | None) -> Iterator[Row]:
    """Rows of weights with other values or shapes."""
    for name, new in after.weights.items():
        old = before.weights.get(name)
        if old is None or (old.key == new.key and old.shape == new.shape):
            continue
        first, second = (" × ".join(map(str, w.shape)) for w in (old, new))
        if old.shape != new.shape:
            yield {"node": name, "what": "weight shape", "before": first, "after": second}
            continue
        distance = None
        if stores and old.key and new.key and {old.dtype, new.dtype} <= set(FLOATS):
            distance = _relative_distance(stores[0], old.key, stores[1], new.key)
        after_text = second if distance is None else f"{distance:.3g} of its norm away"
        yield {"node": name, "what": "weight values", "before": first, "after": after_text}


def _relative_distance(first: WeightStore, old: str, second: WeightStore, new: str) -> float | None:
    """‖new − old‖ / ‖old‖; None if a tensor cannot be read or the old one is zero."""
    try:
        a, b = _float(first.get(old)), _float(second.get(new))
    except EspalierError:
        return None
    norm = float(np.linalg.norm(a))
    return float(np.linalg.norm(b - a)) / norm if norm else None


def _float(tensor: Tensor) -> np.ndarray:
    """The values in double precision; bfloat16 is stored as the upper half of a float32."""
    if tensor.dtype == "bfloat16":
        return (tensor.array.astype(np.uint32) << 16).view(np.float32).astype(np.float64).ravel()
    return tensor.array.astype(np.float64).ravel()
