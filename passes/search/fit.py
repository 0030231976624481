"""The binary point or exponent bias of each format at each stored tensor of a space, by least squared error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from espalier.model.formats.base import parse_format
from espalier.model.graph.graph import Graph
from espalier.model.graph.ports import weight_at
from espalier.model.store.weights import WeightStore
from espalier.passes.search.format_lists import FLOAT, is_unfitted
from espalier.passes.search.space import Space, fit_key


def fit(space: Space, graph: Graph, store: WeightStore) -> Space:
    """The space with what suits weights and biases; activations and computed tensors keep what is written."""
    from espalier.passes.analysis.format_sqnr import fitted

    wanted: dict[tuple[str, str], dict[str, None]] = {}
    for node, port, value in _open(space):
        wanted.setdefault((node, port), {})[value] = None
    found: dict[str, str] = {}
    for (node, port), values in wanted.items():
        x = _tensor(graph, node, port, store)
        if x is not None:
            best = fitted(tuple(parse_format(v) for v in values), x)
            found |= {fit_key(node, port, v): str(f) for v, f in zip(values, best, strict=True)}
    return replace(space, fitted=found)


def _open(space: Space) -> Iterator[tuple[str, str, str]]:
    """(node, port, format) whose place of the range is left open."""
    for choice in space.choices:
        if choice.kind == "format" and choice.fit:
            values = [v for v in choice.values if isinstance(v, str) and v != FLOAT and is_unfitted(v)]
            yield from ((n, p, v) for v in values for n in choice.nodes for p in choice.ports)


def _tensor(graph: Graph, node: str, port: str, store: WeightStore) -> Any:
    """The stored values, flat, at least float32; None where there are none, or some that are not finite."""
    import torch

    from espalier.model.torch.tensors import to_torch

    name = weight_at(graph.nodes[node], port, graph) if node in graph.nodes else None
    key = graph.weights[name].key if name else None
    if key is None:
        return None
    x = to_torch(store.get(key)).reshape(-1)
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    return x if x.numel() and bool(torch.isfinite(x).all()) else None
