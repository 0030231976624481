"""The content of the canvas as arrays, with queries by area and by point.

Free of Qt. A scene belongs to one layout; metrics and colours are replaced without a new layout.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from espalier.app.canvas.arranging import arranged
from espalier.app.canvas.box_index import BoxIndex, Indices
from espalier.app.canvas.boxes import Item
from espalier.app.canvas.camera import Area
from espalier.app.canvas.casts import CastLayer
from espalier.app.canvas.chips import Chip
from espalier.app.canvas.colouring import Colouring
from espalier.app.canvas.fold_card import bar_at, slots
from espalier.app.canvas.fold_metrics import FoldMetrics, bar_colours, links_of
from espalier.app.canvas.hierarchy import Stub
from espalier.app.canvas.layout import HEAD, MAX_LABEL_WIDTH, Layout, cover_of
from espalier.app.canvas.movement import EdgeIndex
from espalier.app.canvas.node_metrics import NodeMetrics
from espalier.app.canvas.node_search import NodeSearch
from espalier.app.canvas.size_bars import SizeBars
from espalier.app.canvas.transfers import TransferLayer
from espalier.app.figures.captions import shape_text
from espalier.model.document.arrangement import UNARRANGED, Arrangement
from espalier.model.graph.graph import Graph, out_port


@dataclass(frozen=True, slots=True)
class Hit:
    """The object at a point: its kind ("node", "stub", "group", "fold", "frame"), its index in the layout, whether on
    the triangle; of a fold also the bar (-1: none) and the link."""

    kind: str
    place: int
    triangle: bool = False
    bar: int = -1
    link: str = ""


@dataclass(slots=True)
class Lifted:
    """What is not painted with the scene because it is being dragged, as masks by index in the layout."""

    nodes: NDArray[np.bool_]
    groups: NDArray[np.bool_]
    folds: NDArray[np.bool_]
    stubs: NDArray[np.bool_]
    edges: NDArray[np.bool_]

    def has(self, item: Item) -> bool:
        """Whether a box is among it."""
        masks = {"node": self.nodes, "group": self.groups, "fold": self.folds}
        return bool(masks[item.kind][item.place])


@dataclass(slots=True)
class Scene:
    """A layout with the data to paint and query it. `base`: the layout without pins and frames."""

    graph: Graph
    layout: Layout
    figures: NodeMetrics
    colours: Colouring
    finder: NodeSearch
    problems: dict[int, str] = field(default_factory=dict)
    sizes: SizeBars | None = None
    transfers: TransferLayer | None = field(init=False, default=None)
    base: Layout | None = None
    arrangement: Arrangement = UNARRANGED
    lifted: Lifted | None = field(init=False, default=None)
    segments: NDArray[np.float64] = field(init=False)
    segment_edge: Indices = field(init=False)
    edge_box: NDArray[np.float64] = field(init=False)  # rows left, top, right, bottom
    place_of: dict[int, int] = field(init=False)
    group_place: dict[int, int] = field(init=False)
    cover: Indices = field(init=False)  # by node: the place in `hiding_rects` of what hides it, or -1
    hiding_rects: NDArray[np.float64] = field(init=False)  # of groups, then of folds
    ends: dict[int, list[int]] = field(init=False)  # node number → places of the stubs of its tensors
    _edge_index: EdgeIndex | None = field(init=False, default=None)
    _casts: CastLayer | None = field(init=False, default=None)
    _fold_metrics: dict[int, FoldMetrics] = field(init=False, default_factory=dict)
    _fold_colours: dict[int, tuple[Colouring, tuple[str, ...]]] = field(init=False, default_factory=dict)
    _nodes: BoxIndex = field(init=False)
    _groups: BoxIndex = field(init=False)
    _stubs: BoxIndex = field(init=False)
    _edges: BoxIndex = field(init=False)

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
        reach = np.where(
            labels[:, 2] > 0, labels[:, 0] + np.minimum(labels[:, 2], MAX_LABEL_WIDTH), self.edge_box[:, 2]
        )
        self.edge_box[:, 2] = np.maximum(self.edge_box[:, 2], reach)
        axis = 0 if self.layout.horizontal else 1
        self._nodes = BoxIndex.of_rects(self.layout.node_rects, axis)
        self._groups = BoxIndex.of_rects(self.layout.group_rects, axis)
        self._stubs = BoxIndex.of_rects(self.layout.stub_rects, axis)
        self._edges = BoxIndex(self.edge_box[:, :2], self.edge_box[:, 2:], axis)
        self.place_of = dict(zip(self.layout.nodes.tolist(), range(len(self.layout.nodes)), strict=True))
        self.group_place = dict(zip(self.layout.groups.tolist(), range(len(self.layout.groups)), strict=True))
        self.cover = cover_of(self.layout)
        self.hiding_rects = np.vstack([self.layout.group_rects, self.layout.fold_rects])
        self.ends = {}
        for place, number in enumerate(self.layout.stubs.tolist()):
            for source in sources(self.layout.tree.stubs[number]):
                self.ends.setdefault(source, []).append(place)

    @property
    def area(self) -> Area:
        """The bounds of the graph."""
        return self.layout.left, self.layout.top, self.layout.width, self.layout.height

    def rearranged(self, arrangement: Arrangement) -> Scene:
        """The scene with other pins and frames."""
        base = self.base or self.layout
        index = self.edge_index() if arrangement.pins else None
        scene = Scene(self.graph, arranged(base, arrangement, index), self.figures, self.colours, self.finder,
                      self.problems, self.sizes, base, arrangement)  # fmt: skip
        scene._fold_metrics, scene._edge_index = self._fold_metrics, self._edge_index
        return scene

    def edge_index(self) -> EdgeIndex:
        """The edges of the layout without pins, by box and tensor."""
        if self._edge_index is None:
            self._edge_index = EdgeIndex(self.base or self.layout)
        return self._edge_index

    def nodes_in(self, area: Area) -> Indices:
        """Indices of the nodes that touch `area`."""
        return self._nodes.touching(area)

    def groups_in(self, area: Area) -> Indices:
        """Indices of the groups that touch `area`, outer before inner."""
        return self._groups.touching(area)

    def shown_in(self, area: Area) -> Indices:
        """Numbers of the nodes that touch `area`, and of all nodes in collapsed groups that do, ascending."""
        chosen = np.zeros(len(self.cover), bool)
        chosen[self.layout.nodes[self.nodes_in(area)]] = True
        touched = np.zeros(len(self.hiding_rects) + 1, bool)  # the last one stands for "hidden by nothing"
        touched[self.groups_in(area)] = True
        touched[len(self.layout.groups) + self.folds_in(area)] = True
        touched[-1] = False
        return np.flatnonzero(chosen | touched[self.cover])

    def folds_in(self, area: Area) -> Indices:
        """Indices of the folds that touch `area`."""
        x, y, w, h = area
        left, top, wide, high = self.layout.fold_rects.T
        return np.flatnonzero((left <= x + w) & (left + wide >= x) & (top <= y + h) & (top + high >= y))

    def edges_in(self, area: Area) -> Indices:
        """Indices of the edges whose bounds touch `area`."""
        return self._edges.touching(area)

    def stubs_in(self, area: Area) -> Indices:
        """Indices of the stubs that touch `area`."""
        return self._stubs.touching(area)

    def hit(self, x: float, y: float) -> Hit | None:
        """The object at a point: a node, stub or fold, the title of a frame, else the innermost group."""
        spot = (x, y, 0.0, 0.0)
        for kind, found in (("node", self.nodes_in(spot)), ("stub", self.stubs_in(spot))):
            if len(found):
                return Hit(kind, int(found[-1]))
        if len(folds := self.folds_in(spot)):
            return self._hit_fold(int(folds[-1]), x, y)
        groups = self.groups_in(spot)
        if self.layout.own_frames and self.layout.group_open[groups].all():
            for place, frame in reversed(list(enumerate(self.layout.own_frames))):
                left, top, wide, high = frame.tab
                if left <= x <= left + wide and top <= y <= top + high:
                    return Hit("frame", place)
        if not len(groups):
            return None
        areas = self.layout.group_rects[groups, 2] * self.layout.group_rects[groups, 3]
        place = int(groups[np.argmin(areas)])
        gx, gy = self.layout.group_rects[place, :2]
        return Hit("group", place, bool(x - gx <= 28 and y - gy <= HEAD))

    def _hit_fold(self, place: int, x: float, y: float) -> Hit:
        left, top, _, _ = self.layout.fold_rects[place].tolist()
        fold = self.layout.folds[place]
        for link, (a, b, w, h) in links_of(fold).items():
            if a <= x - left <= a + w and b <= y - top <= b + h:
                return Hit("fold", place, link=link)
        return Hit("fold", place, bar=bar_at(len(fold.members), x - left, y - top))

    def fold_metrics(self, place: int) -> FoldMetrics:
        """The metrics of a fold, kept until a choice changes."""
        metrics = self._fold_metrics.get(place)
        if metrics is None:
            fold = self.layout.folds[place]
            metrics = self._fold_metrics[place] = FoldMetrics.of(self.layout.tree, fold, self.figures, self.graph)
        return metrics

    def fold_colours(self, place: int) -> tuple[str, ...]:
        """The colours of the bars of a fold, kept until the colouring changes."""
        known = self._fold_colours.get(place)
        if known is None or known[0] is not self.colours:
            fold = self.layout.folds[place]
            known = self.colours, bar_colours(self.layout.tree, fold, self.figures, self.colours)
            self._fold_colours[place] = known
        return known[1]

    def place_of_group(self, number: int) -> tuple[str, int] | None:
        """Where a group is drawn: ("group", index), ("fold", index of the fold that hides it), or None."""
        if number in self.group_place:
            return "group", self.group_place[number]
        return next((("fold", k) for k, fold in enumerate(self.layout.folds) if number in fold.members), None)

    def rect_of_group(self, number: int) -> Area | None:
        """The rectangle of a group, or of the fold that hides it."""
        found = self.place_of_group(number)
        if found is None:
            return None
        rects = self.layout.group_rects if found[0] == "group" else self.layout.fold_rects
        return tuple(rects[found[1]].tolist())

    def edge_at(self, x: float, y: float, reach: float) -> int | None:
        """The nearest edge within `reach` (canvas units) of a point."""
        area = (x - reach, y - reach, 2 * reach, 2 * reach)
        edges = self.edges_in(area)
        best, nearest = reach, None
        for k in edges.tolist():
            points = self.layout.points[self.layout.starts[k] : self.layout.starts[k + 1]]
            distance = _distance(curve(points, self.layout.horizontal), x, y)
            if distance < best:
                best, nearest = distance, k
        return nearest

    def ends_of(self, numbers: Iterable[int]) -> Indices:
        """Indices of all stubs of the tensors that these nodes produce."""
        return np.array(sorted({p for i in numbers for p in self.ends.get(i, ())}), np.int64)

    def sources_at(self, hit: Hit) -> tuple[int, ...]:
        """Numbers of the nodes whose shared tensors a hit node or stub represents."""
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
        """The conversion of values along an edge; empty if there is none."""
        x, y = self.layout.points[self.layout.starts[edge + 1] - 1].tolist()
        return next((chip.told for chip in self.casts_in((x, y, 0.0, 0.0)) if chip.edge == edge), "")

    def casts_changed(self, ids: Iterable[str]) -> list[Area]:
        """The areas of chips that change because these nodes have other formats."""
        index = self.layout.tree.index
        return self._casts.changed([index[i] for i in ids], self.graph) if self._casts else []

    def choices_changed(self, graph: Graph, ids: Iterable[str]) -> list[Area]:
        """Replace the graph by one with other choices. Returns the areas of groups that now differ from their twins
        or no longer do, and of folds that look different."""
        tree, before = self.layout.tree, self.figures.answered
        folds, self._fold_metrics = self._fold_metrics, {}
        if self.transfers is not None:
            self.transfers.forget_chips()
        self.graph = graph
        self.figures.update(graph, ids, tree.index)
        changed = (g for g, unlike in before.items() if self.figures.twins(tree, g)[1] != unlike)
        heads = [self._head_of(self.group_place[g]) for g in changed if g in self.group_place]
        unlike = (place for place, metrics in folds.items() if self.fold_metrics(place) != metrics)
        return heads + [tuple(self.layout.fold_rects[place].tolist()) for place in unlike]

    def _head_of(self, place: int) -> Area:
        """The header of an expanded group, or the whole of a collapsed one."""
        x, y, w, h = self.layout.group_rects[place].tolist()
        return x, y, w, HEAD if self.layout.group_open[place] else h

    def shape(self, edge: int) -> str:
        """The shape of the tensor of an edge."""
        return self.output(*self.layout.tensors[edge].tolist())

    def output(self, node: int, output: int = 0) -> str:
        """The shape of an output of a node."""
        meta = self.graph.nodes[self.layout.tree.ids[node]].ports.get(out_port(output))
        return shape_text(meta)

    def rect_of(self, node: int) -> Area | None:
        """The rectangle of a node, or of the collapsed group or the fold that hides it."""
        if node in self.place_of:
            return tuple(self.layout.node_rects[self.place_of[node]].tolist())
        hiding = int(self.cover[node])
        return tuple(self.hiding_rects[hiding].tolist()) if hiding >= 0 else None


def bar_area(layout: Layout, place: int, bar: int) -> Area:
    """The rectangle of a bar of a fold with its number."""
    left, top = layout.fold_rects[place, :2].tolist()
    x, y, w, h = slots(len(layout.folds[place].members))[bar].tolist()
    return left + x - 3, top + y - 3, w + 6, h + 18


def sources(stub: Stub) -> tuple[int, ...]:
    """Numbers of the nodes that a stub represents."""
    return stub.source, *stub.others


def _boxes(points: NDArray[np.float64], starts: Indices) -> NDArray[np.float64]:
    if len(starts) < 2:
        return np.zeros((0, 4))
    low = np.minimum.reduceat(points, starts[:-1], axis=0)
    high = np.maximum.reduceat(points, starts[:-1], axis=0)
    return np.hstack([low, high])


def curve(points: NDArray[np.float64], horizontal: bool, steps: int = 8) -> NDArray[np.float64]:
    """The painted curve of a route as a polyline."""
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
