"""Splits groups that the flow leaves and enters again, so that the drawn groups form no cycle.

Contracting a convex group (no path leaves and enters it again) keeps a graph acyclic. Groups are contracted innermost
first; non-convex ones, as in `for f in self.fcs: x = relu(f(x))`, are split along the flow. Single items get no frame.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from espalier.app.canvas.hierarchy import Cancelled

Item = int  # node n as n, group g as ~g
Edges = set[tuple[Item, Item]]


@dataclass(slots=True)
class Frames:
    """The drawn groups. Numbers below the number of given groups are those groups, others are pieces of split ones.

    `holder`: the frame around each node and frame; `origin`: the group of a piece; `parts`: the pieces of a group.
    """

    holder: dict[Item, int]
    parts: dict[int, list[int]] = field(default_factory=dict)
    origin: dict[int, int] = field(default_factory=dict)


def convex_frames(
    home: Sequence[int], parent: Sequence[int], sources: Sequence[Iterable[int]], cancelled: Callable[[], bool]
) -> Frames | None:
    """The frames to draw; None if all groups can be drawn as they are.

    `home`: the group of each node (-1: not drawn); `parent`: the group around each group, with a smaller number;
    `sources`: the input nodes of each node, in topological order. Raises Cancelled.
    """
    base, first = _bases(home, parent)
    broken: dict[int, list[int]] = {}
    for group, region in enumerate(base):
        if region != group:
            broken.setdefault(region, []).append(group)
    if not broken:
        return None
    owner: dict[int, dict[Item, int]] = {region: {} for region in broken}
    for node, group in enumerate(home):
        if group >= 0 and base[group] in broken:
            owner[base[group]][node] = group
    for group in range(1, len(parent)):
        if base[group] == group and base[parent[group]] in broken:
            owner[base[parent[group]]][~group] = parent[group]
    edges = _edges(home, parent, sources, base, broken)
    shown = list(accumulate((group >= 0 for group in home), initial=0))
    frames = Frames({})
    for region, groups in broken.items():
        place = {item: shown[item] if item >= 0 else first[~item] for item in owner[region]}
        _Region(owner[region], edges[region], place, parent, frames, cancelled).run(groups, region)
    return frames


def _bases(home: Sequence[int], parent: Sequence[int]) -> tuple[list[int], list[int]]:
    """For each group the nearest one, itself or around it, whose drawn nodes are contiguous; and the start of each."""
    size = len(parent)
    first, last, count = [len(home)] * size, [-1] * size, [0] * size
    for shown, group in enumerate(group for group in home if group >= 0):
        first[group], last[group] = min(first[group], shown), shown
        count[group] += 1
    for group in range(size - 1, 0, -1):
        up = parent[group]
        first[up], last[up] = min(first[up], first[group]), max(last[up], last[group])
        count[up] += count[group]
    base = list(range(size))
    for group in range(1, size):
        if count[group] and last[group] - first[group] + 1 != count[group]:
            base[group] = base[parent[group]]
    return base, first


def _edges(
    home: Sequence[int],
    parent: Sequence[int],
    sources: Sequence[Iterable[int]],
    base: Sequence[int],
    broken: dict[int, list[int]],
) -> dict[int, Edges]:
    """The edges between the items of every region with a non-contiguous group."""
    edges: dict[int, Edges] = {region: set() for region in broken}
    for end, starts in enumerate(sources):
        if home[end] < 0:
            continue
        for start in starts:
            if home[start] < 0:
                continue
            a, b, above, below = start, end, base[home[start]], base[home[end]]
            while above != below:
                if above > below:
                    a, above = ~above, base[parent[above]]
                else:
                    b, below = ~below, base[parent[below]]
            if above in edges and a != b:
                edges[above].add((a, b))
    return edges


class _Region:
    """The content of one group: nodes and contiguous groups as items, and the non-contiguous groups around them."""

    def __init__(
        self,
        owner: dict[Item, int],
        edges: Edges,
        place: dict[Item, int],
        parent: Sequence[int],
        frames: Frames,
        cancelled: Callable[[], bool],
    ) -> None:
        self.owner, self.edges, self.place = owner, edges, place
        self.parent, self.frames, self.cancelled = parent, frames, cancelled
        self.order = self._sorted()

    def run(self, groups: list[int], region: int) -> None:
        """Contract every non-contiguous group, innermost first; split those that are not convex."""
        for group in reversed(groups):  # a group comes after the one around it
            if self.cancelled():
                raise Cancelled
            self._contract(group, self._parts(group))
        self.frames.holder.update(dict.fromkeys(self.owner, region))

    def _parts(self, group: int) -> list[list[Item]]:
        """The items of `group` in one list if it is convex, else by connected parts of each stage.

        The stage of an item is the number of times that a path to it has left and re-entered the group.
        """
        ups: dict[Item, list[Item]] = {}
        for a, b in self.edges:
            ups.setdefault(b, []).append(a)
        stage: dict[Item, int] = {}
        for item in self.order:
            leaves = self.owner[item] != group
            above = (stage[u] + (leaves and self.owner[u] == group) for u in ups.get(item, ()))
            stage[item] = max(above, default=0)
        inside = [item for item in self.order if self.owner[item] == group]
        if len({stage[item] for item in inside}) < 2:
            return [inside]
        root = {item: item for item in inside}
        for a, b in self.edges:
            if a in root and b in root and stage[a] == stage[b]:
                root[_top(root, a)] = _top(root, b)
        parts: dict[Item, list[Item]] = {}
        for item in inside:
            parts.setdefault(_top(root, item), []).append(item)
        return list(parts.values())

    def _contract(self, group: int, parts: list[list[Item]]) -> None:
        frames, up = self.frames, self.parent[group]
        named: dict[Item, Item] = {}
        numbers: list[int] = []
        for part in parts:
            if len(parts) > 1 and len(part) == 1:
                self.owner[part[0]] = up
                continue
            number = group
            if len(parts) > 1:
                number = len(self.parent) + len(frames.origin)
                frames.origin[number] = group
            numbers.append(number)
            for item in part:
                frames.holder[item] = number
                named[item] = ~number
                del self.owner[item]
            self.owner[~number] = up
            self.place[~number] = min(self.place[item] for item in part)
        frames.parts[group] = numbers
        if named:
            pairs = ((named.get(a, a), named.get(b, b)) for a, b in self.edges)
            self.edges = {(a, b) for a, b in pairs if a != b}
            self.order = self._sorted()

    def _sorted(self) -> list[Item]:
        """The items in topological order, ties in graph order."""
        downs: dict[Item, list[Item]] = {}
        waits = dict.fromkeys(self.owner, 0)
        for a, b in self.edges:
            downs.setdefault(a, []).append(b)
            waits[b] += 1
        ready = [(self.place[item], item) for item, count in waits.items() if count == 0]
        heapq.heapify(ready)
        order: list[Item] = []
        while ready:
            _, item = heapq.heappop(ready)
            order.append(item)
            for b in downs.get(item, ()):
                waits[b] -= 1
                if waits[b] == 0:
                    heapq.heappush(ready, (self.place[b], b))
        return order


def _top(root: dict[Item, Item], item: Item) -> Item:
    while root[item] != item:
        root[item] = item = root[root[item]]
    return item
