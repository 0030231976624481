"""Boxes of a layout that leave their places, and the routes of the edges at them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from espalier.app.canvas.boxes import Item, Kind
from espalier.app.canvas.layout import Layout

Rects = NDArray[np.float64]
NEAR = 0.5  # canvas units between the end of an edge and the border of its box
SAME = 1e-6  # canvas units between two points that are one
_SHIFT = 20  # bits for the number of a node's output
TURN, FARTHEST_TURN, STEPS = 28.0, 90.0, 32  # canvas units that an edge needs to turn; points of such a curve


def rects_of(layout: Layout, kind: Kind) -> Rects:
    """The rectangles of all boxes of a kind."""
    return {"node": layout.node_rects, "group": layout.group_rects, "fold": layout.fold_rects}[kind]


def rect_of(layout: Layout, item: Item) -> Rects:
    """The rectangle of an item: x, y, width, height."""
    return rects_of(layout, item.kind)[item.place]


def parent_of(layout: Layout, item: Item) -> int:
    """The group around an item."""
    tree = layout.tree
    if item.kind == "node":
        return tree.home[int(layout.nodes[item.place])]
    number = layout.folds[item.place].members[0] if item.kind == "fold" else int(layout.groups[item.place])
    return tree.groups[number].parent


def members_of(layout: Layout, item: Item) -> list[int]:
    """The numbers of the nodes that an item is or hides."""
    tree = layout.tree
    if item.kind == "node":
        return [int(layout.nodes[item.place])]
    shown = layout.folds[item.place].members if item.kind == "fold" else (int(layout.groups[item.place]),)
    return [i for group in shown for i in tree.members(group)]


def tags_of(layout: Layout, item: Item) -> NDArray[np.int64]:
    """The indices of the stubs on the box of an item."""
    if item.kind == "node":
        return np.zeros(0, np.int64)
    number = -1 if item.kind == "fold" else int(layout.groups[item.place])
    tags = layout.folds[item.place].tags if item.kind == "fold" else layout.tree.groups[number].tags
    return np.flatnonzero(np.isin(layout.stubs, tags))


class EdgeIndex:
    """The edges of a layout that was not changed by hand: those at a box, those of a tensor, whole routes."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.along, self.across = (0, 1) if layout.horizontal else (1, 0)
        codes = _code(layout.tensors)
        self._order = np.argsort(codes, kind="stable")
        self._codes = codes[self._order]
        self._ends = layout.points[layout.starts[1:] - 1] if len(layout.points) else np.zeros((0, 2))
        self._by_end = np.argsort(self._ends[:, self.along], kind="stable")
        self._levels = self._ends[self._by_end, self.along]
        self._full: dict[int, Rects] = {}

    def route(self, edge: int) -> Rects:
        """The points of an edge that are drawn."""
        return self.layout.points[self.layout.starts[edge] : self.layout.starts[edge + 1]]

    def _beside(self, points: Rects, item: Item, far: bool) -> NDArray[np.bool_]:
        """Which points lie on the side of a box where edges leave (`far`) or arrive."""
        rect = rect_of(self.layout, item)
        level, side = rect[self.along] + rect[self.along + 2] * far, points[:, self.across]
        within = (side >= rect[self.across] - NEAR) & (side <= rect[self.across] + rect[self.across + 2] + NEAR)
        return within & (np.abs(points[:, self.along] - level) < NEAR)

    def arriving(self, item: Item) -> list[int]:
        """The edges that end at a box."""
        level = float(rect_of(self.layout, item)[self.along])
        part = slice(*np.searchsorted(self._levels, (level - NEAR, level + NEAR)).tolist())
        near = np.sort(self._by_end[part])
        return near[self._beside(self._ends[near], item, False) & self.layout.arrows[near]].tolist()

    def leaving(self, item: Item) -> list[int]:
        """The edges that leave a box, also those that share the first stretch of another edge."""
        members = members_of(self.layout, item)
        if len(members) == 1:
            first, last = np.searchsorted(self._codes, (members[0] << _SHIFT, (members[0] + 1) << _SHIFT)).tolist()
            edges = np.sort(self._order[first:last])
        else:
            own = np.zeros(len(self.layout.tree.ids), bool)
            own[members] = True
            edges = np.flatnonzero(own[self.layout.tensors[:, 0]])
        starts = np.array([self.full(k)[0] for k in edges.tolist()]).reshape(-1, 2)
        return edges[self._beside(starts, item, True)].tolist()

    def full(self, edge: int) -> Rects:
        """The route of an edge from its source on, also where it shares a stretch with an earlier one."""
        route = self._full.get(edge)
        if route is None:
            route = self.route(edge)
            before = self._shared_with(edge)
            if before is not None:
                parent, count = before
                route = np.concatenate([self.full(parent)[:count], route])
            self._full[edge] = route
        return route

    def _shared_with(self, edge: int) -> tuple[int, int] | None:
        """The edge of the same tensor on whose way this one begins, and how many of its points come before."""
        start = self.route(edge)[0]
        for other in self.siblings(edge):
            if other < edge:
                at = np.flatnonzero((np.abs(self.full(other)[1:-1] - start) < SAME).all(axis=1))
                if len(at):
                    return other, int(at[0]) + 1
        return None

    def siblings(self, edge: int) -> list[int]:
        """The other edges of the same tensor."""
        code = _code(self.layout.tensors[edge : edge + 1])[0]
        first, last = np.searchsorted(self._codes, (code, code + 1)).tolist()
        return [other for other in self._order[first:last].tolist() if other != edge]


