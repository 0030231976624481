"""Coordinate assignment of a layered drawing: positions of the parts of each layer across the flow.

Parts are moved towards the medians of their neighbours; then chains of connected parts are straightened.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

SPACE, LANE, PORT = 20.0, 12.0, 14.0  # between boxes; beside a passing wire; between ports of the border
BOX, SLOT, BORDER_PORT = 0, 1, 2
ROUNDS, OTHER = 8, 0.3
LINE_ROUNDS, SLACK = 5, 0.1


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a neighbour: its part, the offsets where it meets both parts, and its weight."""

    to: int
    mine: float
    its: float
    pull: float
    share: float  # the pull, divided by the number of links at the other end


@dataclass(slots=True)
class Part:
    """A box, the slot of a passing wire, or a port of the border, in one layer."""

    rank: int
    across: float
    kind: int = BOX
    left: float = 0.0
    ups: list[Link] = field(default_factory=list)
    downs: list[Link] = field(default_factory=list)


def room(one: Part, two: Part) -> float:
    """The minimum distance between the left edges of two neighbours."""
    if one.kind == BORDER_PORT and two.kind == BORDER_PORT:
        return one.across + PORT
    return one.across + (SPACE if one.kind == BOX and two.kind == BOX else LANE)


def assign_coordinates(parts: list[Part], layers: list[list[int]], door: int | None = None) -> None:
    """Set `left` of every part, keeping the order of the layers. `door`: the border port by which the flow enters."""
    _pack(parts, layers)
    for turn in range(ROUNDS):
        _settle(parts, layers, "ups" if turn % 2 == 0 else "downs")
    _settle(parts, layers, "both")
    chains = _chains(parts, door)
    _line_up(parts, layers, chains)
    for least in (2, 2, 2, 1):
        for chain in chains:
            if len(chain) >= least:
                _straighten(parts, layers, chain)


def _pack(parts: list[Part], layers: list[list[int]]) -> None:
    for layer in layers:
        at = 0.0
        for a, b in pairwise(layer):
            parts[a].left, at = at, at + room(parts[a], parts[b])
        if layer:
            parts[layer[-1]].left = at
        for v in layer:
            parts[v].left -= (at + parts[layer[-1]].across) / 2


def _settle(parts: list[Part], layers: list[list[int]], sides: str) -> None:
    """Move the parts of every layer towards the medians of their neighbours, within its order."""
    up, down = {"ups": (1.0, OTHER), "downs": (OTHER, 1.0), "both": (1.0, 1.0)}[sides]
    for layer in reversed(layers) if sides == "downs" else layers:
        wishes, pulls = [], []
        for v in layer:
            wish, pull = _wish(parts, parts[v], up, down)
            wishes.append(wish)
            pulls.append(pull)
        if len(layer) == 1:
            parts[layer[0]].left = wishes[0]
            continue
        rooms = [room(parts[a], parts[b]) for a, b in pairwise(layer)]
        for v, left in zip(layer, spread(wishes, pulls, rooms), strict=True):
            parts[v].left = left


def _wish(parts: list[Part], part: Part, up: float, down: float) -> tuple[float, float]:
    """The weighted median of the positions that the neighbours prefer, and its weight."""
    places = [(parts[k.to].left + k.its - k.mine, k.share * up) for k in part.ups]
    places += [(parts[k.to].left + k.its - k.mine, k.share * down) for k in part.downs]
    if len(places) < 2:
        return places[0] if places else (part.left, 0.05)
    return middle(places), sum(pull for _, pull in places)


def _chains(parts: list[Part], door: int | None) -> list[list[tuple[int, float]]]:
    """Chains of parts that prefer each other, each part with its offset from the line; longest chains first."""
    main = parts[door].left if door is not None else None
    after: dict[int, Link] = {}
    for v, part in enumerate(parts):
        link = preferred(parts, part.downs, main)
        if link is not None:
            back = preferred(parts, parts[link.to].ups, main)
            if back is not None and back.to == v:
                after[v] = link
    inner = {link.to for link in after.values()}
    chains = []
    for start in after:
        if start in inner:
            continue
        chain, shift, v = [(start, 0.0)], 0.0, start
        while v in after:
            link = after[v]
            shift += link.mine - link.its
            v = link.to
            chain.append((v, shift))
        chains.append(chain)
    chains += [[(v, 0.0)] for v in range(len(parts)) if v not in inner and v not in after]
    chains.sort(key=lambda c: (-len(c), c[0]))
    return chains


