"""Fits the binary point or exponent bias of each format of a space to each stored tensor, by least squared error."""

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
    """The space with fitted formats for weights and biases; other ports keep the formats as written."""
    from espalier.passes.analysis.format_sqnr import fitted

    by_port: dict[tuple[str, str], dict[str, None]] = {}
    for node, port, value in _unfitted(space):
        by_port.setdefault((node, port), {})[value] = None
    texts: dict[str, str] = {}
    for (node, port), values in by_port.items():
        x = _tensor(graph, node, port, store)
        if x is not None:
            best = fitted(tuple(parse_format(v) for v in values), x)
            texts |= {fit_key(node, port, v): str(f) for v, f in zip(values, best, strict=True)}
    return replace(space, fitted=texts)


def _unfitted(space: Space) -> Iterator[tuple[str, str, str]]:
    """(node, port, format) of formats without a binary point or bias."""
    for choice in space.choices:
        if choice.kind == "format" and choice.fit:
            values = [v for v in choice.values if isinstance(v, str) and v != FLOAT and is_unfitted(v)]
            yield from ((n, p, v) for v in values for n in choice.nodes for p in choice.ports)


def _tensor(graph: Graph, node: str, port: str, store: WeightStore) -> Any:
    """The stored values, flat, at least float32; None if there are none or some are not finite."""
    import torch

    from espalier.model.torch.tensors import to_torch

    name = weight_at(graph.nodes[node], port, graph) if node in graph.nodes else None
    key = graph.weights[name].key if name else None
    if key is None:
        return None
    x = to_torch(store.get(key)).reshape(-1)
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    return x if x.numel() and bool(torch.isfinite(x).all()) else None