class Movement:
    """Items of a layout that was not changed by hand, with the edges that begin or end at them.

    An edge that has lost a box at one end runs straight to its new place, through the lanes that are still between
    both ends. `touched`: by edge, the items at its beginning and at its end, or -1.
    """

    def __init__(self, index: EdgeIndex, items: Sequence[Item]) -> None:
        self.index, self.items = index, items
        self.touched: dict[int, tuple[int, int]] = {}
        for number, item in enumerate(items):
            for edge in index.leaving(item):
                self.touched[edge] = (number, self.touched.get(edge, (-1, -1))[1])
            for edge in index.arriving(item):
                self.touched[edge] = (self.touched.get(edge, (-1, -1))[0], number)

    def routes(self, corners: Rects, edges: Iterable[int] | None = None) -> dict[int, Rects]:
        """The routes of all or some of the edges that change, where the items are at these corners."""
        before = np.array([rect_of(self.index.layout, item)[:2] for item in self.items]).reshape(-1, 2)
        shifts = np.asarray(corners, float).reshape(-1, 2) - before
        found: dict[int, Rects] = {}
        for edge in self.changed() if edges is None else edges:
            ends = self.touched.get(edge)
            found[edge] = self._moved(edge, *ends, shifts) if ends is not None else self.index.full(edge)
        return found

    def changed(self, items: Collection[int] | None = None) -> list[int]:
        """The edges whose routes change where some items move: those at them, and what shared the way of these."""
        own = [e for e, ends in self.touched.items() if items is None or not set(ends).isdisjoint(items)]
        around = {other for edge in own for other in self.index.siblings(edge)} - set(own)
        return [*own, *sorted(e for e in around if len(self.index.full(e)) > len(self.index.route(e)))]

    def _moved(self, edge: int, start: int, end: int, shifts: Rects) -> Rects:
        route = self.index.full(edge)
        along, across = self.index.along, self.index.across
        first = route[0] + shifts[start] if start >= 0 else route[0]
        last = route[-1] + shifts[end] if end >= 0 else route[-1]
        between = route[1:-1]
        if start >= 0 and len(between) and between[0, across] == route[0, across]:
            between = between[1:]  # the straight way from the old place to the end of its layer
        room = between[:, along]
        between = between[(room > first[along] + TURN / 2) & (room < last[along] - TURN)]
        corners = np.vstack([first, between, last])
        return np.vstack([first, *(_leg(a, b, along, across) for a, b in pairwise(corners))])


def _leg(a: Rects, b: Rects, along: int, across: int) -> Rects:
    """The points after `a` up to `b`: of a curve that leaves and arrives along the flow, where there is little room.

    Elsewhere the curve that is drawn between two points does that by itself.
    """
    gap, wide = float(b[along] - a[along]), abs(float(b[across] - a[across]))
    if gap >= TURN or (gap > 0 and wide < gap):
        return b[None]
    reach = min(max(abs(gap) / 2, wide / 4, TURN), FARTHEST_TURN)
    out, back = a.copy(), b.copy()
    out[along] += reach
    back[along] -= reach
    t = np.linspace(0, 1, STEPS + 1)[1:, None]
    return (1 - t) ** 3 * a + 3 * t * (1 - t) ** 2 * out + 3 * t**2 * (1 - t) * back + t**3 * b


def _code(tensors: NDArray[np.int64]) -> NDArray[np.int64]:
    """One number for each tensor."""
    return (tensors[:, 0] << _SHIFT) + tensors[:, 1]
