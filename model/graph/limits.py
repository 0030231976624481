"""Conditions on free sizes that the model's code tested when it was traced; beyond them it may compute otherwise."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from espalier.model.errors import DataError
from espalier.model.symbols import holds

if TYPE_CHECKING:
    from espalier.model.graph.graph import Graph
    from espalier.model.graph.size_limit import SizeLimit


def limit_warnings(graph: Graph) -> tuple[str, ...]:
    """A sentence for each limit of the user's code; those of installed packages are told where data break them."""
    return tuple(
        f"The graph is valid for {limit.range} only: {limit.reason}. "
        "Trace the model with other example sizes for the rest."
        for limit in graph.limits
        if "/" not in limit.source
    )


def broken_limit(graph: Graph, sizes: Mapping[str, int]) -> SizeLimit | None:
    """The first limit of `graph` that `sizes` (by symbol) do not meet; limits of other symbols are not tested."""
    for limit in graph.limits:
        try:
            if not holds(limit.condition, sizes):
                return limit
        except (KeyError, ZeroDivisionError):
            continue
    return None


def sizes_of(graph: Graph, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Symbol → size in inputs of these shapes (by name)."""
    sizes: dict[str, int] = {}
    for node in graph.placeholders:
        for dim, size in zip(node.out.shape if node.out else (), shapes.get(node.target, ()), strict=False):
            if isinstance(dim, str) and dim in graph.symbols:
                sizes.setdefault(dim, int(size))
    return sizes


def check_sizes(graph: Graph, shapes: Mapping[str, Sequence[int]]) -> None:
    """Raise DataError where inputs of these shapes (by name) break a limit of the graph."""
    sizes = sizes_of(graph, shapes)
    limit = broken_limit(graph, sizes)
    if limit is not None:
        given = ", ".join(f"{k} = {v}" for k, v in sizes.items() if re.search(rf"\b{k}\b", limit.condition))
        raise DataError(
            f"The graph is valid for {limit.range} only, and this input has {given}: {limit.reason}.",
            "Choose another --batch-size or max_length, or trace the model with example inputs of that size.",
        )


def bounds(graph: Graph) -> dict[str, tuple[int | None, int | None]]:
    """Symbol → (smallest, largest) size, of the limits that compare one symbol with a number."""
    result: dict[str, tuple[int | None, int | None]] = {}
    for limit in graph.limits:
        parts = re.fullmatch(r"(\w+)(<=|>=|<|>)(\d+)", limit.condition)
        if parts is None or parts[1] not in graph.symbols:
            continue
        low, high = result.get(parts[1], (None, None))
        end = int(parts[3])
        if ">" in parts[2]:
            end += parts[2] == ">"
            low = end if low is None else max(low, end)
        else:
            end -= parts[2] == "<"
            high = end if high is None else min(high, end)
        result[parts[1]] = (low, high)
    return result
