"""A run as lanes of spans: parts of the model, nodes, torch's operations below them, kernels of a device. No Qt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.panels.inspector_facts import node_path
from model.graph import Graph
from model.ops import category

DEEPEST = 3  # levels of modules that are drawn
US = 1e6
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Span:
    """`begin` and `length` in microseconds of the run; `colour`: a category of operations, empty for a module."""

    name: str
    begin: float
    length: float
    nodes: tuple[str, ...]
    colour: str = ""
    rounds: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """Spans in the order of their begins. `kind`: module, node, operation or device."""

    title: str
    kind: str
    spans: tuple[Span, ...]
    begins: Floats
    ends: Floats

    def at(self, time: float, slack: float = 0.0) -> Span | None:
        """The span that runs at a time, or the nearest one within `slack`."""
        near = [k for k in range(*self.among(time - slack, time + slack))]
        if not near:
            return None
        best = min(near, key=lambda k: max(self.begins[k] - time, time - self.ends[k], 0.0))
        return self.spans[best]

    def among(self, begin: float, end: float) -> tuple[int, int]:
        """The first of the spans that reach into a stretch of time, and the first after them."""
        first = int(np.searchsorted(self.ends, begin, "left"))
        return first, max(int(np.searchsorted(self.begins, end, "right")), first)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run. `held`: microseconds, and bytes held from then on; `left_out`: spans that were too many to tell."""

    length: float
    lanes: tuple[Lane, ...] = ()
    times: Floats = field(default_factory=lambda: np.zeros(0))
    held: Floats = field(default_factory=lambda: np.zeros(0))
    left_out: int = 0

    @property
    def nodes(self) -> Lane | None:
        """The lane of the nodes."""
        return next((lane for lane in self.lanes if lane.kind == "node"), None)

    def held_at(self, time: float) -> float:
        """Bytes that are held at a time."""
        at = int(np.searchsorted(self.times, time, "right")) - 1
        return float(self.held[at]) if at >= 0 else 0.0


def run_of(told: dict[str, Any], graph: Graph) -> Run | None:
    """The lanes of what `passes.timed.timeline` told; None where there is nothing, or what is no timeline."""
    try:
        spans = [(str(k), int(lv), str(n), str(i), float(b) * US, float(s) * US) for k, lv, n, i, b, s in told["spans"]]
        held = np.array(told["held"], float).reshape(-1, 2)
        length, left_out = float(told["seconds"]) * US, int(told.get("left_out", 0))
    except (KeyError, TypeError, ValueError):
        return None
    if not spans or length <= 0:
        return None
    lanes = [*_modules(spans, graph), *_own(spans, graph)]
    return Run(length, tuple(lanes), held[:, 0] * US, held[:, 1], left_out)


def _own(spans: Sequence[Any], graph: Graph) -> Iterator[Lane]:
    """Nodes with their rounding, operations level by level, kernels of the device."""

    def made(kinds: tuple[str, ...], level: int) -> tuple[Span, ...]:
        found = sorted((s for s in spans if s[0] in kinds and s[1] == level), key=lambda s: s[4])
        return tuple(_span(s, graph) for s in found)

    yield from _lane("node", "node", made(("node", "rounding"), 0))
    for level in sorted({s[1] for s in spans if s[0] == "operation"}):
        yield from _lane("torch" if level == 1 else "", "operation", made(("operation",), level))
    yield from _lane("GPU", "device", made(("device",), 0))


def _span(told: Any, graph: Graph) -> Span:
    kind, _, name, node, begin, length = told
    title = _title(name, node, graph) if kind in ("node", "rounding") else name
    return Span(title, begin, length, (node,) if node else (), _colour(node, graph), kind == "rounding")


def _lane(title: str, kind: str, spans: tuple[Span, ...]) -> Iterator[Lane]:
    """A lane, where it has anything; a span that begins before the last one ended (other threads) is cut there."""
    if spans:
        begins = np.array([s.begin for s in spans])
        ends = np.maximum.accumulate(np.array([s.begin + s.length for s in spans]))
        yield Lane(title, kind, spans, begins, ends)


def _modules(spans: Sequence[Any], graph: Graph) -> Iterator[Lane]:
    """Levels of modules that differ, from the outside in: a span from the first to the last node in a row."""
    found = sorted((s for s in spans if s[0] in ("node", "rounding") and s[3] in graph.nodes), key=lambda s: s[4])
    paths = [parts_of(graph, s[3]) for s in found]
    shared = next((d for d in range(64) if len({p[d : d + 1] for p in paths}) != 1 or paths[0][d : d + 1] == ()), 0)
    for depth in range(shared, shared + DEEPEST):
        groups = groupby(range(len(found)), key=lambda k, d=depth: paths[k][: d + 1] if len(paths[k]) > d else ())
        yield from _lane("module" if depth == shared else "", "module", tuple(_grouped(groups, found)))


def _grouped(groups: Any, found: Sequence[Any]) -> Iterator[Span]:
    for path, members in groups:
        own = [found[k] for k in members]
        if path:
            begin, end = own[0][4], max(s[4] + s[5] for s in own)
            yield Span(path[-1], begin, end - begin, tuple(dict.fromkeys(s[3] for s in own)))


def parts_of(graph: Graph, name: str) -> tuple[str, ...]:
    """The modules that a node lies in, the outermost first; a number stays with the name before it."""
    node = graph.nodes[name]
    path = node.target.rpartition(".")[0] if node.call == "call_module" else node.module_path
    parts: list[str] = []
    for part in filter(None, path.split(".")):
        if part.isdigit() and parts:
            parts[-1] += f".{part}"
        else:
            parts.append(part)
    return tuple(parts)


def _title(name: str, node: str, graph: Graph) -> str:
    return node_path(graph.nodes[node]).rpartition(" · ")[2] if node in graph.nodes else name


def _colour(node: str, graph: Graph) -> str:
    return str(category(graph.nodes[node])) if node in graph.nodes else "other"


def rows_of(run: Run) -> Iterator[tuple[str, str, str, float, float]]:
    """(lane, span, node, begin, length) of all spans, in microseconds."""
    for lane in run.lanes:
        for s in lane.spans:
            yield lane.kind, s.name, s.nodes[0] if len(s.nodes) == 1 else "", s.begin, s.length


def visible(
    lane: Lane, begin: float, end: float, to_pixel: Callable[[Floats], Floats]
) -> list[tuple[Span, float, float]]:
    """The spans in view with the pixels that they cover; of several within one pixel the longest."""
    first, after = lane.among(begin, end)
    lefts, rights = (
        to_pixel(lane.begins[first:after]),
        to_pixel(lane.begins[first:after] + _lengths(lane, first, after)),
    )
    found: list[tuple[Span, float, float]] = []
    last = -1
    for k in range(after - first):
        left, right = float(lefts[k]), float(rights[k])
        if right - left >= 1.0:
            found.append((lane.spans[first + k], left, right))
        elif int(left) != last:
            last = int(left)
            found.append((lane.spans[first + k], left, max(right, left + 1.0)))
    return found


def _lengths(lane: Lane, first: int, after: int) -> Floats:
    return np.array([s.length for s in lane.spans[first:after]])
