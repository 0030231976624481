"""FIFOs where beats must wait: behind a layer that is read in bursts, and on the short branch before a join.

Depths are those of the slowest engine's pace, found by stepping the schedule with room for everything, frames coming
at that pace; then the least that are as fast, and lock nothing up where inputs or outputs pause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from espalier.verilog.design.netlist import Design, Wire
from espalier.verilog.templates.fifo import DEEP, Fifo

FRAMES = 4  # stepped to find what waits in the steady state
LONG = 200_000  # cycles a frame from which two have to do
SLACK = 1.02  # of the ideal interval
WORK = 10**8  # cycles times instances that may be stepped to find the least depths


def pace(design: Design) -> int:
    """Cycles of a frame in the slowest engine: no interval can be shorter."""
    return max((e.steps for i in design.instances for e in i.engines()), default=1)


def buffered(design: Design) -> Design:
    """The design with a FIFO on each wire where more than one beat has to wait.

    What a window gives is many times what it takes, so that beats wait before it first, and behind it if need be.
    """
    from espalier.verilog.timing.schedule import held, never_stuck, schedule  # numba, which nobody needs before

    ideal = pace(design)
    frames = FRAMES if ideal < LONG else 2
    depths: dict[Wire, int] = {}
    for spared in (("window",), ()):
        wires = [w for w in design.all_wires() if _can_wait(design, w)]
        wires = [w for w in wires if design.instance(w.source).module not in spared]
        room = {w: frames * design.stream(w).beats + 1 for w in wires}
        roomy = with_fifos(design, room, registered=False)
        planned = schedule(roomy, frames, spacing=ideal)
        depths = {w: planned.waiting[_name(design, w)] for w in room}
        slim = with_fifos(design, {w: d for w, d in depths.items() if d > 1})
        if not never_stuck(slim, frames):
            paused = held(roomy, frames, ideal)
            depths = {w: max(d, paused[_name(design, w)]) for w, d in depths.items()}
            slim = with_fifos(design, {w: d for w, d in depths.items() if d > 1})
        found = schedule(slim, frames)
        if not found.stuck and found.interval <= ideal * SLACK:
            return trimmed(design, {w: d for w, d in depths.items() if d > 1}, slim, frames)
        if all(i.module != "window" for i in design.instances):
            break
    return with_fifos(design, {w: max(d, 2) for w, d in depths.items()})


def trimmed(design: Design, depths: dict[Wire, int], slim: Design, frames: int) -> Design:
    """The design with the least depths with which it is as fast as `slim` and never stuck, the widest FIFOs first.

    What waits is more than has to: a branch takes all that it can get. Long designs keep what waits.
    """
    from espalier.verilog.timing.schedule import never_stuck, schedule

    found, tries = schedule(slim, frames), sum(d.bit_length() for d in depths.values())
    if tries * frames * pace(design) * len(slim.instances) > WORK:
        return slim

    def as_fast(tried: dict[Wire, int]) -> bool:
        slimmer = with_fifos(design, {w: d for w, d in tried.items() if d > 1})
        now = schedule(slimmer, frames)
        fast = not now.stuck and now.interval <= found.interval and now.latency <= found.latency
        return fast and never_stuck(slimmer, frames)

    for wire in sorted(depths, key=lambda w: -depths[w] * design.stream(w).width):
        low, high = 1, depths[wire]
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if as_fast({**depths, wire: middle}) else (middle + 1, high)
        depths[wire] = high
    return with_fifos(design, {w: d for w, d in depths.items() if d > 1})


def _can_wait(design: Design, wire: Wire) -> bool:
    """Neither at the design's ends, nor in front of a fork, whose branches have their own, nor behind a constant."""
    reader = next((n for n, ws in design.wires.items() if wire in ws), "")
    inner = bool(wire.source) and bool(reader) and bool(design.instance(wire.source).inputs)
    return inner and design.instance(reader).module != "fork_stream"


def _name(design: Design, wire: Wire) -> str:
    return f"{design.label(wire)}_fifo"


def with_fifos(design: Design, depths: Mapping[Wire, int], registered: bool = True) -> Design:
    """The design with FIFOs of these depths; deep ones read into a register, unless they are only for counting."""
    wires, order = dict(design.wires), list(design.instances)
    for wire, depth in depths.items():
        stream = design.stream(wire)
        node = design.instance(wire.source).node
        made = Fifo(name=_name(design, wire), node=node, inputs=(stream,), outputs=(stream,), depth=depth,
                    registered=registered and depth >= DEEP)  # fmt: skip
        order.insert(next(n for n, i in enumerate(order) if i.name == wire.source) + 1, made)
        for name, those in wires.items():
            wires[name] = tuple(Wire(made.name) if w == wire else w for w in those)
        wires[made.name] = (wire,)
    return replace(design, instances=tuple(order), wires=wires)
