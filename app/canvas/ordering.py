"""Layering and crossing reduction of a layered drawing (Sugiyama).

Median sweeps and swaps for the few distinct blocks of a model; igraph for large flat graphs.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right, insort
from collections.abc import Sequence

Pair = tuple[int, int]
SMALL = 1500  # parts; larger graphs are ordered by igraph
ROUNDS = 6


def ranks(count: int, pairs: Sequence[Pair], first: int, last: int) -> list[int]:
    """The layer of each of `count` items of an acyclic graph; every pair (from, to) leads to a later layer.

    Items from `first` are border inputs (layer 0), from `last` border outputs (the last layer).
    """
    out: list[list[int]] = [[] for _ in range(count)]
    degree = [0] * count
    for a, b in pairs:
        out[a].append(b)
        degree[b] += 1
    base = int(last > first)
    rank = [0 if i >= first else base for i in range(count)]
    left, ready = degree[:], [i for i in range(count) if degree[i] == 0]
    for a in ready:
        for b in out[a]:
            rank[b] = max(rank[b], rank[a] + 1)
            left[b] -= 1
            if left[b] == 0:
                ready.append(b)
    for i in range(first):
        if degree[i] == 0 and out[i]:
            rank[i] = max(base, min(rank[b] for b in out[i]) - 1)
    if count > last:
        end = max((rank[i] for i in range(last)), default=0) + 1
        for i in range(last, count):
            rank[i] = end
    return rank


def order(layers: list[list[int]], pairs: Sequence[Pair]) -> list[list[int]]:
    """The layers with their parts ordered to reduce crossings; every pair joins neighbouring layers."""
    if all(len(layer) < 2 for layer in layers):
        return layers
    parts = sum(map(len, layers))
    ups: list[list[int]] = [[] for _ in range(parts)]
    downs: list[list[int]] = [[] for _ in range(parts)]
    for a, b in pairs:
        downs[a].append(b)
        ups[b].append(a)
    if parts > SMALL:
        layers = _by_igraph(layers, pairs)
        return layers
    best, fewest = layers, crossings(layers, downs)
    for turn in range(2 * ROUNDS):
        if fewest == 0:
            break
        layers = _sweep(layers, ups if turn % 2 == 0 else downs, turn % 2 == 0, turn % 4 > 1)
        _swap(layers, ups, downs)
        count = crossings(layers, downs)
        if count < fewest:
            best, fewest = [layer[:] for layer in layers], count
    return best


def crossings(layers: list[list[int]], downs: list[list[int]]) -> int:
    """The number of crossing pairs."""
    total = 0
    for upper, lower in itertools.pairwise(layers):
        if len(upper) < 2 or len(lower) < 2:
            continue
        at = {v: i for i, v in enumerate(lower)}
        seen: list[int] = []
        for a in upper:
            ends = sorted(at[b] for b in downs[a])
            total += sum(len(seen) - bisect_right(seen, e) for e in ends)
            for e in ends:
                insort(seen, e)
    return total


def _sweep(layers: list[list[int]], near: list[list[int]], down: bool, turn_ties: bool) -> list[list[int]]:
    """Sort every layer by the medians of its neighbours; reversing ties escapes local minima."""
    result = [layer[:] for layer in layers]
    steps = range(1, len(layers)) if down else range(len(layers) - 2, -1, -1)
    for k in steps:
        beside = result[k - 1 if down else k + 1]
        at = {v: i for i, v in enumerate(beside)}
        middle: dict[int, tuple[float, int]] = {}
        for i, v in enumerate(result[k]):
            places = sorted(at[u] for u in near[v])
            size = len(places)
            scale = max(len(result[k]) - 1, 1) / max(len(beside) - 1, 1)
            tie = -i if turn_ties else i
            median = (places[(size - 1) // 2] + places[size // 2]) / 2 * scale if size else float(i)
            middle[v] = (median, tie)
        result[k].sort(key=middle.__getitem__)
    return result


def _swap(layers: list[list[int]], ups: list[list[int]], downs: list[list[int]]) -> None:
    """Swap neighbours where that removes crossings."""
    at = {v: i for layer in layers for i, v in enumerate(layer)}
    for _ in range(4):
        better = False
        for layer in layers:
            for i in range(len(layer) - 1):
                a, b = layer[i], layer[i + 1]
                now = _between(ups[a], ups[b], at) + _between(downs[a], downs[b], at)
                then = _between(ups[b], ups[a], at) + _between(downs[b], downs[a], at)
                if then < now:
                    layer[i], layer[i + 1] = b, a
                    at[a], at[b] = i + 1, i
                    better = True
        if not better:
            return


def _between(left: list[int], right: list[int], at: dict[int, int]) -> int:
    return sum(at[u] > at[v] for u in left for v in right)


def _by_igraph(layers: list[list[int]], pairs: Sequence[Pair]) -> list[list[int]]:
    import igraph

    layer_of = [0] * sum(map(len, layers))
    for k, layer in enumerate(layers):
        for v in layer:
            layer_of[v] = k
    graph = igraph.Graph(n=len(layer_of), edges=list(dict.fromkeys(pairs)), directed=True)
    drawn = graph.layout_sugiyama(layers=layer_of, maxiter=24)
    place = [x for x, _ in drawn.coords[: len(layer_of)]]
    return [sorted(layer, key=place.__getitem__) for layer in layers]
