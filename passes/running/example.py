"""Example inputs of a graph: valid values at any sizes, for export and comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.limits import bounds, broken_limit

if TYPE_CHECKING:
    from torch import Tensor

Sizes = Mapping[str, int]
FREE = re.compile(r"[A-Za-z_]\w*")  # a size that is a single symbol, not an expression


def example_inputs(graph: Graph, sizes: Sizes | None = None, seed: int = 0) -> dict[str, Tensor]:
    """Name → values of each input at `sizes` (default: of the trace): random numbers, or valid indices."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    all_sizes = dict(graph.symbols) | dict(sizes or {})
    return {n.target: _values(n, graph, all_sizes, generator) for n in graph.placeholders if n.out is not None}


def batch_sizes(graph: Graph, size: int) -> dict[str, int]:
    """The symbols of the samples, each with the size of a batch; none where the graph has a fixed batch."""
    firsts = {n.out.shape[0] for n in graph.placeholders if n.out and n.out.shape}
    return {s: size for s in firsts if isinstance(s, str) and s.isidentifier() and _is_batch(s, graph)}


def allowed_batch(graph: Graph, size: int) -> int:
    """The batch size nearest to `size` within the graph's limits."""
    ends = bounds(graph)
    for symbol in batch_sizes(graph, size):
        low, high = ends.get(symbol, (None, None))
        size = max(size, low or 1)
        size = size if high is None else min(size, high)
    return size


def other_sizes(graph: Graph) -> list[dict[str, int]]:
    """Sizes for comparison: of the trace, larger ones, and one sample with smaller ones; all within the limits."""
    if not graph.symbols:
        return [{}]
    more = {s: v + 1 + i for i, (s, v) in enumerate(graph.symbols.items())}
    fewer = {s: 1 if _is_batch(s, graph) else max(v - 1, 2) for s, v in graph.symbols.items()}
    return [sizes for sizes in (dict(graph.symbols), more, fewer) if broken_limit(graph, sizes) is None]


def _is_batch(symbol: str, graph: Graph) -> bool:
    """Whether a size is a batch size: first in a shape, and never elsewhere."""
    shapes = [n.out.shape for n in graph.placeholders if n.out]
    return any(s[:1] == (symbol,) for s in shapes) and not any(symbol in s[1:] for s in shapes)


def _values(node: Node, graph: Graph, sizes: dict[str, int], generator: object) -> Tensor:
    import torch

    meta = node.out
    assert meta is not None and isinstance(generator, torch.Generator)
    shape, dtype = meta.sizes(sizes), getattr(torch, meta.dtype)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    rows = _rows(node, graph)
    if rows:
        return torch.randint(0, rows, shape, generator=generator).to(dtype)
    return _mask(shape).to(dtype)


def _rows(node: Node, graph: Graph) -> int:
    """Rows of the smallest embedding that an input indexes; 0 if none."""
    users, seen, todo, rows = graph.users(), set[str](), [node.id], list[int]()
    while todo:
        for user in (graph[u] for u in users[todo.pop()] if u not in seen):
            seen.add(user.id)
            if user.op == "embedding":
                weight = user.ports.get("weight")
                rows += [int(weight.shape[0])] if weight and isinstance(weight.shape[0], int) else []
            elif user.op in (
                "view",
                "reshape",
                "slice",
                "clone",
                "kv_cache",
                "to",
                "contiguous",
                "expand",
                "unsqueeze",
                "squeeze",
            ):
                todo.append(user.id)
    return min(rows, default=0)


def _mask(shape: tuple[int, ...]) -> Tensor:
    """A mask of a padded text: 1 for the first three quarters of the last axis, then 0."""
    import torch

    last = shape[-1] if shape else 1
    length = max(1, last - last // 4)
    return (torch.arange(last) < length).long().expand(shape).clone() if shape else torch.ones(())
