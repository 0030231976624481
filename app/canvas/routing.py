"""Edge routes of one group after coordinate assignment: where they leave, pass and arrive.

A route is curved between two layers and straight in its slot within a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from espalier.app.canvas.coordinates import Part

Wire = tuple[int, int, int, int]
Point = tuple[float, float]  # (across, along)
Label = tuple[float, float, float]  # across, along, room
GAP_LEAST, GAP_BORDER, GAP_MOST = 24.0, 12.0, 60.0
SNAP = 8.0


@dataclass(frozen=True, slots=True)
class Box:
    """A child: its size, and where wires meet its two sides (empty: anywhere); `mute`: its caption lacks its shape."""

    across: float
    along: float
    ins: tuple[float, ...] = ()
    outs: tuple[float, ...] = ()
    group: bool = False
    mute: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """Sizes of the border of a group: space before and after the children, and its ports."""

    ins: int = 0
    outs: int = 0
    head: float = 0.0
    tail: float = 0.0
    before: float = 0.0
    after: float = 0.0
    least: float = 0.0
    keep: tuple[float, float] = (0.0, 0.0)
    least_along: float = 0.0


class Routing:
    """Routes wires between placed parts: boxes, then border inputs (from `first`), outputs (from `last`) and slots.

    `wires`: (part, port, part, port), all downwards; `lanes`: the parts that each wire passes.
    """

    def __init__(
        self,
        boxes: Sequence[Box],
        frame: Frame,
        parts: list[Part],
        layers: list[list[int]],
        wires: list[Wire],
        lanes: list[list[int]],
    ) -> None:
        self.boxes, self.frame, self.parts, self.layers = boxes, frame, parts, layers
        self.first, self.last = len(boxes), len(boxes) + frame.ins
        self.wires, self.routes = wires, lanes
        self.joints = self._joints()
        self.tops, self.bottoms, self.along = self._levels()

    def points(self) -> list[list[Point]]:
        """The points of every route, from its source to its end."""
        drawn: set[tuple[int, int, int]] = set()
        return [self._route(k, drawn) for k in range(len(self.wires))]

    def labels(self, across: float) -> list[Label]:
        """For each straight wire whose shape is not in a caption: the position and maximum width of its label."""
        spans: dict[int, list[tuple[float, float, int]]] = {}
        for k, route in enumerate(self.routes):
            ends = [self.joints[k][0], *(self._middle(v) for v in route[1:-1]), self.joints[k][1]]
            for u, (x, y) in zip(route, pairwise(ends), strict=False):
                spans.setdefault(self.parts[u].rank, []).append((min(x, y), max(x, y), k))
        labels = [(0.0, 0.0, 0.0)] * len(self.routes)
        for k, route in enumerate(self.routes):
            x, end = self.joints[k][0], self.joints[k][1] if len(route) == 2 else self._middle(route[1])
            if abs(x - end) < 1 and self._needs_label(route):
                r = self.parts[route[0]].rank
                others = [low for low, high, j in spans[r] if j != k and high > x + 1]
                labels[k] = (x, (self.bottoms[r] + self.tops[r + 1]) / 2, max(min([across, *others]) - x, 0.0))
        return labels

    def _needs_label(self, route: list[int]) -> bool:
        """Whether a label adds information: between two children, one a group or the upper one without its shape."""
        first, last = route[0], route[-1]
        if max(first, last) >= self.first:
            return False
        return self.boxes[first].group or self.boxes[first].mute or self.boxes[last].group

    def _joints(self) -> list[tuple[float, float]]:
        """Where each wire leaves and arrives, across; wires into one box are spread in the order of their origins."""
        arrivals: dict[int, list[int]] = {}
        for k, (_, _, b, _) in enumerate(self.wires):
            if b < self.first and not self.boxes[b].ins:
                arrivals.setdefault(b, []).append(k)
        ends = [self.parts[b].left + self._anchor(b, q, True) for _, _, b, q in self.wires]
        starts = [self.parts[a].left + self._anchor(a, p, False) for a, p, _, _ in self.wires]
        for b, ks in arrivals.items():
            self._spread_arrivals(b, ks, ends, starts)
        return list(zip(starts, ends, strict=True))

    def _anchor(self, item: int, port: int, top: bool) -> float:
        """Where a wire meets a part, relative to its left edge."""
        if item < self.first:
            known = self.boxes[item].ins if top else self.boxes[item].outs
            if port < len(known):
                return known[port]
        return self.parts[item].across / 2

    def _spread_arrivals(self, b: int, ks: list[int], ends: list[float], starts: list[float]) -> None:
        part = self.parts[b]
        came = {k: starts[k] if len(self.routes[k]) == 2 else self._middle(self.routes[k][-2]) for k in ks}
        groups: dict[float, list[int]] = {}
        for k in ks:
            groups.setdefault(round(came[k], 1), []).append(k)
        places = sorted(groups)
        step = min(24.0, (part.across - 24.0) / len(places))
        middle = part.left + part.across / 2
        low, high = part.left + 10.0, part.left + part.across - 10.0
        if low > high:
            low = high = middle
        for n, came_from in enumerate(places):
            end = middle + (n - (len(places) - 1) / 2) * step
            if abs(came_from - end) <= max(SNAP, step / 2) and low <= came_from <= high:
                end = came_from
            for k in groups[came_from]:
                ends[k] = end

    def _middle(self, part: int) -> float:
        return self.parts[part].left + self.parts[part].across / 2

    def _levels(self) -> tuple[list[float], list[float], float]:
        """The start and end of each layer along the flow, and the total length."""
        frame, count = self.frame, len(self.layers)
        swing = [0.0] * count
        for k, route in enumerate(self.routes):
            for u, v in pairwise(route):
                start = self.joints[k][0] if u == route[0] else self._middle(u)
                end = self.joints[k][1] if v == route[-1] else self._middle(v)
                r = self.parts[u].rank
                swing[r] = max(swing[r], abs(end - start))
        tops, bottoms = [0.0] * count, [0.0] * count
        place = 0.0 if frame.ins else frame.head
        for r, layer in enumerate(self.layers):
            border = r == 0 and frame.ins
            size = frame.head if border else max((self._along(i) for i in layer), default=0.0)
            tops[r], bottoms[r] = place, place + size
            least = GAP_LEAST if not border else GAP_BORDER
            gap = min(least + swing[r] / 12, GAP_MOST)
            place += size + (gap if r + 1 < count else 0.0)
        return tops, bottoms, max(place + (0.0 if frame.outs else frame.tail), frame.least_along)

    def _along(self, part: int) -> float:
        return self.boxes[part].along if part < self.first else 0.0

    def _route(self, k: int, drawn: set[tuple[int, int, int]]) -> list[Point]:
        """The route of a wire; stretches shared with an earlier wire of the same tensor are omitted."""
        route, (x, end) = self.routes[k], self.joints[k]
        a, port = self.wires[k][:2]
        tensor = (a, -1 if a >= self.first else port)
        stretches = [(a, x, 0.0 if a >= self.first else self.tops[self.parts[a].rank] + self._along(a))]
        stretches += [(part, self._middle(part), self.tops[self.parts[part].rank]) for part in route[1:-1]]
        points: list[Point] = []
        for part, x, top in stretches:
            low = (x, self.bottoms[self.parts[part].rank])
            if (*tensor, part) in drawn:
                points = [low]
            else:
                points += [(x, top), low]
                drawn.add((*tensor, part))
        points.append((end, self.along if route[-1] >= self.last else self.tops[self.parts[route[-1]].rank]))
        return [p for n, p in enumerate(points) if n == 0 or p != points[n - 1]]
