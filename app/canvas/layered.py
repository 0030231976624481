"""Layered drawing of one group (Sugiyama): sizes and wires in, positions and routes out.

Uses the directions `along` the flow and `across` it, for vertical and horizontal layouts. Long wires get a slot
(dummy node) in every layer that they pass, so that they run through gaps, not through nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from espalier.app.canvas.coordinates import BORDER_PORT, PORT, SLOT, Link, Part, assign_coordinates, preferred, spread
from espalier.app.canvas.ordering import order, ranks
from espalier.app.canvas.routing import Box, Frame, Label, Point, Routing, Wire

Pull = tuple[float, int]  # (weight of a link, port of the lower part)
NEAR_PORT, MAX_LEAD = 48.0, 72.0  # canvas units


@dataclass(slots=True)
class Drawing:
    """Positions of the children and of the border's ports, and the route of each wire."""

    at: list[Point]
    ins: list[float]
    outs: list[float]
    across: float
    along: float
    routes: list[list[Point]]
    labels: list[Label]


def drifts(box: Box) -> bool:
    """Whether the first input and output of a box are not aligned, so a chain of such boxes would drift sideways."""
    return bool(box.ins and box.outs) and abs(box.ins[0] - box.outs[0]) >= 1


def draw(boxes: Sequence[Box], wires: Sequence[Wire], frame: Frame) -> Drawing:
    """Lay out one group."""
    return _Sketch(boxes, wires, frame).run()


