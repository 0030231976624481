"""Timeline of a run as lanes of spans: modules, nodes, torch operations, device kernels. No Qt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.app.figures.facts import node_path
from espalier.app.theme import CATEGORIES
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import category

DEEPEST, LARGE = 3, 6.0  # drawn levels of modules; pixels from which a span is drawn individually
US = 1e6
MODULE, OTHER = "", 1
COLOURS = (MODULE, "other", *(c for c in CATEGORIES if c != "other"))
PLACES = {name: k for k, name in enumerate(COLOURS)}
Floats = NDArray[np.float64]
Codes = NDArray[Any]
RawSpan = tuple[str, int, str, str, float, float]  # kind, level, name, node, begin, length
ORDER = {"node": 0, "rounding": 0, "operation": 1, "device": 2}


@dataclass(frozen=True, slots=True)
class Span:
    """A span in microseconds of the run; `colour`: an operation category, empty for a module."""

    name: str
    begin: float
    length: float
    nodes: tuple[str, ...]
    colour: str = ""
    rounds: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """Spans sorted by `begins`. `kind`: module, node, operation or device.

    `ends`: running maximum of the spans' ends; `codes`: index of each span's colour in COLOURS; `places`: indices of
    each node's spans.
    """

    title: str
    kind: str
    spans: tuple[Span, ...]
    begins: Floats
    ends: Floats
    lengths: Floats
    codes: Codes
    places: Mapping[str, Sequence[int]]

    def at(self, time: float, slack: float = 0.0) -> Span | None:
        """The span at a time, or the nearest one within `slack`."""
        near = [k for k in range(*self.among(time - slack, time + slack))]
        if not near:
            return None
        best = min(near, key=lambda k: max(self.begins[k] - time, time - self.ends[k], 0.0))
        return self.spans[best]

    def among(self, begin: float, end: float) -> tuple[int, int]:
        """Index range of the spans that overlap an interval."""
        first = int(np.searchsorted(self.ends, begin, "left"))
        return first, max(int(np.searchsorted(self.begins, end, "right")), first)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A run: lanes, and `held` bytes from each of `times` (µs) on; `left_out`: number of omitted spans."""

    length: float
    lanes: tuple[Lane, ...] = ()
    times: Floats = field(default_factory=lambda: np.zeros(0))
    held: Floats = field(default_factory=lambda: np.zeros(0))
    left_out: int = 0

    @property
    def nodes(self) -> Lane | None:
        """The node lane."""
        return next((lane for lane in self.lanes if lane.kind == "node"), None)

    def held_at(self, time: float) -> float:
        """Allocated bytes at a time."""
        at = int(np.searchsorted(self.times, time, "right")) - 1
        return float(self.held[at]) if at >= 0 else 0.0


def run_of(timeline: dict[str, Any], graph: Graph) -> Run | None:
    """Build the lanes from the data of `espalier.passes.timed.timeline`; None if it is empty or malformed."""
    try:
        spans = [
            (str(k), int(lv), str(n), str(i), float(b) * US, float(s) * US) for k, lv, n, i, b, s in timeline["spans"]
        ]
        allocated = np.array(timeline["held"], float).reshape(-1, 2)
        length, left_out = float(timeline["seconds"]) * US, int(timeline.get("left_out", 0))
    except Exception:  # noqa: BLE001
        return None
    if not spans or length <= 0:
        return None
    infos = {name: NodeInfo.of(name, graph) for name in {s[3] for s in spans}}
    lanes = [*_modules(spans, infos), *_measured_lanes(spans, infos)]
    return Run(length, tuple(lanes), allocated[:, 0] * US, allocated[:, 1], left_out)


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """Title, colour and module path of a node's spans."""

    title: str
    colour: str
    path: tuple[str, ...]

    @staticmethod
    def of(name: str, graph: Graph) -> NodeInfo:
        """Info of a node; a missing node gets its name as title."""
        node = graph.nodes.get(name)
        if node is None:
            return NodeInfo(name, "other", ())
        return NodeInfo(node_path(node).rpartition(" · ")[2], str(category(node)), parts_of(node))


def _measured_lanes(spans: Sequence[RawSpan], infos: Mapping[str, NodeInfo]) -> Iterator[Lane]:
    """Lanes of nodes with their rounding, of operations by level, and of the device."""
    lanes: dict[tuple[int, int], list[RawSpan]] = {}
    for span in spans:
        order = ORDER.get(span[0])
        if order is not None:
            lanes.setdefault((order, span[1]), []).append(span)
    for (order, level), spans_of in sorted(lanes.items()):
        kind = ("node", "operation", "device")[order]
        title = {"node": "node", "operation": "torch" if level == 1 else "", "device": "GPU"}[kind]
        spans_of.sort(key=lambda s: s[4])
        yield from _lane(title, kind, tuple(_span(s, infos[s[3]]) for s in spans_of))


