"""Everything there is to see, as arrays, and the questions asked of it: what is in this area, what is here.

Free of Qt. One scene belongs to one layout; figures and colours are exchanged without moving anything.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from espalier.app.canvas.camera import Area
from espalier.app.canvas.casts import LABEL_MOST, CastLayer, Chip
from espalier.app.canvas.colouring import Colouring
from espalier.app.canvas.figures import Figures
from espalier.app.canvas.find import Finder
from espalier.app.canvas.hierarchy import Stub
from espalier.app.canvas.layout import HEAD, Layout
from espalier.app.canvas.strips import Found, Strips
from espalier.app.figures.captions import shape_text
from espalier.model.graph.graph import Graph, out_port


@dataclass(frozen=True, slots=True)
class Hit:
    """What lies under a point: "node", "stub" or "group" (perhaps on its triangle), by place in the layout."""

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
    finder: Finder
    problems: dict[int, str] = field(default_factory=dict)
    segments: NDArray[np.float64] = field(init=False)
    segment_edge: Found = field(init=False)
    edge_box: NDArray[np.float64] = field(init=False)  # rows left, top, right, bottom
    place_of: dict[int, int] = field(init=False)
    group_place: dict[int, int] = field(init=False)
    cover: Found = field(init=False)  # by node: the place of the closed group that hides it, or -1
    ends: dict[int, list[int]] = field(init=False)  # node number → places of the stubs of its tensors
    _casts: CastLayer | None = field(init=False, default=None)
    _nodes: Strips = field(init=False)
    _groups: Strips = field(init=False)
    _stubs: Strips = field(init=False)
    _edges: Strips = field(init=False)

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
        axis = 0 if self.layout.horizontal else 1
        self._nodes = Strips.of_rects(self.layout.node_rects, axis)
        self._groups = Strips.of_rects(self.layout.group_rects, axis)
        self._stubs = Strips.of_rects(self.layout.stub_rects, axis)
        self._edges = Strips(self.edge_box[:, :2], self.edge_box[:, 2:], axis)
        self.place_of = dict(zip(self.layout.nodes.tolist(), range(len(self.layout.nodes)), strict=True))
        self.group_place = dict(zip(self.layout.groups.tolist(), range(len(self.layout.groups)), strict=True))
        self.cover = _cover(self.layout)
        self.ends = {}
        for place, number in enumerate(self.layout.stubs.tolist()):
            for source in sources(self.layout.tree.stubs[number]):
                self.ends.setdefault(source, []).append(place)

    @property
    def area(self) -> Area:
        """All of it."""
        return 0.0, 0.0, self.layout.width, self.layout.height

    def nodes_in(self, area: Area) -> Found:
        """Places of the nodes that touch `area`."""
        return self._nodes.touching(area)

    def groups_in(self, area: Area) -> Found:
        """Places of the groups that touch `area`, outer before inner."""
        return self._groups.touching(area)

    def shown_in(self, area: Area) -> Found:
        """Numbers of the nodes that touch `area`, and of all those in the closed groups that do, ascending."""
        chosen = np.zeros(len(self.cover), bool)
        chosen[self.layout.nodes[self.nodes_in(area)]] = True
        touched = np.zeros(len(self.layout.groups) + 1, bool)  # the last one stands for "in no closed group"
        touched[self.groups_in(area)] = True
        touched[-1] = False
        return np.flatnonzero(chosen | touched[self.cover])

    def edges_in(self, area: Area) -> Found:
        """Numbers of the edges whose bounds touch `area`."""
        return self._edges.touching(area)

    def stubs_in(self, area: Area) -> Found:
        """Places of the stubs that touch `area`."""
        return self._stubs.touching(area)

    def hit(self, x: float, y: float) -> Hit | None:
        """What is at a point: a node or stub before the innermost group."""
        spot = (x, y, 0.0, 0.0)
        for kind, found in (("node", self.nodes_in(spot)), ("stub", self.stubs_in(spot))):
            if len(found):
                return Hit(kind, int(found[-1]))
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

    def ends_of(self, numbers: Iterable[int]) -> Found:
        """Places of all stubs of the tensors that some nodes give."""
        return np.array(sorted({p for i in numbers for p in self.ends.get(i, ())}), np.int64)

    def sources_at(self, hit: Hit) -> tuple[int, ...]:
        """Numbers of the nodes whose shared tensors a node or stub stands for."""
        if hit.kind == "stub":
            return sources(self.layout.tree.stubs[self.layout.stubs[hit.place]])
        number = int(self.layout.nodes[hit.place]) if hit.kind == "node" else -1
        return (number,) if number in self.ends else ()

    def casts_in(self, area: Area) -> list[Chip]:
        """The chips of the casts into the nodes that touch `area`."""
        if self._casts is None:
            self._casts = CastLayer(self.layout, self.graph)
        numbers = self.layout.nodes[self.nodes_in(area)].tolist()
        return [chip for number in numbers for chip in self._casts.at(number, self.graph)]

    def cast_on(self, edge: int) -> str:
        """How values are converted along an edge; empty where they are not."""
        x, y = self.layout.points[self.layout.starts[edge + 1] - 1].tolist()
        return next((chip.told for chip in self.casts_in((x, y, 0.0, 0.0)) if chip.edge == edge), "")

    def casts_changed(self, ids: Iterable[str]) -> list[Area]:
        """Where chips appear, change or go because these nodes have other formats."""
        index = self.layout.tree.index
        return self._casts.changed([index[i] for i in ids], self.graph) if self._casts else []

    def choices_changed(self, graph: Graph, ids: Iterable[str]) -> list[Area]:
        """Take over a graph with other choices; where groups now differ from their twins, or no longer."""
        tree, before = self.layout.tree, self.figures.answered
        self.graph = graph
        self.figures.update(graph, ids, tree.index)
        changed = (g for g, unlike in before.items() if self.figures.twins(tree, g)[1] != unlike)
        return [self._head_of(self.group_place[g]) for g in changed if g in self.group_place]

    def _head_of(self, place: int) -> Area:
        """The strip of a group that tells of it; of a closed one all."""
        x, y, w, h = self.layout.group_rects[place].tolist()
        return x, y, w, HEAD if self.layout.group_open[place] else h

    def shape(self, edge: int) -> str:
        """The shape that an edge carries."""
        return self.output(*self.layout.tensors[edge].tolist())

    def output(self, node: int, output: int = 0) -> str:
        """The shape of an output of a node."""
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


def sources(stub: Stub) -> tuple[int, ...]:
    """Numbers of the nodes that a stub stands for."""
    return stub.source, *stub.others


def _cover(layout: Layout) -> Found:
    """By node: the place of the closed group that hides it, or -1."""
    tree = layout.tree
    cover = np.full(len(tree.groups) + 1, -1, np.int64)  # the last one: nodes that have no box
    closed = np.flatnonzero(~layout.group_open)
    cover[layout.groups[closed]] = closed
    shown = np.zeros(len(tree.groups), bool)
    shown[layout.groups] = shown[0] = True
    for number in np.flatnonzero(~shown).tolist():  # a group comes after the one around it
        cover[number] = cover[tree.groups[number].parent]
    return cover[np.array(tree.home, np.int64)]


def _boxes(points: NDArray[np.float64], starts: Found) -> NDArray[np.float64]:
    if len(starts) < 2:
        return np.zeros((0, 4))
    low = np.minimum.reduceat(points, starts[:-1], axis=0)
    high = np.maximum.reduceat(points, starts[:-1], axis=0)
    return np.hstack([low, high])


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
