"""The schedule knows the cycle of each beat, as the simulator has it; with FIFOs the slowest engine sets the pace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from espalier.verilog.design.netlist import Boundary, Design, Wire
from espalier.verilog.design.stream import Stream
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.templates.linear import Linear
from espalier.verilog.templates.resize import Resize
from espalier.verilog.timing.buffering import buffered, pace
from espalier.verilog.timing.schedule import schedule
from tests.verilog.checks import needs_icarus, on_time, random_codes
from tests.verilog.test_linear import layer


def chain(*layers: Linear) -> Design:
    """One layer behind the other."""
    ends = [Boundary(n, s, n, (s.rows, s.size), np.arange(s.elements))
            for n, s in (("x", layers[0].inputs[0]), ("y", layers[-1].outputs[0]))]  # fmt: skip
    sources = [Wire(""), *(Wire(i.name) for i in layers)]
    wires = {i.name: (w,) for i, w in zip(layers, sources, strict=False)}
    return Design("top", (ends[0],), (ends[1],), layers, wires, (sources[-1],))


@needs_icarus
@pytest.mark.rtl
@pytest.mark.parametrize(("par_in", "par_out", "tokens"), [(1, 1, 1), (2, 3, 1), (4, 1, 2)])
def test_a_layer_is_on_time(tmp_path: Path, par_in: int, par_out: int, tokens: int) -> None:
    made = layer("fc", (4 * par_in, par_in), (3 * par_out, par_out), 2 * tokens, tokens)
    on_time(made, (random_codes(np.random.default_rng(0), made.inputs[0], 3),), tmp_path)


@needs_icarus
@pytest.mark.rtl
@pytest.mark.parametrize(("par_in", "par_out"), [(1, 4), (4, 1), (2, 3), (3, 2), (6, 4)])
def test_a_change_of_width_is_on_time(tmp_path: Path, par_in: int, par_out: int) -> None:
    x = Stream(1, 24, Fixed(5, 0), par_in)
    made = Resize(name="r", node="r", inputs=(x,), outputs=(Stream(1, 24, Fixed(5, 0), par_out),))
    on_time(made, (random_codes(np.random.default_rng(0), x, 3),), tmp_path)


def test_a_fifo_lets_the_slowest_engine_set_the_pace() -> None:
    design = chain(layer("a", (16, 1), (16, 1)), layer("b", (16, 1), (12, 1)))
    bare, better = schedule(design, 6), buffered(design)
    assert bare.interval > pace(design) == 256
    assert schedule(better, 6).interval == pytest.approx(256, rel=0.02)
    depth = next(i.depth for i in better.instances if i.module == "fifo")  # type: ignore[attr-defined]
    assert 1 < depth <= 16


def test_a_design_that_cannot_move_is_stuck() -> None:
    """A reader that wants more beats than its source has."""
    design = chain(layer("a", (4, 1), (4, 1)), layer("b", (8, 1), (2, 1)))
    assert schedule(design, 1).stuck
