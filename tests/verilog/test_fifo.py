"""FIFOs: deep ones read into a register; the depths that are computed are enough, and not more than is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from espalier.verilog.design.netlist import Boundary, Design, Wire
from espalier.verilog.design.stream import Stream
from espalier.verilog.lowering.lower import with_forks
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.proof.simulate import build, run
from espalier.verilog.templates.fifo import DEEP, Fifo
from espalier.verilog.templates.pair import Pair, exact_format
from espalier.verilog.templates.reorder import Reorder
from espalier.verilog.timing.buffering import buffered, pace
from espalier.verilog.timing.schedule import never_stuck, schedule
from tests.verilog.checks import needs_icarus, on_time, proven, random_codes
from tests.verilog.test_linear import layer

BITS = Fixed(8, 4)


@needs_icarus
@pytest.mark.rtl
@pytest.mark.parametrize(("depth", "registered"), [(1, False), (3, False), (1, True), (2, True), (5, True)])
def test_a_fifo_hands_on_what_comes(tmp_path: Path, depth: int, registered: bool) -> None:
    stream = Stream(2, 6, Fixed(5, 2), 2)
    made = Fifo(name="f", node="f", inputs=(stream,), outputs=(stream,), depth=depth, registered=registered)
    codes = (random_codes(np.random.default_rng(0), stream, 4),)
    proven(made, codes, tmp_path)
    on_time(made, codes, tmp_path)


def residual(rows: int = 8) -> Design:
    """x + turned(layer(x)): the short branch waits for the long one, which needs the whole frame."""
    stream = Stream(rows, 16, BITS, 4)
    first = replace(layer("first", (16, 4), (16, 4), rows), inputs=(stream,), outputs=(stream,))
    turned = np.arange(rows * 4).reshape(rows, 4).T.reshape(-1)
    long = Reorder(name="long", node="long", inputs=(stream,), outputs=(stream,), beats=turned)
    join = Pair(name="join", node="join", inputs=(stream, stream), outputs=(stream,), kind="add",
                total=exact_format("add", BITS, BITS))  # fmt: skip
    ends = [Boundary(n, stream, n, (rows, 16), np.arange(stream.elements)) for n in ("x", "y")]
    wires = {"first": (Wire(""),), "long": (Wire("first"),), "join": (Wire(""), Wire("long"))}
    return with_forks(Design("top", (ends[0],), (ends[1],), (first, long, join), wires, (Wire("join"),)))


def shallower(design: Design, name: str, depth: int) -> Design:
    """The same with another depth of a FIFO."""
    less = tuple(replace(i, depth=depth) if isinstance(i, Fifo) and i.name == name else i
                 for i in design.instances)  # fmt: skip
    return replace(design, instances=less)


def test_one_beat_less_costs_time() -> None:
    """The depths are those that the pace needs: a beat below each a branch stands, and far below nothing moves."""
    design = buffered(residual())
    fifos = [i for i in design.instances if isinstance(i, Fifo)]
    full = schedule(design)
    assert fifos and not full.stuck and full.interval <= pace(design) * 1.02
    for fifo in fifos:
        less = schedule(shallower(design, fifo.name, fifo.depth - 1))
        assert less.stuck or less.latency > full.latency or less.interval > full.interval
    longest = max(fifos, key=lambda i: i.depth)
    assert any(schedule(shallower(design, longest.name, n)).stuck for n in range(1, longest.depth))


def pipelined(rows: int) -> Design:
    """The same, but layers on both branches, and a slow one behind them that sets the pace."""
    base = residual(rows)
    stream = base.inputs[0].stream
    layers = [
        replace(layer(n, (16, 4), (16, 4), rows), inputs=(stream,), outputs=(stream,)) for n in ("first", "short")
    ]
    slow = replace(layer("slow", (16, 4), (16, 1), rows), inputs=(stream,))
    inner = [i for i in base.instances if i.name in ("long", "join")]
    end = Boundary("y", slow.outputs[0], "y", (rows, 16), np.arange(slow.outputs[0].elements))
    wires = {"first": (Wire(""),), "short": (Wire(""),), "long": (Wire("first"),)}
    wires |= {"join": (Wire("short"), Wire("long")), "slow": (Wire("join"),)}
    made = replace(base, instances=(*layers, *inner, slow), wires=wires, outputs=(end,), ends=(Wire("slow"),))
    return with_forks(made)


@pytest.mark.slow
@needs_icarus
@pytest.mark.rtl
@pytest.mark.parametrize("rows", [2, 3, 6])
def test_pauses_lock_nothing_up(tmp_path: Path, rows: int) -> None:
    """Beats that a full pipeline holds need a place in the FIFO too: with pauses it holds one alone."""
    design = buffered(pipelined(rows))
    assert never_stuck(design, 4)
    codes = (random_codes(np.random.default_rng(3), design.inputs[0].stream, 6),)
    built = build(design, 6, tmp_path, "icarus")
    for stall, seed in ((1, 1), (1, 2), (2, 1), (3, 2)):
        done = run(design, built, codes, stall, seed, limit=200_000)
        assert not done.stuck and not done.mismatches


@needs_icarus
@pytest.mark.rtl
def test_what_is_stuck_ends_at_once(tmp_path: Path) -> None:
    """Without its FIFOs a residual never moves: the bench says so, in place of going on to the limit."""
    design = residual()
    codes = (random_codes(np.random.default_rng(3), design.inputs[0].stream, 2),)
    done = run(design, build(design, 2, tmp_path, "icarus"), codes, 1)
    assert done.stuck and done.total < 10_000


@needs_icarus
@pytest.mark.rtl
def test_a_residual_moves_whoever_pauses(tmp_path: Path) -> None:
    design = buffered(residual())
    codes = (random_codes(np.random.default_rng(0), design.inputs[0].stream, 4),)
    built = build(design, 4, tmp_path, "icarus")
    for stall in range(4):
        done = run(design, built, codes, stall, seed=stall + 1, limit=200_000)
        assert not done.stuck and not done.mismatches


def test_deep_ones_are_read_into_a_register() -> None:
    """And the schedule counts the cycle more, without which the layers would not keep their pace."""
    design = buffered(residual(64))
    deep = [i for i in design.instances if isinstance(i, Fifo) and i.depth >= DEEP]
    assert all(i.registered == (i.depth >= DEEP) for i in design.instances if isinstance(i, Fifo))
    assert all(i.module == "fifo_ram" for i in deep)
    assert schedule(design, 6).interval <= pace(design) * 1.02
