"""Format conversions along edges (casts), as chips that overlap nothing else.

Free of Qt, so that the canvas and the SVG writer show the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from espalier.app.canvas.box_index import BoxIndex
from espalier.app.canvas.camera import Area
from espalier.app.canvas.layout import HEAD, MAX_LABEL_WIDTH, Layout
from espalier.app.canvas.node_metrics import FLOATS
from espalier.app.figures.captions import shape_text, text_width
from espalier.app.theme import SECONDARY
from espalier.model.graph.casts import casts_into
from espalier.model.graph.graph import Graph, Node, out_port
from espalier.model.graph.ops import spec
from espalier.model.graph.ports import carriers

Pair = tuple[str, str]  # format before, format after
Pairs = Mapping[str, Pair]  # producer → its conversion for one consumer
HEIGHT, SIDE, ABOVE, DOT = 15.0, 6.0, 12.0, 7.0  # canvas units: of a chip, its padding, above its node, a mark
GAP = 1.5  # between a chip and what lies beside it


@dataclass(frozen=True, slots=True)
class Chip:
    """One cast on edge `edge`. `words`: text of the chip, empty if only a mark fits; `told`: the full text."""

    edge: int
    box: Area
    words: str
    told: str


def casts_of(node: Node, graph: Graph, live: Collection[str]) -> Pairs:
    """Producer → (format before, format after) of the inputs that `node` converts; `live`: `carriers(graph)`."""
    pairs: dict[str, Pair] = {}
    for cast in casts_into(node, graph, live):
        before = cast.before.label if cast.before else FLOATS.get(cast.dtype, cast.dtype)
        after = f"{cast.after.label}, another scale" if cast.rescales else cast.after.label
        other = pairs.get(cast.ref.node)
        pairs[cast.ref.node] = (before, after if other is None or other[1] == after else f"{other[1]} and {after}")
    return pairs


class CastLayer:
    """The chips of one layout, computed when they are painted and cached until a format changes."""

    def __init__(self, layout: Layout, graph: Graph) -> None:
        self._layout, self._placer = layout, _ChipPlacer(layout, graph)
        self._cache: dict[int, tuple[Pairs, tuple[Chip, ...]]] = {}
        self._live = carriers(graph)
        self._moves = [spec(graph.nodes[name].op).moves for name in layout.tree.ids]
        edges = layout.tree.edges[np.argsort(layout.tree.edges[:, 0], kind="stable")]
        self._users, self._starts = edges[:, 1], np.searchsorted(edges[:, 0], np.arange(len(self._moves) + 1))

    def at(self, number: int, graph: Graph) -> tuple[Chip, ...]:
        """The chips of the casts into a node."""
        pairs = casts_of(graph.nodes[self._layout.tree.ids[number]], graph, self._live)
        if not pairs:
            self._cache.pop(number, None)
            return ()
        cached = self._cache.get(number)
        if cached is None or cached[0] != pairs:
            cached = self._cache[number] = pairs, tuple(self._placer.chips(number, pairs))
        return cached[1]

    def changed(self, numbers: Iterable[int], graph: Graph) -> list[Area]:
        """The areas where chips change after these nodes have changed their formats."""
        areas: list[Area] = []
        for number in self._reached(numbers):
            before = self._cache.get(number, ({}, ()))[1]
            after = self.at(number, graph)
            if after != before:
                areas += [chip.box for chip in (*before, *after)]
        return areas

    def _reached(self, numbers: Iterable[int]) -> list[int]:
        """The nodes and the consumers of their results, also behind operations that only move values."""
        reached = set(numbers)
        ends = list(reached)
        while ends:
            end = ends.pop()
            users = {u for u in self._users[self._starts[end] : self._starts[end + 1]].tolist() if u not in reached}
            reached |= users
            ends += [u for u in users if self._moves[u]]
        return sorted(reached)


class _ChipPlacer:
    """Places chips so that they overlap no box, group header, edge label or other wire."""

    def __init__(self, layout: Layout, graph: Graph) -> None:
        self.layout, self._graph = layout, graph
        self._along, self._across = (0, 1) if layout.horizontal else (1, 0)
        heads = layout.group_rects.copy()
        heads[layout.group_open, 3] = HEAD
        self._boxes = BoxIndex.of_rects(
            np.concatenate([layout.node_rects, layout.stub_rects, heads, layout.fold_rects]), 1
        )
        self._frames = layout.group_rects[layout.group_open]  # a chip lies wholly inside or outside each
        self._near_frames = BoxIndex.of_rects(self._frames, 1)
        self._labelled = np.flatnonzero(layout.labels[:, 2] > 40)
        x, y, room = layout.labels[self._labelled].T
        self._labels = BoxIndex.of_rects(np.stack([x + 6, y - 8, np.minimum(room, MAX_LABEL_WIDTH), 0 * y + 16], 1), 1)
        self._ends = layout.points[layout.starts[1:] - 1] if len(layout.points) else np.zeros((0, 2))
        self._order = np.argsort(self._ends[:, self._along], kind="stable")
        self._sorted = self._ends[self._order, self._along]
        self._place_of = np.full(len(layout.tree.ids), -1, np.int64)
        self._place_of[layout.nodes] = np.arange(len(layout.nodes))
        last = np.zeros(len(layout.points), bool)
        last[layout.starts[1:] - 1] = True
        first = np.flatnonzero(~last)
        self._owner = np.repeat(np.arange(len(layout.starts) - 1), np.maximum(np.diff(layout.starts) - 1, 0))
        self._from, self._to = layout.points[first], layout.points[np.minimum(first + 1, len(layout.points) - 1)]
        self._wires = BoxIndex(np.minimum(self._from, self._to), np.maximum(self._from, self._to), 1)

    def chips(self, consumer: int, pairs: Pairs) -> Iterator[Chip]:
        """A chip with text on the first edge, if it fits above the consumer; marks on the others."""
        place = int(self._place_of[consumer])
        if place < 0:
            return
        rect: list[float] = self.layout.node_rects[place].tolist()
        alone = len(set(pairs.values())) == 1
        tree = self.layout.tree
        drawn = {
            tree.through.get(i, i): pair for name, pair in reversed(list(pairs.items())) for i in (tree.index[name],)
        }
        for edge in self._edges(rect):
            pair = drawn.get(int(self.layout.tensors[edge, 0]))
            if pair is not None:
                yield self._chip(edge, pair, rect, alone)
                alone = False

    def _edges(self, rect: list[float]) -> list[int]:
        """The edges that end at the upper (left) side of a box, in their order along it."""
        low, size, side = rect[self._across], rect[self._across + 2], rect[self._along]
        part = slice(*np.searchsorted(self._sorted, (side - 0.5, side + 0.5)).tolist())
        places = {k: float(self._ends[k, self._across]) for k in self._order[part].tolist()}
        return sorted((k for k, place in places.items() if low <= place <= low + size), key=places.__getitem__)

    def _chip(self, edge: int, pair: Pair, rect: list[float], alone: bool) -> Chip:
        told = " → ".join(pair)
        x, y = self._ends[edge].tolist()
        for words in (told, f"→ {pair[1]}") if alone else ():
            wide = text_width(words, SECONDARY) + 2 * SIDE
            for box in self._tries(x, y, wide):
                if self._inside(box, rect) and self._free(box, edge):
                    return Chip(edge, box, words, told)
        x, y = self._before_end(edge)
        return Chip(edge, (x - DOT / 2, y - DOT / 2, DOT, DOT), "", told)

    def _before_end(self, edge: int) -> tuple[float, float]:
        """The position of a mark on an edge, shortly before its end."""
        line = self.layout.points[self.layout.starts[edge] : self.layout.starts[edge + 1]][-2:]
        t = np.linspace(0, 1, 49)[:, None]
        curve = self._curve(line[:1], line[-1:], t)
        spots = np.hstack([curve[0], curve[1]])
        away = np.abs(np.hypot(*(spots - line[-1]).T) - ABOVE)
        return tuple(spots[int(away.argmin())].tolist())

    def _curve(
        self, a: NDArray[np.float64], b: NDArray[np.float64], t: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """x and y along painted stretches from `a` to `b`, as scene.curve."""
        ease, straight = 3 * t**2 - 2 * t**3, 1.5 * t - 1.5 * t**2 + t**3
        shape = {self._across: ease, self._along: straight}
        x, y = (a[:, k] + (b[:, k] - a[:, k]) * shape[k] for k in (0, 1))
        return x, y

    def _tries(self, x: float, y: float, wide: float) -> list[Area]:
        if self.layout.horizontal:
            return [(x - wide - 5, y - HEIGHT - 2, wide, HEIGHT), (x - wide - 5, y + 2, wide, HEIGHT)]
        top = y - ABOVE - HEIGHT / 2
        return [(x - wide / 2, top, wide, HEIGHT), (x - wide - 4, top, wide, HEIGHT), (x + 4, top, wide, HEIGHT)]

    def _inside(self, box: Area, rect: list[float]) -> bool:
        """Whether a chip stays within the width of its node, so that chips of two nodes never overlap."""
        k = self._across
        return rect[k] <= box[k] and box[k] + box[k + 2] <= rect[k] + rect[k + 2]

    def _free(self, box: Area, edge: int) -> bool:
        x, y, w, h = box
        around = (x - GAP, y - GAP, w + 2 * GAP, h + 2 * GAP)
        if len(self._boxes.touching(around)) or self._on_label(around) or self._crossed(around, edge):
            return False
        frames = self._frames[self._near_frames.touching(around)]
        return bool((frames[:, 0] <= x).all() and (frames[:, 0] + frames[:, 2] >= x + w).all())

    def _on_label(self, area: Area) -> bool:
        """Whether the label of an edge, in a wide font, overlaps the area."""
        layout = self.layout
        for edge in self._labelled[self._labels.touching(area)].tolist():
            number, output = layout.tensors[edge].tolist()
            shape = shape_text(self._graph.nodes[layout.tree.ids[number]].ports.get(out_port(output)))
            if shape and layout.labels[edge, 0] + 6 + text_width(shape, SECONDARY) + 2 >= area[0]:
                return True
        return False

    def _crossed(self, area: Area, edge: int) -> bool:
        """Whether another wire crosses the area."""
        near = self._wires.touching(area)
        near = near[self._owner[near] != edge]
        if not len(near):
            return False
        x, y, w, h = area
        px, py = self._curve(self._from[near], self._to[near], np.linspace(0, 1, 25)[:, None])
        return bool(((px >= x) & (px <= x + w) & (py >= y) & (py <= y + h)).any())
