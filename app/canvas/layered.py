"""One namespace drawn in layers: sizes and wires in, positions and routes out.

Works in two abstract directions, `along` the flow and `across` it, so that vertical and horizontal share it.
Long wires get a slot of their own in every layer that they pass: they run through gaps, not through nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.canvas.ordering import order, ranks
from app.canvas.placing import DOOR, PORT, SLOT, Link, Part, place, preferred, spread

Wire = tuple[int, int, int, int]
Point = tuple[float, float]  # (across, along)
Pull = tuple[float, int]  # how strongly, and at which port of the lower part
GAP_LEAST, GAP_BORDER, GAP_MOST = 24.0, 12.0, 60.0
SNAP = 8.0
NEAR_DOOR, LEAD_MOST = 48.0, 72.0


@dataclass(frozen=True, slots=True)
class Box:
    """A child: its size, and where wires meet its two sides (empty: anywhere)."""

    across: float
    along: float
    ins: tuple[float, ...] = ()
    outs: tuple[float, ...] = ()
    group: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """The border's own needs: room before and after the children, and ports."""

    ins: int = 0
    outs: int = 0
    head: float = 0.0
    tail: float = 0.0
    before: float = 0.0
    after: float = 0.0
    least: float = 0.0
    keep: tuple[float, float] = (0.0, 0.0)
    least_along: float = 0.0


@dataclass(slots=True)
class Drawing:
    """Positions of the children, of the border's ports, and the route of each wire."""

    at: list[Point]
    ins: list[float]
    outs: list[float]
    across: float
    along: float
    routes: list[list[Point]]
    labels: list[tuple[float, float, float]]


def drifts(box: Box) -> bool:
    """Its main doors do not stand one above the other: a chain of these, door over door, leans to one side."""
    return bool(box.ins and box.outs) and abs(box.ins[0] - box.outs[0]) >= 1


def draw(boxes: Sequence[Box], wires: Sequence[Wire], frame: Frame) -> Drawing:
    """Lay out one namespace."""
    return _Sketch(boxes, wires, frame).run()


