"""One run as a timeline: which node, which operation and which kernel of a device ran when, and how much was held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from espalier.passes.timed.spans import AT, RUN, Seen, by_host

if TYPE_CHECKING:
    from torch.autograd.profiler_util import FunctionEvent

NODE, ROUNDING, OPERATION, DEVICE = "node", "rounding", "operation", "device"
DEEP, MOST, POINTS = 3, 6_000, 1500  # levels of operations below a node; spans and points of memory that are told
Span = tuple[str, int, str, str, float, float]


def timeline(seen: Seen, cuda: bool) -> dict[str, Any]:
    """Plain values of the quickest run, which other work held up least: `seconds`, `spans`, and `held`, (time, bytes)
    as it changes.

    A span is (kind, level, name, node, begin, seconds), times from the begin of the run. Of too many the deepest go.
    """
    runs = [e for e in by_host(seen.events) if e.name == RUN]
    if not runs:
        return {"seconds": 0.0, "spans": [], "held": []}
    run = min(runs, key=lambda e: e.time_range.elapsed_us())
    spans = [*_host(seen, run), *(_device(seen, run) if cuda else ())]
    spans.sort(key=lambda s: (s[1], -s[5]))
    kept = sorted(spans[:MOST], key=lambda s: (s[0], s[1], s[4]))
    return {"seconds": run.time_range.elapsed_us() / 1e6, "spans": [list(s) for s in kept], "left_out":
            max(len(spans) - MOST, 0), "held": _held(seen, run)}  # fmt: skip


def _inside(event: FunctionEvent, run: FunctionEvent) -> bool:
    return run.time_range.start <= event.time_range.start <= run.time_range.end


def _span(event: FunctionEvent, run: FunctionEvent, kind: str, level: int, name: str, node: str) -> Span:
    begin = (event.time_range.start - run.time_range.start) / 1e6
    return kind, level, name, node, begin, event.time_range.elapsed_us() / 1e6


def _host(seen: Seen, run: FunctionEvent) -> Iterator[Span]:
    """Nodes, and the operations that each calls."""
    for event in by_host(seen.events):
        if event.name.startswith(AT) and event.name != RUN and _inside(event, run):
            node, rounds = seen.places[int(event.name.removeprefix(AT))]
            yield _span(event, run, ROUNDING if rounds else NODE, 0, node, node)
            yield from _below(event, run, node, 1)


def _below(event: FunctionEvent, run: FunctionEvent, node: str, level: int) -> Iterator[Span]:
    for child in event.cpu_children if level <= DEEP else ():
        if child.name.startswith(AT):  # a node within a node is told by itself
            continue
        yield _span(child, run, OPERATION, level, child.name, node)
        yield from _below(child, run, node, level + 1)


def _device(seen: Seen, run: FunctionEvent) -> Iterator[Span]:
    """Kernels; the spans of the nodes come on the device too, so what lies within one is its own."""
    there = sorted((e for e in seen.events if e.device_type.name == "CUDA" and _inside(e, run)),
                   key=lambda e: e.time_range.start)  # fmt: skip
    nodes = [e for e in there if e.name.startswith(AT) and e.name != RUN]
    at = 0
    for event in (e for e in there if not e.name.startswith(AT)):
        while at + 1 < len(nodes) and nodes[at + 1].time_range.start <= event.time_range.start:
            at += 1
        inside = bool(nodes) and nodes[at].time_range.start <= event.time_range.start <= nodes[at].time_range.end
        node = seen.places[int(nodes[at].name.removeprefix(AT))][0] if inside else ""
        yield _span(event, run, DEVICE, 0, event.name, node)


def _held(seen: Seen, run: FunctionEvent) -> list[list[float]]:
    """What is held beyond what was there when the run began; of many points the most within each stretch."""
    begin, end = run.time_range.start, run.time_range.end
    held, found = 0, [[0.0, 0.0]]
    for at, change in seen.memory:
        if begin <= at <= end:
            held += change
            found.append([(at - begin) / 1e6, float(held)])
    step = -(-len(found) // POINTS)
    return [max(found[k : k + step], key=lambda p: p[1]) for k in range(0, len(found), step)]
