"""Schedule of a design: its engines simulated cycle by cycle under the handshakes, without data.

It gives latency, interval, the utilisation of each instance and the peak fill of each FIFO.
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
from espalier.verilog.timing.cycles import STUCK, UnitNetwork, run


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """Cycles of a design without stalls at its inputs and outputs.

    `first` and `latency`: cycles from the first input beat of a frame to its first and its last output beat, in an idle
    design. `interval`: between consecutive frames in the steady state. `busy` by instance: its active share of the
    interval. `stamps` by wire: the cycle of each transfer. `peaks` by FIFO: its peak fill in beats.
    """

    first: int
    latency: int
    interval: float
    busy: dict[str, float]
    stamps: dict[Wire, np.ndarray]
    peaks: dict[str, int]
    stuck: bool

    @property
    def bottleneck(self) -> str:
        """The busiest instance."""
        return max(self.busy, key=lambda name: self.busy[name], default="")

    def delay(self, design: Design, instance: Template) -> int | None:
        """Cycles from an instance's first input beat to its first output beat; None without one of them."""
        inputs = [self.stamps[w][0] for w in design.wires[instance.name]]
        output = self.stamps[Wire(instance.name)][0]
        return None if output < 0 or min(inputs, default=-1) < 0 else int(output - min(inputs))

    def summary(self, design: Design, instance: Template) -> str:
        """Text such as `128 cycles a sample (100%), first beat after 12`."""
        steps, delay = max((e.steps for e in instance.engines()), default=0), self.delay(design, instance)
        busy = f" ({self.busy[instance.name]:.0%})" if self.busy.get(instance.name) else ""
        parts = [f"{steps} cycles a sample{busy}"] if steps and not isinstance(instance, Fork | Fifo) else []
        parts += [f"peak fill {self.peaks[instance.name]} beats"] if instance.name in self.peaks else []
        return ", ".join([*parts, *([f"first beat after {delay}"] if delay is not None else [])])


def schedule(design: Design, frames: int = 4, spacing: int = 0) -> Schedule:
    """Simulate `frames` frames; `spacing`: cycles between the starts of frames at the inputs (0: without gaps)."""
    return _scheduled(design, frames, spacing)


@lru_cache(maxsize=1)  # the last schedule of the FIFO sizing is that of the final design
def _scheduled(design: Design, frames: int, spacing: int) -> Schedule:
    plan = _Plan(design, frames)
    result = run(plan.network(spacing))
    stamps = {wire: result.stamps[c] for wire, c in plan.channels.items()}
    outs = [stamps[w] for w in design.ends]
    started = min(
        (int(stamps[Wire("", k)][0]) for k in range(len(design.inputs)) if len(stamps[Wire("", k)])), default=0
    )
    stuck = result.state == STUCK
    first, latency, interval = 0, 0, 0.0
    if not stuck:
        beats = [b.stream.beats for b in design.outputs]
        first = min(int(s[0]) for s in outs) - started
        latency = max(int(s[n - 1]) for s, n in zip(outs, beats, strict=True)) - started
        ends = [s.reshape(frames, n)[:, -1] for s, n in zip(outs, beats, strict=True)]
        half = frames // 2
        interval = max(float(e[-1] - e[half - 1]) / (frames - half) for e in ends) if frames > 1 else float(latency + 1)
    busy = {
        i.name: max((e.steps for e in i.engines()), default=0) / interval if interval else 0.0
        for i in design.instances
        if not isinstance(i, Fork | Fifo)
    }
    peaks = {name: int(result.peaks[c]) for name, c in plan.fifos.items()}
    return Schedule(first, latency, interval, busy, stamps, peaks, stuck)


def never_stuck(design: Design, frames: int) -> bool:
    """Whether the design is free of deadlock under any stalls of inputs and outputs.

    Deadlock of bounded streams depends on capacities, not on timing; a pipeline that stalls have filled with gaps
    holds a single beat. So the design is simulated with pipelines of one beat.
    """
    return run(_Plan(design, frames, shallow=True).network(0)).state != STUCK


def fifo_peaks(design: Design, frames: int, spacing: int) -> dict[str, int]:
    """Peak fill of each FIFO with pipelines of one beat; with these depths there is no deadlock under stalls."""
    plan = _Plan(design, frames, shallow=True)
    result = run(plan.network(spacing))
    return {name: int(result.peaks[c]) for name, c in plan.fifos.items()}


class _Plan:
    """The design as numbered engines and channels; `shallow`: pipelines of one beat, as under stalls."""

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

    def network(self, spacing: int) -> UnitNetwork:
        """The units and channels, in topological order."""
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
        return UnitNetwork(units, self.beats, sources, per, [self.channels[w] for w in self.design.ends], spacing)

    def _fifo(self, instance: Fifo, source: int, target: int) -> list[dict[str, Any]]:
        """A FIFO, and its output register if it has one."""
        beats = instance.inputs[0].beats
        inner = self._channel(beats) if instance.registered else target
        self.fifos[instance.name] = inner
        units: list[dict[str, Any]] = [{"kind": "fifo", "ins": [source], "outs": [inner], "depth": instance.depth}]
        if instance.registered:
            always = [np.ones(1, bool)]
            units.append({"kind": "engine", "depth": 1, "steps": 1, "frames": beats * self.frames, "ins": [inner],
                          "outs": [target], "takes": always, "gives": always})  # fmt: skip
        return units

    def _engines(self, instance: Any, ins: dict[str, int], outs: dict[str, int], kind: str) -> list[dict[str, Any]]:
        buffers, primed, engines = instance.buffers(), instance.primed(), instance.engines()
        inner: dict[str, tuple[int, int]] = {}  # a buffer's channels: written, read
        fifos: list[dict[str, Any]] = []
        for engine in engines:
            for name, gives in engine.gives.items():
                if name not in outs:
                    into = self._channel(int(gives.sum()))
                    size = buffers.get(name, 1)
                    output_channel = into if size == 1 else self._channel(int(gives.sum()))
                    inner[name] = into, output_channel
                    if size > 1:
                        start = primed.get(name, 0)
                        fifos.append(
                            {"kind": "fifo", "ins": [into], "outs": [output_channel], "depth": size, "primed": start}
                        )
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
