"""Estimates against the stored syntheses: blocks exactly, tables and registers near, also of what was not fitted."""

from __future__ import annotations

import json

import numpy as np
import pytest

from espalier.verilog.area.model import GRID, HELD_OUT, estimate, fit, model, without
from espalier.verilog.area.parts import PARTS, blocks, ram, rom
from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import total
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.templates.lut import Lut
from tests.benchmarks.rtl_area import errors
from tests.benchmarks.rtl_linear import layer


def test_estimates_are_near_the_grid() -> None:
    rows, others = json.loads(GRID.read_text()), json.loads(HELD_OUT.read_text())
    assert len(others) >= 100 and {r["module"] for r in rows + others} <= set(PARTS)
    assert fit(without(rows, others)) == model(), "fit again: tests/benchmarks/rtl_area.py --fit"
    found = errors(others, model())
    assert found["lut"]["median"] < 0.1 and found["lut"]["worst"] < 0.3
    assert found["ff"]["median"] < 0.05 and found["ff"]["worst"] < 0.3
    assert min(int(found[n].split()[0]) for n in ("dsp", "bram")) >= len(others) - 1
    assert set(PARTS) == {r["module"] for r in rows}, "all have been synthesised"


def test_what_becomes_a_block() -> None:
    assert [blocks(*s) for s in ((8, 8), (4, 4), (25, 18), (26, 18), (20, 20))] == [1, 0, 1, 2, 2]
    assert rom(512, 36)[1] == 1 and rom(64, 8)[1] == 0
    assert ram(1024, 18)[1] == 1 and ram(1024, 18, registered=False)[1] == 0 and ram(32, 12) == (8.0, 0)


def test_more_at_once_takes_more() -> None:
    small, large = layer(16, 2).area(), layer(16, 8).area()
    assert (small.dsp, large.dsp) == (4, 64) and small.lut < large.lut and small.ff < large.ff
    both = total([layer(16, 2), layer(16, 8)])
    assert both.dsp == 68 and both.lut == small.lut + large.lut


def table(codes: np.ndarray, width: int) -> Lut:
    """A function of one code."""
    x, y = Fixed((len(codes) - 1).bit_length(), 0), Fixed(width, 0)
    return Lut(name="i", node="i", inputs=(Stream(1, 4, x, 4),), outputs=(Stream(1, 4, y, 4),), table=codes)


def test_words_that_repeat_are_made_once() -> None:
    every = np.random.default_rng(0).integers(-128, 128, 1024)
    random = table(every, 8).area()
    assert random.lut > 4 * 8 * 16 * 0.9, "as good as no two tables are equal"
    repeated = table(np.tile(every[:64], 16), 8).area()
    assert repeated.lut < random.lut / 10, "one table a bit, whatever the upper bits are"
    constant = table(np.full(1024, 3), 8).area()
    assert constant.lut < 8 and constant.ff < 4, "nothing is left but the handshake"
    low = table(every & 15, 8).area()
    assert low.lut < 0.6 * random.lut and low.ff == pytest.approx(random.ff / 2, abs=2)
    inverted = table(np.tile(np.concatenate([every[:64], -1 - every[:64]]), 8), 8).area()
    assert inverted.lut < random.lut / 6, "an inverted table is the same one"


def test_an_unknown_module_costs_nothing_known() -> None:
    assert estimate("mine", {"W": 8}).lut == 0
