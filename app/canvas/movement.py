"""Boxes of a layout that leave their places, and the routes of the edges at them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from espalier.app.canvas.boxes import Item, Kind
from espalier.app.canvas.layout import Layout

Rects = NDArray[np.float64]
NEAR = 0.5  # canvas units between the end of an edge and the border of its box
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


@dataclass(slots=True)
class Movement:
    """Items of a layout that was not changed by hand, with the edges that begin or end at them.

    An edge that has lost a box at one end runs straight to its new place, through the lanes that are still between
    both ends. `touched`: by edge, the items at its beginning and at its end, or -1.
    """

    layout: Layout
    items: Sequence[Item]
    touched: dict[int, tuple[int, int]] = field(init=False, default_factory=dict)
    _full: dict[int, Rects] = field(init=False, default_factory=dict)
    _codes: NDArray[np.int64] = field(init=False)  # of tensors, sorted
    _order: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        codes = _code(self.layout.tensors)
        self._order = np.argsort(codes, kind="stable")
        self._codes = codes[self._order]
        for number, item in enumerate(self.items):
            for edge in self._leaving(item):
                self.touched[edge] = (number, self.touched.get(edge, (-1, -1))[1])
            for edge in self._arriving(item):
                self.touched[edge] = (self.touched.get(edge, (-1, -1))[0], number)

    @property
    def _axes(self) -> tuple[int, int]:
        """Along the flow, across it."""
        return (0, 1) if self.layout.horizontal else (1, 0)

    def _route(self, edge: int) -> Rects:
        return self.layout.points[self.layout.starts[edge] : self.layout.starts[edge + 1]]

    def _beside(self, points: Rects, item: Item, far: bool) -> NDArray[np.bool_]:
        """Which points lie on the side of a box where edges leave (`far`) or arrive."""
        along, across = self._axes
        rect = rect_of(self.layout, item)
        side = rect[along] + rect[along + 2] * far
        within = (points[:, across] >= rect[across] - NEAR) & (
            points[:, across] <= rect[across] + rect[across + 2] + NEAR
        )
        return within & (np.abs(points[:, along] - side) < NEAR)

    def _arriving(self, item: Item) -> list[int]:
        ends = self.layout.points[self.layout.starts[1:] - 1]
        return np.flatnonzero(self._beside(ends, item, False) & self.layout.arrows).tolist()

    def _leaving(self, item: Item) -> list[int]:
        """The edges that leave a box, also those that share the first stretch of another edge."""
        layout = self.layout
        own = np.zeros(len(layout.tree.ids), bool)
        own[members_of(layout, item)] = True
        from_here = np.flatnonzero(own[layout.tensors[:, 0]])
        starts = np.array([self.full(k)[0] for k in from_here.tolist()]).reshape(-1, 2)
        return from_here[self._beside(starts, item, True)].tolist()

    def full(self, edge: int) -> Rects:
        """The route of an edge from its source on, also where it shares a stretch with an earlier one."""
        route = self._full.get(edge)
        if route is None:
            route = self._route(edge)
            before = self._shared_with(edge)
            if before is not None:
                parent, count = before
                route = np.concatenate([self.full(parent)[:count], route])
            self._full[edge] = route
        return route

    def _shared_with(self, edge: int) -> tuple[int, int] | None:
        """The edge of the same tensor on whose way this one begins, and how many of its points come before."""
        start = self._route(edge)[0]
        for other in self._siblings(edge):
            if other < edge:
                at = np.flatnonzero((np.abs(self.full(other)[1:-1] - start) < 1e-6).all(axis=1))
                if len(at):
                    return other, int(at[0]) + 1
        return None

    def _siblings(self, edge: int) -> list[int]:
        """The other edges of the same tensor."""
        code = _code(self.layout.tensors[edge : edge + 1])[0]
        first, last = np.searchsorted(self._codes, (code, code + 1)).tolist()
        return [other for other in self._order[first:last].tolist() if other != edge]

    def routes(self, corners: Rects, edges: Iterable[int] | None = None) -> dict[int, Rects]:
        """The routes of all or some of the edges that change, where the items are at these corners."""
        before = np.array([rect_of(self.layout, item)[:2] for item in self.items]).reshape(-1, 2)
        shifts = np.asarray(corners, float).reshape(-1, 2) - before
        found: dict[int, Rects] = {}
        for edge in self.changed() if edges is None else edges:
            ends = self.touched.get(edge)
            found[edge] = self._moved(edge, *ends, shifts) if ends is not None else self.full(edge)
        return found

    def changed(self, items: Collection[int] | None = None) -> list[int]:
        """The edges whose routes change where some items move: those at them, and what shared the way of these."""
        own = [e for e, ends in self.touched.items() if items is None or not set(ends).isdisjoint(items)]
        around = {other for edge in own for other in self._siblings(edge)} - set(own)
        return [*own, *(e for e in around if len(self.full(e)) > len(self._route(e)))]

    def _moved(self, edge: int, start: int, end: int, shifts: Rects) -> Rects:
        route = self.full(edge)
        along, across = self._axes
        first = route[0] + shifts[start] if start >= 0 else route[0]
        last = route[-1] + shifts[end] if end >= 0 else route[-1]
        between = route[1:-1]
        if start >= 0:  # the straight way from the old place to the end of its layer
            lead = 0
            while lead < len(between) and between[lead, across] == route[0, across]:
                lead += 1
            between = between[min(lead, 1) :]
        room = between[:, along]
        between = between[(room > first[along] + TURN / 2) & (room < last[along] - TURN)]
        corners = np.vstack([first, between, last])
        legs = [_leg(a, b, along, across) for a, b in pairwise(corners)]
        return np.vstack([first, *legs])


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
    return (tensors[:, 0] << 20) + tensors[:, 1]