class _Sketch:
    def __init__(self, boxes: Sequence[Box], wires: Sequence[Wire], frame: Frame) -> None:
        self.boxes, self.frame = boxes, frame
        self.first = len(boxes)
        self.last = self.first + frame.ins
        self.count = self.last + frame.outs
        self.few = sum(map(drifts, boxes)) <= 3
        ends = [(self._item(a, p, self.first), self._item(b, q, self.last)) for a, p, b, q in wires]
        self.rank, back = ranks(self.count, ends, self.first, self.last)
        self.turned = [k in back for k in range(len(wires))]
        self.wires = [
            (b, q, a, p) if turned else (a, p, b, q)
            for (a, b), (_, p, _, q), turned in zip(ends, wires, self.turned, strict=True)
        ]
        self.parts = [
            Part(self.rank[i], boxes[i].across) if i < self.first else Part(self.rank[i], 2.0, DOOR)
            for i in range(self.count)
        ]
        self.routes: list[list[int]] = []

    def _item(self, child: int, port: int, base: int) -> int:
        return child if child >= 0 else base + port

    def run(self) -> Drawing:
        """All steps."""
        pairs = self._slots()
        self._links(pairs)
        layers: list[list[int]] = [[] for _ in range(max(self.rank, default=0) + 1)]
        for i, part in enumerate(self.parts):
            layers[part.rank].append(i)
        layers = order(layers, list(pairs))
        place(self.parts, layers)
        self._meet_doors()
        return self._finish(layers)

    def _slots(self) -> dict[tuple[int, int], Pull]:
        """Give every layer that a wire passes a slot; wires of one tensor share theirs while they run together."""
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
        """How strongly u and v want to stand in line: passing wires most, then the main way into a group."""
        if self.parts[u].kind == self.parts[v].kind == SLOT:
            return 8.0, 0
        if v < self.first and self.boxes[v].ins:
            return (4.0 if port == 0 else 1.0), port
        return (3.0 if only else 1.0), port

    def _links(self, pairs: dict[tuple[int, int], Pull]) -> None:
        fan_out, fan_in = Counter(u for u, _ in pairs), Counter(v for _, v in pairs)
        for (u, v), (pull, port) in pairs.items():
            mine, its = self._grip(u, False, 0), self._grip(v, True, port)
            self.parts[u].downs.append(Link(v, mine, its, pull, pull / fan_in[v]))
            self.parts[v].ups.append(Link(u, its, mine, pull, pull / fan_out[u]))

    def _grip(self, item: int, top: bool, port: int) -> float:
        """Where links pull at a part. A group is held at its main doors when they stand one above the other,
        else in the middle: a chain of such blocks would drift sideways.
        """
        box = self.boxes[item] if item < self.first else None
        doors = (box.ins if top else box.outs) if box else ()
        if box and 0 < port < len(doors):
            return doors[port]
        if box and doors and (self.few or not drifts(box)):
            return doors[0]
        return self.parts[item].across / 2

    def _meet_doors(self) -> None:
        """Put the first door in above the first door out, where the flow of most blocks goes straight through,
        and the other doors above what they lead to.
        """
        main = self.parts[self.last].left if self.frame.ins and self.frame.outs else None
        for start, end, side in ((self.first, self.last, "downs"), (self.last, self.count, "ups")):
            doors = sorted(range(start, end), key=lambda i: self.parts[i].left)
            wishes, pulls = [], []
            for i in doors:
                link = preferred(self.parts, getattr(self.parts[i], side))
                wish = self.parts[link.to].left + link.its - link.mine if link else self.parts[i].left
                fixed = main is not None and i == start and abs(main - wish) < NEAR_DOOR
                wishes.append(main if fixed and main is not None else wish)
                pulls.append(1000.0 if fixed else 1.0)
            rooms = [2.0 + PORT] * (len(doors) - 1)
            for i, left in zip(doors, spread(wishes, pulls, rooms), strict=True):
                self.parts[i].left = left

    def _anchor(self, item: int, port: int, top: bool) -> float:
        """Where a wire meets a part, from the part's left."""
        if item < self.first:
            known = self.boxes[item].ins if top else self.boxes[item].outs
            if port < len(known):
                return known[port]
        return self.parts[item].across / 2

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
        joints = self._joints()
        tops, bottoms, along = self._levels(layers, joints)
        at = [(parts[i].left, tops[self.rank[i]]) for i in range(self.first)]
        drawn: set[tuple[int, int, int]] = set()
        routes = [self._route(k, joints, tops, bottoms, along, drawn) for k in range(len(self.wires))]
        ins = [parts[i].left + 1 for i in range(self.first, self.last)]
        outs = [parts[i].left + 1 for i in range(self.last, self.count)]
        labels = self._labels(joints, tops, bottoms, across)
        return Drawing(at, ins, outs, across, along, routes, labels)

    def _labels(
        self, joints: list[tuple[float, float]], tops: list[float], bottoms: list[float], across: float
    ) -> list[tuple[float, float, float]]:
        """For each wire that leads straight from or to a group: where a label may stand, and how wide it may be."""
        spans: dict[int, list[tuple[float, float, int]]] = {}
        for k, route in enumerate(self.routes):
            ends = [joints[k][0], *(self._middle(v) for v in route[1:-1]), joints[k][1]]
            for u, (x, y) in zip(route, pairwise(ends), strict=False):
                spans.setdefault(self.parts[u].rank, []).append((min(x, y), max(x, y), k))
        labels = [(0.0, 0.0, 0.0)] * len(self.routes)
        for k, route in enumerate(self.routes):
            x, end = joints[k][0], joints[k][1] if len(route) == 2 else self._middle(route[1])
            if abs(x - end) < 1 and self._is_telling(route):
                r = self.parts[route[0]].rank
                others = [low for low, high, j in spans[r] if j != k and high > x + 1]
                labels[k] = (x, (bottoms[r] + tops[r + 1]) / 2, max(min([across, *others]) - x, 0.0))
        return labels

    def _is_telling(self, route: list[int]) -> bool:
        """Between two children, one of them a group."""
        first, last = route[0], route[-1]
        return max(first, last) < self.first and (self.boxes[first].group or self.boxes[last].group)

    def _lead(self, shift: float) -> float:
        """A little more room on the near side where that lets wires pass beside the name in the head."""
        doors = [self.parts[i].left + shift for i in range(self.first, self.last)]
        need = self.frame.keep[0] - min(doors, default=self.frame.keep[0])
        return need if 0 < need <= LEAD_MOST else 0.0

    def _keep_ports(self, across: float) -> None:
        """Hold the border's inputs clear of what is written in its head, if there is room."""
        low, high = self.frame.keep[0], across - self.frame.keep[1]
        ports = sorted(range(self.first, self.last), key=lambda i: self.parts[i].left)
        if not ports or high - low < PORT * len(ports):
            return
        rooms = [PORT] * (len(ports) - 1)
        wishes = [min(max(self.parts[i].left, low), high) for i in ports]
        for i, left in zip(ports, spread(wishes, [1.0] * len(ports), rooms), strict=True):
            self.parts[i].left = left

    def _joints(self) -> list[tuple[float, float]]:
        """Where each wire leaves and arrives, across; wires into one box are spread in the order they come."""
        arrivals: dict[int, list[int]] = {}
        for k, (_, _, b, _) in enumerate(self.wires):
            if b < self.first and not self.boxes[b].ins:
                arrivals.setdefault(b, []).append(k)
        ends = [self.parts[b].left + self._anchor(b, q, True) for _, _, b, q in self.wires]
        starts = [self.parts[a].left + self._anchor(a, p, False) for a, p, _, _ in self.wires]
        for b, ks in arrivals.items():
            self._spread_arrivals(b, ks, ends, starts)
        return list(zip(starts, ends, strict=True))

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

    def _levels(
        self, layers: list[list[int]], joints: list[tuple[float, float]]
    ) -> tuple[list[float], list[float], float]:
        """Along: the start and end of each layer, and the whole."""
        frame, count = self.frame, len(layers)
        swing = [0.0] * count
        for k, route in enumerate(self.routes):
            for u, v in pairwise(route):
                start = joints[k][0] if u == route[0] else self._middle(u)
                end = joints[k][1] if v == route[-1] else self._middle(v)
                r = self.parts[u].rank
                swing[r] = max(swing[r], abs(end - start))
        tops, bottoms = [0.0] * count, [0.0] * count
        place = 0.0 if frame.ins else frame.head
        for r, layer in enumerate(layers):
            border = r == 0 and frame.ins
            size = frame.head if border else max((self._along(i) for i in layer), default=0.0)
            tops[r], bottoms[r] = place, place + size
            least = GAP_LEAST if not border else GAP_BORDER
            gap = min(least + swing[r] / 12, GAP_MOST)
            place += size + (gap if r + 1 < count else 0.0)
        return tops, bottoms, max(place + (0.0 if frame.outs else frame.tail), frame.least_along)

    def _along(self, part: int) -> float:
        return self.boxes[part].along if part < self.first else 0.0

    def _route(
        self,
        k: int,
        joints: list[tuple[float, float]],
        tops: list[float],
        bottoms: list[float],
        along: float,
        drawn: set[tuple[int, int, int]],
    ) -> list[Point]:
        """The course of a wire; where it runs along with an earlier one of the same tensor it is not drawn again."""
        route, (x, end) = self.routes[k], joints[k]
        a, port = self.wires[k][:2]
        tensor = (a, -1 if a >= self.first else port)
        stretches = [(a, x, 0.0 if a >= self.first else tops[self.rank[a]] + self._along(a))]
        stretches += [(part, self._middle(part), tops[self.parts[part].rank]) for part in route[1:-1]]
        points: list[Point] = []
        for part, x, top in stretches:
            low = (x, bottoms[self.parts[part].rank])
            if (*tensor, part) in drawn and not self.turned[k]:
                points = [low]
            else:
                points += [(x, top), low]
                drawn.add((*tensor, part))
        points.append((end, along if route[-1] >= self.last else tops[self.rank[route[-1]]]))
        points = [p for n, p in enumerate(points) if n == 0 or p != points[n - 1]]
        return points[::-1] if self.turned[k] else points
