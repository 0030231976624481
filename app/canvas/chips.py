"""Texts on edges as chips that overlap nothing else, and where they fit. Free of Qt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from espalier.app.canvas.box_index import BoxIndex
from espalier.app.canvas.camera import Area
from espalier.app.canvas.layout import HEAD, MAX_LABEL_WIDTH, Layout
from espalier.app.figures.captions import shape_text, text_width
from espalier.app.theme import SECONDARY
from espalier.model.graph.graph import Graph, out_port

HEIGHT, SIDE, ABOVE, DOT = 15.0, 6.0, 12.0, 7.0  # canvas units: of a chip, its padding, above its node, a mark
GAP = 1.5  # between a chip and what lies beside it


@dataclass(frozen=True, slots=True)
class Chip:
    """A text on edge `edge`. `words`: text of the chip, empty if only a mark fits; `told`: the full text."""

    edge: int
    box: Area
    words: str
    told: str


class ChipPlacer:
    """Places chips so that they overlap no box, group header, edge label or other wire."""

    def __init__(self, layout: Layout, graph: Graph) -> None:
        self.layout, self._graph = layout, graph
        self._along, self._across = (0, 1) if layout.horizontal else (1, 0)
        heads = layout.group_rects.copy()
        heads[layout.group_open, 3] = HEAD
        self._near = np.concatenate([layout.node_rects, layout.stub_rects, heads, layout.fold_rects])
        self._boxes = BoxIndex.of_rects(self._near, 1)
        self._frames = layout.group_rects[layout.group_open]  # a chip lies wholly inside or outside each
        self._near_frames = BoxIndex.of_rects(self._frames, 1)
        self._labelled = np.flatnonzero(layout.labels[:, 2] > 40)
        x, y, room = layout.labels[self._labelled].T
        self._labels = BoxIndex.of_rects(np.stack([x + 6, y - 8, np.minimum(room, MAX_LABEL_WIDTH), 0 * y + 16], 1), 1)
        self.ends = layout.points[layout.starts[1:] - 1] if len(layout.points) else np.zeros((0, 2))
        self._order = np.argsort(self.ends[:, self._along], kind="stable")
        self._sorted = self.ends[self._order, self._along]
        self.place_of = np.full(len(layout.tree.ids), -1, np.int64)
        self.place_of[layout.nodes] = np.arange(len(layout.nodes))
        last = np.zeros(len(layout.points), bool)
        last[layout.starts[1:] - 1] = True
        first = np.flatnonzero(~last)
        self._owner = np.repeat(np.arange(len(layout.starts) - 1), np.maximum(np.diff(layout.starts) - 1, 0))
        self._from, self._to = layout.points[first], layout.points[np.minimum(first + 1, len(layout.points) - 1)]
        self._wires = BoxIndex(np.minimum(self._from, self._to), np.maximum(self._from, self._to), 1)

    def edges_at(self, rect: list[float]) -> list[int]:
        """The edges that end at the upper (left) side of a box, in their order along it."""
        low, size, side = rect[self._across], rect[self._across + 2], rect[self._along]
        part = slice(*np.searchsorted(self._sorted, (side - 0.5, side + 0.5)).tolist())
        places = {k: float(self.ends[k, self._across]) for k in self._order[part].tolist()}
        return sorted((k for k, place in places.items() if low <= place <= low + size), key=places.__getitem__)

    def before_end(self, edge: int, above: float = ABOVE) -> tuple[float, float]:
        """The position of a mark on an edge, shortly before its end."""
        line = self.layout.points[self.layout.starts[edge] : self.layout.starts[edge + 1]][-2:]
        t = np.linspace(0, 1, 49)[:, None]
        curve = self._curve(line[:1], line[-1:], t)
        spots = np.hstack([curve[0], curve[1]])
        away = np.abs(np.hypot(*(spots - line[-1]).T) - above)
        return tuple(spots[int(away.argmin())].tolist())

    def _curve(
        self, a: NDArray[np.float64], b: NDArray[np.float64], t: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """x and y along painted stretches from `a` to `b`, as scene.curve."""
        ease, straight = 3 * t**2 - 2 * t**3, 1.5 * t - 1.5 * t**2 + t**3
        shape = {self._across: ease, self._along: straight}
        x, y = (a[:, k] + (b[:, k] - a[:, k]) * shape[k] for k in (0, 1))
        return x, y

    def tries(self, x: float, y: float, wide: float) -> list[Area]:
        """Boxes for a chip on an edge that ends at a point."""
        if self.layout.horizontal:
            return [(x - wide - 5, y - HEIGHT - 2, wide, HEIGHT), (x - wide - 5, y + 2, wide, HEIGHT)]
        top = y - ABOVE - HEIGHT / 2
        return [(x - wide / 2, top, wide, HEIGHT), (x - wide - 4, top, wide, HEIGHT), (x + 4, top, wide, HEIGHT)]

    def inside(self, box: Area, rect: list[float]) -> bool:
        """Whether a chip stays within the width of its node, so that chips of two nodes never overlap."""
        k = self._across
        return rect[k] <= box[k] and box[k] + box[k + 2] <= rect[k] + rect[k + 2]

    def alone(self, box: Area, rect: list[float], reach: float) -> bool:
        """Whether no box but the one at `rect` is so near that chips of both could meet."""
        x, y, w, h = box
        area = (x - reach, y - GAP, w + 2 * reach, h + 2 * GAP + ABOVE)
        near = self._near[self._boxes.touching(area)]
        return bool((np.abs(near - rect) < GAP).all())

    def free(self, box: Area, edge: int) -> bool:
        """Whether a chip on an edge overlaps nothing but that edge."""
        x, y, w, h = box
        around = (x - GAP, y - GAP, w + 2 * GAP, h + 2 * GAP)
        if len(self._boxes.touching(around)) or self._on_label(around) or self.crossed(around, edge):
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

    def crossed(self, area: Area, edge: int = -1) -> bool:
        """Whether a wire other than `edge` crosses the area."""
        near = self._wires.touching(area)
        near = near[self._owner[near] != edge]
        if not len(near):
            return False
        x, y, w, h = area
        px, py = self._curve(self._from[near], self._to[near], np.linspace(0, 1, 25)[:, None])
        return bool(((px >= x) & (px <= x + w) & (py >= y) & (py <= y + h)).any())