def _span(raw: RawSpan, info: NodeInfo) -> Span:
    kind, _, name, node, begin, length = raw
    title = info.title if kind in ("node", "rounding") else name
    return Span(title, begin, length, (node,) if node else (), info.colour, kind == "rounding")


def _lane(title: str, kind: str, spans: tuple[Span, ...]) -> Iterator[Lane]:
    """A lane, unless it is empty."""
    if spans:
        begins, lengths = np.array([s.begin for s in spans]), np.array([s.length for s in spans])
        codes = np.array([PLACES.get(s.colour, OTHER) for s in spans], np.int16)
        indices: dict[str, list[int]] = {}
        for k, span in enumerate(spans if kind != "module" else ()):
            for node in span.nodes:
                indices.setdefault(node, []).append(k)
        yield Lane(title, kind, spans, begins, np.maximum.accumulate(begins + lengths), lengths, codes, indices)


def _modules(spans: Sequence[RawSpan], infos: Mapping[str, NodeInfo]) -> Iterator[Lane]:
    """Module lanes below the common prefix, outermost first: one span per consecutive run of a module's nodes."""
    nodes = sorted((s for s in spans if s[0] in ("node", "rounding")), key=lambda s: s[4])
    paths = [infos[s[3]].path for s in nodes]
    shared = next((d for d in range(64) if len({p[d : d + 1] for p in paths}) != 1 or paths[0][d : d + 1] == ()), 0)
    for depth in range(shared, shared + DEEPEST):
        groups = groupby(range(len(nodes)), key=lambda k, d=depth: paths[k][: d + 1] if len(paths[k]) > d else ())
        yield from _lane("module" if depth == shared else "", "module", tuple(_grouped(groups, nodes)))


def _grouped(groups: Any, nodes: Sequence[Any]) -> Iterator[Span]:
    for path, members in groups:
        members_ = [nodes[k] for k in members]
        if path:
            begin, end = members_[0][4], max(s[4] + s[5] for s in members_)
            yield Span(path[-1], begin, end - begin, tuple(dict.fromkeys(s[3] for s in members_)))


def parts_of(node: Node) -> tuple[str, ...]:
    """The modules of a node, outermost first; an index is joined to the name before it."""
    path = node.target.rpartition(".")[0] if node.call == "call_module" else node.module_path
    parts: list[str] = []
    for part in filter(None, path.split(".")):
        if part.isdigit() and parts:
            parts[-1] += f".{part}"
        else:
            parts.append(part)
    return tuple(parts)


def rows_of(run: Run) -> Iterator[tuple[str, str, str, float, float]]:
    """(lane, span, node, begin, length) of all spans, in microseconds."""
    for lane in run.lanes:
        for s in lane.spans:
            yield lane.kind, s.name, s.nodes[0] if len(s.nodes) == 1 else "", s.begin, s.length


@dataclass(frozen=True, slots=True, eq=False)
class VisibleLane:
    """A lane in pixel columns: `codes`, the colour of each column (−1: none) of spans narrower than LARGE;
    `large`: indices of the others, which begin and end at `lefts` and `rights`.
    """

    codes: Codes
    large: Codes
    lefts: Floats
    rights: Floats


def visible_lane(lane: Lane, begin: float, end: float, wide: int) -> VisibleLane:
    """An interval of a lane in `wide` pixel columns; the longest span wins a column."""
    first, after = lane.among(begin, end)
    scale = wide / (end - begin)
    lefts = (lane.begins[first:after] - begin) * scale
    sizes = lane.lengths[first:after] * scale
    codes = np.full(wide, -1, np.int16)
    small = np.flatnonzero((sizes < LARGE) & (lefts < wide) & (lefts + sizes >= 0))
    small = small[np.argsort(lane.lengths[first + small], kind="stable")]  # longest last, so that it wins
    # At least one column each; from three on the last stays empty to separate neighbours.
    columns = np.maximum(np.floor(sizes[small] + 0.5) - (sizes[small] >= 3), 1).astype(np.int64)
    offsets = np.arange(int(columns.sum())) - np.repeat(np.cumsum(columns) - columns, columns)
    at = np.repeat(np.floor(lefts[small]).astype(np.int64), columns) + offsets
    inside = (at >= 0) & (at < wide)
    codes[at[inside]] = np.repeat(lane.codes[first + small], columns)[inside]
    large = np.flatnonzero((sizes >= LARGE) & (lefts < wide) & (lefts + sizes > 0))
    return VisibleLane(codes, (first + large).astype(np.int64), lefts[large], (lefts + sizes)[large])
