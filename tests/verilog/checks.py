"""Simulation of a single template under all stall patterns against its integer model."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from espalier.verilog.design.netlist import Boundary, Design, Wire
from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import Template, port
from espalier.verilog.numbers.fixed import Codes
from espalier.verilog.proof.simulate import build, run
from espalier.verilog.timing.schedule import schedule

needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="iverilog is not installed")


def alone(template: Template) -> Design:
    """The design of one instance."""
    ins = tuple(_boundary(port("x", k), s) for k, s in enumerate(template.inputs))
    outs = tuple(_boundary(port("y", k), s) for k, s in enumerate(template.outputs))
    wires = {template.name: tuple(Wire("", k) for k in range(len(ins)))}
    return Design("top", ins, outs, (template,), wires, tuple(Wire(template.name, k) for k in range(len(outs))))


def _boundary(name: str, stream: Stream) -> Boundary:
    return Boundary(name, stream, name, (stream.rows, stream.size), np.arange(stream.elements))


def random_codes(rng: np.random.Generator, stream: Stream, frames: int) -> Codes:
    """Codes over the whole range of a stream's format, its ends among them."""
    fixed = stream.fixed
    codes = rng.integers(fixed.low, fixed.high + 1, (frames, stream.rows, stream.size))
    ends = rng.random(codes.shape)
    return np.where(ends < 0.05, fixed.low, np.where(ends > 0.95, fixed.high, codes))


def proven(template: Template, inputs: tuple[Codes, ...], cache: Path, simulator: str = "icarus") -> None:
    """Equal to its integer model in every beat, whoever pauses."""
    design = alone(template)
    design.check()
    built = build(design, len(inputs[0]), cache, simulator)
    for stall in range(4):
        done = run(design, built, inputs, stall, seed=stall + 1, limit=2_000_000)
        assert not done.stuck, f"stuck with stall={stall}"
        assert not done.mismatches, (stall, done.mismatches)


def on_time(template: Template, inputs: tuple[Codes, ...], cache: Path) -> None:
    """Every beat moves in the cycle that the schedule says, when nobody pauses."""
    design, frames = alone(template), len(inputs[0])
    done = run(design, build(design, frames, cache, "icarus"), inputs)
    planned = schedule(design, frames)
    start = min(done.cycles[Wire("", k)][0] for k in range(len(inputs)))
    late = min(planned.stamps[Wire("", k)][0] for k in range(len(inputs)))  # it begins without any input
    if not late:
        ends = [(done.cycles[w] - start)[: b.stream.beats] for w, b in zip(design.ends, design.outputs, strict=True)]
        assert planned.first == min(e[0] for e in ends) and planned.latency == max(e[-1] for e in ends)
    for wire, stamps in planned.stamps.items():
        known = stamps[stamps >= 0]  # what no output hangs on may move after the last of them
        first = design.stream(wire).beats if late else 0  # such a frame begins while the bench still waits
        np.testing.assert_array_equal(
            (done.cycles[wire][: len(known)] - start)[first:], (known - late)[first:], design.label(wire)
        )
