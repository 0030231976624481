"""Timeline of one run: spans of nodes, operations and device kernels, and allocated bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from espalier.passes.timed.profiler_spans import AT, RUN, Profile, host_events

if TYPE_CHECKING:
    from torch.autograd.profiler_util import FunctionEvent

NODE, ROUNDING, OPERATION, DEVICE = "node", "rounding", "operation", "device"
DEPTH, MAX_SPANS, POINTS = 3, 6_000, 1500  # levels of operations below a node; spans; points of the memory curve
Span = tuple[str, int, str, str, float, float]


def timeline(seen: Profile, cuda: bool) -> dict[str, Any]:
    """Plain values of the fastest run: `seconds`, `spans`, and `held`, (time, allocated bytes) at each change.

    A span is (kind, level, name, node, begin, seconds), times from the start of the run. Above MAX_SPANS the deepest
    and shortest are left out.
    """
    runs = [e for e in host_events(seen.events) if e.name == RUN]
    if not runs:
        return {"seconds": 0.0, "spans": [], "held": []}
    run = min(runs, key=lambda e: e.time_range.elapsed_us())
    spans = [*_host(seen, run), *(_device(seen, run) if cuda else ())]
    spans.sort(key=lambda s: (s[1], -s[5]))
    shown = sorted(spans[:MAX_SPANS], key=lambda s: (s[0], s[1], s[4]))
    return {"seconds": run.time_range.elapsed_us() / 1e6, "spans": [list(s) for s in shown], "left_out":
            max(len(spans) - MAX_SPANS, 0), "held": _allocated(seen, run)}  # fmt: skip


def _inside(event: FunctionEvent, run: FunctionEvent) -> bool:
    return run.time_range.start <= event.time_range.start <= run.time_range.end


def _span(event: FunctionEvent, run: FunctionEvent, kind: str, level: int, name: str, node: str) -> Span:
    begin = (event.time_range.start - run.time_range.start) / 1e6
    return kind, level, name, node, begin, event.time_range.elapsed_us() / 1e6


def _host(seen: Profile, run: FunctionEvent) -> Iterator[Span]:
    """Spans of nodes and of the operations that they call."""
    for event in host_events(seen.events):
        if event.name.startswith(AT) and event.name != RUN and _inside(event, run):
            node, rounds = seen.nodes[int(event.name.removeprefix(AT))]
            yield _span(event, run, ROUNDING if rounds else NODE, 0, node, node)
            yield from _below(event, run, node, 1)


def _below(event: FunctionEvent, run: FunctionEvent, node: str, level: int) -> Iterator[Span]:
    for child in event.cpu_children if level <= DEPTH else ():
        if child.name.startswith(AT):  # a nested node has its own span
            continue
        yield _span(child, run, OPERATION, level, child.name, node)
        yield from _below(child, run, node, level + 1)


def _device(seen: Profile, run: FunctionEvent) -> Iterator[Span]:
    """Spans of kernels, attributed to the node whose device span contains their start."""
    there = sorted((e for e in seen.events if e.device_type.name == "CUDA" and _inside(e, run)),
                   key=lambda e: e.time_range.start)  # fmt: skip
    nodes = [e for e in there if e.name.startswith(AT) and e.name != RUN]
    at = 0
    for event in (e for e in there if not e.name.startswith(AT)):
        while at + 1 < len(nodes) and nodes[at + 1].time_range.start <= event.time_range.start:
            at += 1
        inside = bool(nodes) and nodes[at].time_range.start <= event.time_range.start <= nodes[at].time_range.end
        node = seen.nodes[int(nodes[at].name.removeprefix(AT))][0] if inside else ""
        yield _span(event, run, DEVICE, 0, event.name, node)


def _allocated(seen: Profile, run: FunctionEvent) -> list[list[float]]:
    """Allocated bytes relative to the start of the run; reduced to the maxima of POINTS intervals."""
    begin, end = run.time_range.start, run.time_range.end
    allocated, points = 0, [[0.0, 0.0]]
    for at, change in seen.memory:
        if begin <= at <= end:
            allocated += change
            points.append([(at - begin) / 1e6, float(allocated)])
    step = -(-len(points) // POINTS)
    return [max(points[k : k + step], key=lambda p: p[1]) for k in range(0, len(points), step)]