class _Sketch:
    def __init__(self, boxes: Sequence[Box], wires: Sequence[Wire], frame: Frame) -> None:
        self.boxes, self.frame = boxes, frame
        self.first = len(boxes)
        self.last = self.first + frame.ins
        self.count = self.last + frame.outs
        self.few = sum(map(drifts, boxes)) <= 3
        ends = [(self._item(a, p, self.first), self._item(b, q, self.last)) for a, p, b, q in wires]
        self.rank = ranks(self.count, ends, self.first, self.last)
        self.wires = [(a, p, b, q) for (a, b), (_, p, _, q) in zip(ends, wires, strict=True)]
        self.parts = [
            Part(self.rank[i], boxes[i].across) if i < self.first else Part(self.rank[i], 2.0, BORDER_PORT)
            for i in range(self.count)
        ]
        self.fed = {b for _, _, b, _ in self.wires}
        self.routes: list[list[int]] = []

    def _item(self, child: int, port: int, base: int) -> int:
        return child if child >= 0 else base + port

    def run(self) -> Drawing:
        """Layering, ordering, coordinate assignment, routing."""
        pairs = self._slots()
        self._links(pairs)
        layers: list[list[int]] = [[] for _ in range(max(self.rank, default=0) + 1)]
        for i, part in enumerate(self.parts):
            layers[part.rank].append(i)
        layers = order(layers, list(pairs))
        assign_coordinates(self.parts, layers, self.first if self.frame.ins else None)
        self._align_ports()
        return self._finish(layers)

    def _slots(self) -> dict[tuple[int, int], Pull]:
        """Add a slot in every layer that a wire passes; wires of one tensor share slots while they run together."""
        budget = 6 * self.count + 400
        pairs: dict[tuple[int, int], Pull] = {}
        lanes: dict[tuple[int, int, int], int] = {}
        users = [0] * self.count
        for a, _, _, _ in self.wires:
            users[a] += 1
        for a, p, b, q in self.wires:
            route = [a]
            span = range(self.rank[a] + 1, self.rank[b])
            if len(span) > budget:
                self.routes.append([a, b])
                continue
            for r in span:
                key = (a, -1 if a >= self.first else p, r)
                if key not in lanes:
                    lanes[key] = len(self.parts)
                    self.parts.append(Part(r, 2.0, SLOT))
                    budget -= 1
                route.append(lanes[key])
            route.append(b)
            for u, v in pairwise(route):
                pull = self._pull(u, v, q if v == b else 0, users[a] == 1)
                if pull[0] > pairs.get((u, v), (0.0, 0))[0]:
                    pairs[(u, v)] = pull
            self.routes.append(route)
        return pairs

    def _pull(self, u: int, v: int, port: int, only: bool) -> Pull:
        """The weight of a link: largest for passing wires, then for the first input of a group."""
        slots = (self.parts[u].kind == SLOT) + (self.parts[v].kind == SLOT)
        if slots == 2:
            return 8.0, 0
        if v < self.first and self.boxes[v].ins:
            return (4.0 if port == 0 else 1.0), port
        if u < self.first and u not in self.fed:
            return 0.8, port  # a constant or a stub: it stands beside the line
        return (3.0 if only else 1.0) - 0.1 * slots, port

    def _links(self, pairs: dict[tuple[int, int], Pull]) -> None:
        fan_out, fan_in = Counter(u for u, _ in pairs), Counter(v for _, v in pairs)
        for (u, v), (pull, port) in pairs.items():
            mine, its = self._grip(u, False, 0), self._grip(v, True, port)
            self.parts[u].downs.append(Link(v, mine, its, pull, pull / fan_in[v]))
            self.parts[v].ups.append(Link(u, its, mine, pull, pull / fan_out[u]))

    def _grip(self, item: int, top: bool, port: int) -> float:
        """The offset where a link meets a part: a group's first port if its ports are aligned, else its middle.

        A chain of groups with unaligned ports would drift sideways.
        """
        box = self.boxes[item] if item < self.first else None
        ports = (box.ins if top else box.outs) if box else ()
        if box and 0 < port < len(ports):
            return ports[port]
        if box and ports and (self.few or not drifts(box)):
            return ports[0]
        return self.parts[item].across / 2

    def _align_ports(self) -> None:
        """Align the first border input with the first output, and the other ports with the parts that they lead to."""
        main = self.parts[self.last].left if self.frame.ins and self.frame.outs else None
        for start, end, side in ((self.first, self.last, "downs"), (self.last, self.count, "ups")):
            ports = sorted(range(start, end), key=lambda i: self.parts[i].left)
            wishes, pulls = [], []
            for i in ports:
                link = preferred(self.parts, getattr(self.parts[i], side))
                wish = self.parts[link.to].left + link.its - link.mine if link else self.parts[i].left
                fixed = main is not None and i == start and abs(main - wish) < NEAR_PORT
                wishes.append(main if fixed and main is not None else wish)
                pulls.append(1000.0 if fixed else 1.0)
            rooms = [2.0 + PORT] * (len(ports) - 1)
            for i, left in zip(ports, spread(wishes, pulls, rooms), strict=True):
                self.parts[i].left = left

    def _finish(self, layers: list[list[int]]) -> Drawing:
        frame, parts = self.frame, self.parts
        low = min((p.left for p in parts), default=0.0)
        high = max((p.left + p.across for p in parts), default=0.0)
        across = max(high - low + frame.before + frame.after, frame.least)
        shift = frame.before + (across - frame.before - frame.after - (high - low)) / 2 - low
        lead = self._lead(shift)
        across, shift = across + lead, shift + lead
        for part in parts:
            part.left = round(part.left + shift, 1)
        self._keep_ports(across)
        routing = Routing(self.boxes, frame, parts, layers, self.wires, self.routes)
        at = [(parts[i].left, routing.tops[self.rank[i]]) for i in range(self.first)]
        ins = [parts[i].left + 1 for i in range(self.first, self.last)]
        outs = [parts[i].left + 1 for i in range(self.last, self.count)]
        return Drawing(at, ins, outs, across, routing.along, routing.points(), routing.labels(across))

    def _lead(self, shift: float) -> float:
        """Extra space at the left so that wires pass beside the name in the header; 0 if it exceeds MAX_LEAD."""
        ports = [self.parts[i].left + shift for i in range(self.first, self.last)]
        need = self.frame.keep[0] - min(ports, default=self.frame.keep[0])
        return need if 0 < need <= MAX_LEAD else 0.0

    def _keep_ports(self, across: float) -> None:
        """Keep the border inputs clear of the text in the header, if there is room."""
        low, high = self.frame.keep[0], across - self.frame.keep[1]
        ports = sorted(range(self.first, self.last), key=lambda i: self.parts[i].left)
        if not ports or high - low < PORT * len(ports):
            return
        rooms = [PORT] * (len(ports) - 1)
        wishes = [min(max(self.parts[i].left, low), high) for i in ports]
        for i, left in zip(ports, spread(wishes, [1.0] * len(ports), rooms), strict=True):
            self.parts[i].left = left
