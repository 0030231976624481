"""Inputs made for a graph: valid values at any sizes, to export it with and to compare what was exported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from espalier.model.graph.graph import Graph, Node

if TYPE_CHECKING:
    from torch import Tensor

Sizes = Mapping[str, int]
FREE = re.compile(r"[A-Za-z_]\w*")  # a size that is a symbol alone, not an expression of several


def example_inputs(graph: Graph, sizes: Sizes | None = None, seed: int = 0) -> dict[str, Tensor]:
    """Name → values of each input at `sizes` (those of the trace): random numbers, indices within their table."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    held = dict(graph.symbols) | dict(sizes or {})
    return {n.target: _values(n, graph, held, generator) for n in graph.placeholders if n.out is not None}


def other_sizes(graph: Graph) -> list[dict[str, int]]:
    """The trace's sizes, and others: one sample, and more of everything."""
    if not graph.symbols:
        return [{}]
    more = {s: v + 1 + i for i, (s, v) in enumerate(graph.symbols.items())}
    fewer = {s: 1 if _is_batch(s, graph) else max(v - 1, 2) for s, v in graph.symbols.items()}
    return [dict(graph.symbols), more, fewer]


def _is_batch(symbol: str, graph: Graph) -> bool:
    """Whether a size counts samples: it comes first, and nowhere else."""
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
    """How many rows the tables have that an input points into; 0 where it points into none."""
    users, seen, todo, found = graph.users(), set[str](), [node.id], list[int]()
    while todo:
        for user in (graph[u] for u in users[todo.pop()] if u not in seen):
            seen.add(user.id)
            if user.op == "embedding":
                weight = user.ports.get("weight")
                found += [int(weight.shape[0])] if weight and isinstance(weight.shape[0], int) else []
            elif user.op in ("view", "reshape", "slice", "clone", "to", "contiguous", "expand", "unsqueeze", "squeeze"):
                todo.append(user.id)
    return min(found, default=0)


def _mask(shape: tuple[int, ...]) -> Tensor:
    """1 at the beginning, 0 towards the end of the last axis, as in a padded text; of a lone 1, 1."""
    import torch

    last = shape[-1] if shape else 1
    kept = max(1, last - last // 4)
    return (torch.arange(last) < kept).long().expand(shape).clone() if shape else torch.ones(())
