"""Everything there is to see, as arrays, and the questions asked of it: what is in this area, what is here.

Free of Qt. One scene belongs to one layout; figures and colours are exchanged without moving anything.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.canvas.camera import Area
from app.canvas.captions import shape_text
from app.canvas.colouring import Colouring
from app.canvas.figures import Figures
from app.canvas.layout import HEAD, Layout
from model.graph import Graph, out_port

Found = NDArray[np.int64]
LABEL_MOST = 240.0


@dataclass(frozen=True, slots=True)
class Hit:
    """What lies under a point: a node, or a group (perhaps on its triangle), by their place in the layout."""

    kind: str
    place: int
    triangle: bool = False


@dataclass(slots=True)
class Scene:
    """A layout with what is needed to paint and question it."""

    graph: Graph
    layout: Layout
    figures: Figures
    colours: Colouring
    problems: dict[int, str] = field(default_factory=dict)
    segments: NDArray[np.float64] = field(init=False)
    segment_edge: Found = field(init=False)
    edge_box: NDArray[np.float64] = field(init=False)
    place_of: dict[int, int] = field(init=False)
    group_place: dict[int, int] = field(init=False)
    _near: tuple[Area, Found, Found, Found] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        points, starts = self.layout.points, self.layout.starts
        lengths = np.diff(starts)
        last = np.zeros(len(points), bool)
        last[starts[1:] - 1] = True
        first = np.flatnonzero(~last)
        self.segments = np.hstack([points[first], points[first + 1]]) if len(first) else np.zeros((0, 4))
        self.segment_edge = np.repeat(np.arange(len(lengths)), np.maximum(lengths - 1, 0))
        self.edge_box = _boxes(points, starts)
        labels = self.layout.labels
        reach = np.where(labels[:, 2] > 0, labels[:, 0] + np.minimum(labels[:, 2], LABEL_MOST), self.edge_box[:, 2])
        self.edge_box[:, 2] = np.maximum(self.edge_box[:, 2], reach)
        self.place_of = dict(zip(self.layout.nodes.tolist(), range(len(self.layout.nodes)), strict=True))
        self.group_place = dict(zip(self.layout.groups.tolist(), range(len(self.layout.groups)), strict=True))

    @property
    def area(self) -> Area:
        """All of it."""
        return 0.0, 0.0, self.layout.width, self.layout.height

    def near(self, area: Area) -> tuple[Found, Found, Found]:
        """Nodes, groups and edges in a generous area around `area`; kept until it is left."""
        if self._near is None or not _inside(area, self._near[0]):
            x, y, w, h = area
            wide = (x - w, y - h, 3 * w, 3 * h)
            self._near = (
                wide,
                within(self.layout.node_rects, wide),
                within(self.layout.group_rects, wide),
                _crossing(self.edge_box, wide),
            )
        return self._near[1:]

    def nodes_in(self, area: Area) -> Found:
        """Places of the nodes that touch `area`."""
        near = self.near(area)[0]
        return near[within(self.layout.node_rects[near], area)]

    def groups_in(self, area: Area) -> Found:
        """Places of the groups that touch `area`, outer before inner."""
        near = self.near(area)[1]
        return near[within(self.layout.group_rects[near], area)]

    def edges_in(self, area: Area) -> Found:
        """Numbers of the edges whose bounds touch `area`."""
        near = self.near(area)[2]
        return near[_crossing(self.edge_box[near], area)]

    def stubs_in(self, area: Area) -> Found:
        """Places of the stubs that touch `area`."""
        return within(self.layout.stub_rects, area)

    def hit(self, x: float, y: float) -> Hit | None:
        """What is at a point: a node before the innermost group."""
        spot = (x, y, 0.0, 0.0)
        nodes = self.nodes_in(spot)
        if len(nodes):
            return Hit("node", int(nodes[-1]))
        groups = self.groups_in(spot)
        if not len(groups):
            return None
        areas = self.layout.group_rects[groups, 2] * self.layout.group_rects[groups, 3]
        place = int(groups[np.argmin(areas)])
        gx, gy = self.layout.group_rects[place, :2]
        return Hit("group", place, bool(x - gx <= 28 and y - gy <= HEAD))

    def edge_at(self, x: float, y: float, reach: float) -> int | None:
        """The edge that passes within `reach` of a point."""
        area = (x - reach, y - reach, 2 * reach, 2 * reach)
        edges = self.edges_in(area)
        best, found = reach, None
        for k in edges.tolist():
            points = self.layout.points[self.layout.starts[k] : self.layout.starts[k + 1]]
            distance = _distance(curve(points, self.layout.horizontal), x, y)
            if distance < best:
                best, found = distance, k
        return found

    def shape(self, edge: int) -> str:
        """The shape that an edge carries."""
        node, output = self.layout.tensors[edge].tolist()
        meta = self.graph.nodes[self.layout.tree.ids[node]].ports.get(out_port(output))
        return shape_text(meta)

    def rect_of(self, node: int) -> Area | None:
        """Where a node is, or the closed group that hides it."""
        if node in self.place_of:
            return tuple(self.layout.node_rects[self.place_of[node]].tolist())
        for group in self.layout.tree.ancestors(self.layout.tree.home[node]):
            place = self.group_place.get(group)
            if place is not None and not self.layout.group_open[place]:
                return tuple(self.layout.group_rects[place].tolist())
        return None


def within(rects: NDArray[np.float64], area: Area) -> Found:
    """Rows of `rects` that touch `area`."""
    x, y, w, h = area
    return np.flatnonzero(
        (rects[:, 0] + rects[:, 2] >= x)
        & (rects[:, 0] <= x + w)
        & (rects[:, 1] + rects[:, 3] >= y)
        & (rects[:, 1] <= y + h)
    )


def _crossing(boxes: NDArray[np.float64], area: Area) -> Found:
    x, y, w, h = area
    return np.flatnonzero((boxes[:, 2] >= x) & (boxes[:, 0] <= x + w) & (boxes[:, 3] >= y) & (boxes[:, 1] <= y + h))


def _boxes(points: NDArray[np.float64], starts: Found) -> NDArray[np.float64]:
    if len(starts) < 2:
        return np.zeros((0, 4))
    low = np.minimum.reduceat(points, starts[:-1], axis=0)
    high = np.maximum.reduceat(points, starts[:-1], axis=0)
    return np.hstack([low, high])


def _inside(small: Area, large: Area) -> bool:
    return (
        small[0] >= large[0]
        and small[1] >= large[1]
        and small[0] + small[2] <= large[0] + large[2]
        and small[1] + small[3] <= large[1] + large[3]
    )


def curve(points: NDArray[np.float64], horizontal: bool, steps: int = 8) -> NDArray[np.float64]:
    """The painted course of a route as a polyline."""
    t = np.linspace(0, 1, steps + 1)
    ease, straight = 3 * t**2 - 2 * t**3, 1.5 * t - 1.5 * t**2 + t**3
    parts = [points[:1]]
    for a, b in itertools.pairwise(points):
        along, across = (0, 1) if horizontal else (1, 0)
        part = np.empty((steps + 1, 2))
        part[:, across] = a[across] + (b[across] - a[across]) * ease
        part[:, along] = a[along] + (b[along] - a[along]) * straight
        parts.append(part[1:])
    return np.concatenate(parts)


def _distance(line: NDArray[np.float64], x: float, y: float) -> float:
    a, b = line[:-1], line[1:]
    d = b - a
    length = np.maximum((d * d).sum(1), 1e-9)
    t = np.clip(((x - a[:, 0]) * d[:, 0] + (y - a[:, 1]) * d[:, 1]) / length, 0, 1)
    near = a + d * t[:, None] - (x, y)
    return float(np.sqrt((near * near).sum(1).min())) if len(a) else float("inf")
