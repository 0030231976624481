"""FIFOs and their depths: behind layers that are read in bursts, and on the short branch before a join.

Depths are first measured in a schedule with ample FIFOs and frames at the pace of the slowest engine, then reduced to
the smallest that are as fast and free of deadlock under stalls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from espalier.verilog.design.netlist import Design, Wire
from espalier.verilog.templates.fifo import DEEP, Fifo

FRAMES = 4  # simulated to reach the steady state
LONG = 200_000  # cycles per frame from which two frames are simulated
SLACK = 1.02  # tolerated interval, relative to the ideal one
WORK = 10**8  # budget of cycles times instances for reducing the depths


def pace(design: Design) -> int:
    """Cycles per frame of the slowest engine, a lower bound of the interval."""
    return max((e.steps for i in design.instances for e in i.engines()), default=1)


def buffered(design: Design) -> Design:
    """The design with a FIFO on each wire that has to buffer more than one beat.

    A window outputs many times its input, so FIFOs before windows are tried first, and behind them only if needed.
    """
    from espalier.verilog.timing.schedule import fifo_peaks, never_stuck, schedule  # imports numba

    ideal = pace(design)
    frames = FRAMES if ideal < LONG else 2
    depths: dict[Wire, int] = {}
    for exempt in (("window",), ()):
        wires = [w for w in design.all_wires() if _can_wait(design, w)]
        wires = [w for w in wires if design.instance(w.source).module not in exempt]
        capacity = {w: frames * design.stream(w).beats + 1 for w in wires}
        roomy = with_fifos(design, capacity, registered=False)
        planned = schedule(roomy, frames, spacing=ideal)
        depths = {w: planned.peaks[_name(design, w)] for w in capacity}
        slim = with_fifos(design, {w: d for w, d in depths.items() if d > 1})
        if not never_stuck(slim, frames):
            stalled = fifo_peaks(roomy, frames, ideal)
            depths = {w: max(d, stalled[_name(design, w)]) for w, d in depths.items()}
            slim = with_fifos(design, {w: d for w, d in depths.items() if d > 1})
        result = schedule(slim, frames)
        if not result.stuck and result.interval <= ideal * SLACK:
            return trimmed(design, {w: d for w, d in depths.items() if d > 1}, slim, frames)
        if all(i.module != "window" for i in design.instances):
            break
    return with_fifos(design, {w: max(d, 2) for w, d in depths.items()})


def trimmed(design: Design, depths: dict[Wire, int], slim: Design, frames: int) -> Design:
    """Reduce the depths, the largest FIFOs first, while the design is as fast as `slim` and free of deadlock.

    Measured peaks exceed what is needed, since a branch runs ahead as far as it can. Long designs keep the peaks.
    """
    from espalier.verilog.timing.schedule import never_stuck, schedule

    target, tries = schedule(slim, frames), sum(d.bit_length() for d in depths.values())
    if tries * frames * pace(design) * len(slim.instances) > WORK:
        return slim

    def as_fast(tried: dict[Wire, int]) -> bool:
        slimmer = with_fifos(design, {w: d for w, d in tried.items() if d > 1})
        candidate = schedule(slimmer, frames)
        fast = not candidate.stuck and candidate.interval <= target.interval and candidate.latency <= target.latency
        return fast and never_stuck(slimmer, frames)

    for wire in sorted(depths, key=lambda w: -depths[w] * design.stream(w).width):
        low, high = 1, depths[wire]
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if as_fast({**depths, wire: middle}) else (middle + 1, high)
        depths[wire] = high
    return with_fifos(design, {w: d for w, d in depths.items() if d > 1})


def _can_wait(design: Design, wire: Wire) -> bool:
    """Whether a wire may have a FIFO: not at the design's boundary, before a fork, or behind a constant."""
    reader = next((n for n, ws in design.wires.items() if wire in ws), "")
    inner = bool(wire.source) and bool(reader) and bool(design.instance(wire.source).inputs)
    return inner and design.instance(reader).module != "fork_stream"


def _name(design: Design, wire: Wire) -> str:
    return f"{design.label(wire)}_fifo"


def with_fifos(design: Design, depths: Mapping[Wire, int], registered: bool = True) -> Design:
    """The design with FIFOs of these depths; `registered`: deep ones have an output register."""
    wires, order = dict(design.wires), list(design.instances)
    for wire, depth in depths.items():
        stream = design.stream(wire)
        node = design.instance(wire.source).node
        fifo = Fifo(name=_name(design, wire), node=node, inputs=(stream,), outputs=(stream,), depth=depth,
                    registered=registered and depth >= DEEP)  # fmt: skip
        order.insert(next(n for n, i in enumerate(order) if i.name == wire.source) + 1, fifo)
        for name, those in wires.items():
            wires[name] = tuple(Wire(fifo.name) if w == wire else w for w in those)
        wires[fifo.name] = (wire,)
    return replace(design, instances=tuple(order), wires=wires)
