"""When every beat of a design moves: its engines stepped cycle by cycle under the handshakes, without any data.

It gives latency, interval, the busy share of each instance and the beats that wait in each FIFO.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from espalier.verilog.design.netlist import Design, Wire
from espalier.verilog.design.template import Template, port
from espalier.verilog.templates.fifo import Fifo
from espalier.verilog.templates.fork import Fork
from espalier.verilog.timing.cycles import STUCK, Clockwork, run


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """Cycles of a design whose inputs never pause and whose outputs are taken at once.

    `first` and `latency`: from the first input beat of a frame to its first and past its last output beat, in an idle
    design. `interval`: between frames when they follow each other. `busy` by instance: the share of the interval in
    which it works. `stamps` by wire: when each beat moves. `waiting` by FIFO: the most beats that it held.
    """

    first: int
    latency: int
    interval: float
    busy: dict[str, float]
    stamps: dict[Wire, np.ndarray]
    waiting: dict[str, int]
    stuck: bool

    @property
    def bottleneck(self) -> str:
        """The busiest instance."""
        return max(self.busy, key=lambda name: self.busy[name], default="")

    def delay(self, design: Design, instance: Template) -> int | None:
        """Cycles from the first beat that goes into an instance to the first that comes out; None if none does."""
        came = [self.stamps[w][0] for w in design.wires[instance.name]]
        gone = self.stamps[Wire(instance.name)][0]
        return None if gone < 0 or min(came, default=-1) < 0 else int(gone - min(came))

    def told(self, design: Design, instance: Template) -> str:
        """`128 cycles a sample (100 %), first beat after 12`: how long an instance works and takes."""
        steps, delay = max((e.steps for e in instance.engines()), default=0), self.delay(design, instance)
        busy = f" ({self.busy[instance.name]:.0%})" if self.busy.get(instance.name) else ""
        words = [f"{steps} cycles a sample{busy}"] if steps and not isinstance(instance, Fork | Fifo) else []
        words += [f"{self.waiting[instance.name]} beats wait at most"] if instance.name in self.waiting else []
        return ", ".join([*words, *([f"first beat after {delay}"] if delay is not None else [])])


def schedule(design: Design, frames: int = 4, spacing: int = 0) -> Schedule:
    """Step `frames` frames; `spacing`: cycles between the starts of frames at the inputs (0: as fast as they go)."""
    return _scheduled(design, frames, spacing)


@lru_cache(maxsize=1)  # the last one that FIFOs are sized with is that of the design
def _scheduled(design: Design, frames: int, spacing: int) -> Schedule:
    made = _Plan(design, frames)
    found = run(made.clockwork(spacing))
    stamps = {wire: found.stamps[c] for wire, c in made.channels.items()}
    outs = [stamps[w] for w in design.ends]
    begin = min((int(stamps[Wire("", k)][0]) for k in range(len(design.inputs)) if len(stamps[Wire("", k)])), default=0)
    stuck = found.state == STUCK
    first, latency, interval = 0, 0, 0.0
    if not stuck:
        beats = [b.stream.beats for b in design.outputs]
        first = min(int(s[0]) for s in outs) - begin
        latency = max(int(s[n - 1]) for s, n in zip(outs, beats, strict=True)) - begin + 1
        ends = [s.reshape(frames, n)[:, -1] for s, n in zip(outs, beats, strict=True)]
        half = frames // 2
        interval = max(float(e[-1] - e[half - 1]) / (frames - half) for e in ends) if frames > 1 else float(latency)
    busy = {
        i.name: max((e.steps for e in i.engines()), default=0) / interval if interval else 0.0
        for i in design.instances
        if not isinstance(i, Fork | Fifo)
    }
    waiting = {name: int(found.most[c]) for name, c in made.fifos.items()}
    return Schedule(first, latency, interval, busy, stamps, waiting, stuck)


def never_stuck(design: Design, frames: int) -> bool:
    """Whether the design comes to its end however inputs and outputs pause.

    Whether bounded streams lock up depends on what they hold, not on when; a pipeline into which pauses came as gaps
    holds a single beat when it is stopped. So the design is stepped with pipelines of one beat.
    """
    return run(_Plan(design, frames, shallow=True).clockwork(0)).state != STUCK


def held(design: Design, frames: int, spacing: int) -> dict[str, int]:
    """The most beats that each FIFO held with pipelines of one beat: with such depths, pauses lock nothing up."""
    made = _Plan(design, frames, shallow=True)
    found = run(made.clockwork(spacing))
    return {name: int(found.most[c]) for name, c in made.fifos.items()}


class _Plan:
    """The design as numbered engines and channels; `shallow`: pipelines hold a beat, as when there were pauses."""

    def __init__(self, design: Design, frames: int, shallow: bool = False) -> None:
        self.design, self.frames, self.shallow = design, frames, shallow
        self.channels: dict[Wire, int] = {}
        self.beats: list[int] = []
        self.fifos: dict[str, int] = {}
        self.hidden: dict[tuple[str, str], int] = {}
        for wire in design.all_wires():
            self.channels[wire] = self._channel(design.stream(wire).beats)

    def _channel(self, beats: int) -> int:
        self.beats.append(beats * self.frames)
        return len(self.beats) - 1

    def clockwork(self, spacing: int) -> Clockwork:
        """Everything as arrays, in the order of the data."""
        units: list[dict[str, Any]] = []
        for instance in self.design.instances:
            ins = {port("x", k): self.channels[w] for k, w in enumerate(self.design.wires[instance.name])}
            outs = {port("y", k): self.channels[Wire(instance.name, k)] for k in range(len(instance.outputs))}
            if isinstance(instance, Fifo):
                units += self._fifo(instance, ins["x"], outs["y"])
                continue
            kind = "fork" if isinstance(instance, Fork) else "engine"
            units += self._engines(instance, ins, outs, kind)
        sources = [self.channels[Wire("", k)] for k in range(len(self.design.inputs))]
        per = [b.stream.beats for b in self.design.inputs]
        return Clockwork(units, self.beats, sources, per, [self.channels[w] for w in self.design.ends], spacing)

    def _fifo(self, instance: Fifo, came: int, gone: int) -> list[dict[str, Any]]:
        """A FIFO, and behind it the register where it has one."""
        beats = instance.inputs[0].beats
        held = self._channel(beats) if instance.registered else gone
        self.fifos[instance.name] = held
        made: list[dict[str, Any]] = [{"kind": "fifo", "ins": [came], "outs": [held], "depth": instance.depth}]
        if instance.registered:
            each = [np.ones(1, bool)]
            made.append({"kind": "engine", "depth": 1, "steps": 1, "frames": beats * self.frames, "ins": [held],
                         "outs": [gone], "takes": each, "gives": each})  # fmt: skip
        return made

    def _engines(self, instance: Any, ins: dict[str, int], outs: dict[str, int], kind: str) -> list[dict[str, Any]]:
        buffers, primed, engines = instance.buffers(), instance.primed(), instance.engines()
        inner: dict[str, tuple[int, int]] = {}  # a buffer's channels: where it is written, where it is read
        fifos: list[dict[str, Any]] = []
        for engine in engines:
            for name, gives in engine.gives.items():
                if name not in outs:
                    into = self._channel(int(gives.sum()))
                    held = buffers.get(name, 1)
                    away = into if held == 1 else self._channel(int(gives.sum()))
                    inner[name] = into, away
                    if held > 1:
                        start = primed.get(name, 0)
                        fifos.append({"kind": "fifo", "ins": [into], "outs": [away], "depth": held, "primed": start})
        units: list[dict[str, Any]] = []
        for engine in engines:
            units.append({
                "kind": kind, "depth": 1 if self.shallow else engine.depth,
                "steps": engine.steps, "frames": self.frames,
                "ins": [ins[n] if n in ins else inner[n][1] for n in engine.takes],
                "outs": [outs[n] if n in outs else inner[n][0] for n in engine.gives],
                "takes": list(engine.takes.values()), "gives": list(engine.gives.values()),
            })  # fmt: skip
            units += [f for f in fifos if f["ins"][0] in units[-1]["outs"]]
        return units