def preferred(parts: list[Part], links: list[Link], main: float | None = None) -> Link | None:
    """The strongest link; among equals the one nearest to `main`, or the middle one."""
    if not links:
        return None
    most = max(k.pull for k in links)
    best = sorted((k for k in links if k.pull == most), key=lambda k: parts[k.to].left + k.its)
    if main is None:
        return best[(len(best) - 1) // 2]
    return min(best, key=lambda k: abs(parts[k.to].left + k.its - main))


def _line_up(parts: list[Part], layers: list[list[int]], chains: list[list[tuple[int, float]]]) -> None:
    """Move the parts of every chain to its line; lines and parts in the way are adjusted."""
    found = [sorted(parts[v].left - shift for v, shift in chain) for chain in chains]
    lines = [places[len(places) // 2] for places in found]
    pulls = [100.0 * len(chain) if len(chain) > 1 else 0.2 for chain in chains]
    crowded = [layer for layer in layers if len(layer) > 1]
    rooms = [[room(parts[a], parts[b]) for a, b in pairwise(layer)] for layer in crowded]
    for _ in range(LINE_ROUNDS if crowded else 1):
        wishes, weights = [0.0] * len(parts), [0.0] * len(parts)
        for chain, line, pull in zip(chains, lines, pulls, strict=True):
            for v, shift in chain:
                parts[v].left = wishes[v] = line + shift
                weights[v] = pull
        for layer, gaps in zip(crowded, rooms, strict=True):
            places = spread([wishes[v] for v in layer], [weights[v] for v in layer], gaps)
            for v, left in zip(layer, places, strict=True):
                parts[v].left = left
        for c, chain in enumerate(chains):
            moved = sorted(parts[v].left - s for v, s in chain if abs(parts[v].left - lines[c] - s) > SLACK / 2)
            lines[c] = moved[len(moved) // 2] if moved else lines[c]


def _straighten(parts: list[Part], layers: list[list[int]], chain: list[tuple[int, float]]) -> None:
    """Put a chain on one line, or on several where neighbours leave no room."""
    low, high = float("-inf"), float("inf")
    run: list[tuple[int, float]] = []
    for v, shift in chain:
        part, layer = parts[v], layers[parts[v].rank]
        at = layer.index(v)
        least = parts[layer[at - 1]].left + room(parts[layer[at - 1]], part) if at else float("-inf")
        most = parts[layer[at + 1]].left - room(part, parts[layer[at + 1]]) if at + 1 < len(layer) else float("inf")
        if max(low, least - shift) > min(high, most - shift) + SLACK:
            _align(parts, run, low, high)
            low, high, run = float("-inf"), float("inf"), []
        low, high = max(low, least - shift), min(high, most - shift)
        run.append((v, shift))
    _align(parts, run, low, high)


def _align(parts: list[Part], run: list[tuple[int, float]], low: float, high: float) -> None:
    """Move a run to the median that its outside links prefer, within [low, high]."""
    if not run:
        return
    own = {v for v, _ in run}
    pulls: list[tuple[float, float]] = []
    for v, shift in run:
        for links, weight in ((parts[v].ups, 1.2), (parts[v].downs, 1.0)):
            pulls += [(parts[k.to].left + k.its - k.mine - shift, k.share * weight) for k in links if k.to not in own]
    line = middle(pulls) if pulls else sorted(parts[v].left - shift for v, shift in run)[len(run) // 2]
    line = min(max(line, low), high)
    for v, shift in run:
        parts[v].left = line + shift


def middle(places: list[tuple[float, float]]) -> float:
    """The weighted median of (position, weight); the mean of two if it falls between them."""
    places.sort()
    half = sum(pull for _, pull in places) / 2
    seen = 0.0
    for k, (at, pull) in enumerate(places):
        seen += pull
        if seen > half + 1e-9:
            return at
        if seen > half - 1e-9 and k + 1 < len(places):
            return (at + places[k + 1][0]) / 2
    return places[-1][0]


def spread(wishes: list[float], weights: list[float], rooms: list[float]) -> list[float]:
    """Positions nearest to `wishes` (weighted least squares) with at least `rooms` between neighbours, in their order.

    Pool adjacent violators (isotonic regression).
    """
    offsets = [0.0]
    for gap in rooms:
        offsets.append(offsets[-1] + gap)
    pools: list[list[float]] = []  # [sum of weighted wishes, weight, how many]
    for wish, weight, offset in zip(wishes, weights, offsets, strict=False):
        pools.append([(wish - offset) * weight, weight, 1])
        while len(pools) > 1 and pools[-2][0] * pools[-1][1] > pools[-1][0] * pools[-2][1]:
            total, heavy, size = pools.pop()
            pools[-1][0] += total
            pools[-1][1] += heavy
            pools[-1][2] += size
    places: list[float] = []
    for total, heavy, size in pools:
        start = total / heavy
        places += [start + offsets[len(places) + k] for k in range(int(size))]
    return places
