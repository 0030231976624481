"""Finds chains: sibling groups of the same structure whose names differ in one number, as layer.0 … layer.11.

Drawing a chain as one box must not close a loop: no path may leave the chain and enter it again.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from espalier.app.canvas.hierarchy import Chain, Group, Hierarchy

LEAST = 3  # groups of a chain
_NUMBER = re.compile(r"\d+")


def find_chains(tree: Hierarchy) -> dict[int, Chain]:
    """Group → the chain that it belongs to, for every group that belongs to one."""
    found: dict[int, Chain] = {}
    for parent, group in enumerate(tree.groups):
        kids = [~c for c in group.children if c < 0]
        if len(kids) >= LEAST and any(tree.groups[k].twins >= LEAST for k in kids):
            for chain in _chains_in(tree, parent):
                found.update(dict.fromkeys(chain.members, chain))
    return found


@dataclass(slots=True)
class _Row:
    """A chain while it grows; `after`: bits of the rows from which a path leads to it."""

    bit: int
    members: list[int]
    places: list[int]
    stem: tuple[str, ...]
    numbers: list[tuple[str, ...]]
    after: int = 0

    def takes(self, stem: tuple[str, ...], numbers: tuple[str, ...]) -> bool:
        """Whether a group with this name continues the chain."""
        return stem == self.stem and len(_differing([*self.numbers[:1], *self.numbers[-1:], numbers])) == 1


@dataclass(slots=True)
class _Growth:
    """The rows of one group, by structure and stem; `row_of`: child → its row; `after`: child → bits, as in a row."""

    rows: list[_Row] = field(default_factory=list)
    last: dict[tuple[int, tuple[str, ...]], _Row] = field(default_factory=dict)
    row_of: dict[int, _Row] = field(default_factory=dict)
    after: dict[int, int] = field(default_factory=dict)

    def add(self, place: int, number: int, group: Group, sources: Sequence[int]) -> None:
        """Add a child: to the last row of its kind, or to a new one if a path leads out of that row and to it."""
        stem, numbers = tuple(_NUMBER.split(group.label)), tuple(_NUMBER.findall(group.label))
        row = self.last.get((group.key, stem))
        outside = 0
        for u in sources:
            if row is None or self.row_of.get(u) is not row:
                outside |= self.reached(u)
        if row is None or outside & row.bit or not row.takes(stem, numbers):
            row = _Row(1 << len(self.rows), [], [], stem, [])
            self.rows.append(row)
            self.last[group.key, stem] = row
            outside = self.reach_of(sources)
        row.members.append(number)
        row.places.append(place)
        row.numbers.append(numbers)
        row.after |= outside
        self.row_of[place] = row

    def reached(self, place: int) -> int:
        """Bits of the rows on the paths to a child, its own row included."""
        row = self.row_of.get(place)
        return row.after | row.bit if row else self.after.get(place, 0)

    def reach_of(self, sources: Sequence[int]) -> int:
        """Bits of the rows on the paths that lead through any of these children."""
        bits = 0
        for u in sources:
            bits |= self.reached(u)
        return bits


def _chains_in(tree: Hierarchy, parent: int) -> list[Chain]:
    children = tree.groups[parent].children
    sources: list[list[int]] = [[] for _ in children]
    for a, _, b, _ in tree.groups[parent].wires:
        if a >= 0 and b >= 0 and a != b:
            sources[b].append(a)
    growth = _Growth()
    for place in _in_flow(sources):
        child = children[place]
        group = tree.groups[~child] if child < 0 else None
        if group is not None and group.twins >= LEAST and not group.part and _NUMBER.search(group.label):
            growth.add(place, ~child, group, sources[place])
        else:
            growth.after[place] = growth.reach_of(sources[place])
    rows = [row for row in growth.rows if len(row.members) >= LEAST]
    return [_chain(tree, row) for row in rows] if _is_acyclic(sources, rows) else []


def _chain(tree: Hierarchy, row: _Row) -> Chain:
    """The chain of a row, named after what its members share."""
    position = _differing(row.numbers)[0]
    stem = row.stem
    fixed = list(row.numbers[0])
    fixed[position] = "*"
    name = stem[0] + "".join(number + text for number, text in zip(fixed, stem[1:], strict=True))
    title = name.removesuffix("*").rstrip("._") if name.endswith("*") and name != "*" else name
    return Chain(tuple(row.members), tuple(numbers[position] for numbers in row.numbers), title or "block")


def _differing(numbers: Sequence[tuple[str, ...]]) -> list[int]:
    """The positions at which numbers of names differ."""
    return [k for k, column in enumerate(zip(*numbers, strict=True)) if len(set(column)) > 1]


def _in_flow(sources: Sequence[Sequence[int]]) -> list[int]:
    """The children in topological order, else in their own; ties in their own order."""
    waits = [len(up) for up in sources]
    downs: list[list[int]] = [[] for _ in sources]
    for b, up in enumerate(sources):
        for a in up:
            downs[a].append(b)
    ready = [k for k, n in enumerate(waits) if n == 0]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        a = heapq.heappop(ready)
        order.append(a)
        for b in downs[a]:
            waits[b] -= 1
            if waits[b] == 0:
                heapq.heappush(ready, b)
    return order if len(order) == len(sources) else list(range(len(sources)))


def _is_acyclic(sources: Sequence[Sequence[int]], rows: Sequence[_Row]) -> bool:
    """Whether the children form no loop when each row is drawn as one box."""
    box = list(range(len(sources)))
    for row in rows:
        for place in row.places:
            box[place] = row.places[0]
    drawn: list[list[int]] = [[] for _ in sources]
    for b, up in enumerate(sources):
        drawn[box[b]] += [box[a] for a in up if box[a] != box[b]]
    waits = [len(up) for up in drawn]
    downs: list[list[int]] = [[] for _ in drawn]
    for b, up in enumerate(drawn):
        for a in up:
            downs[a].append(b)
    ready = [k for k, n in enumerate(waits) if n == 0]
    for a in ready:
        for b in downs[a]:
            waits[b] -= 1
            if waits[b] == 0:
                ready.append(b)
    return len(ready) == len(drawn)
