"""Estimates against the stored syntheses: blocks exactly, tables and registers near, also of what was not fitted."""

from __future__ import annotations

import json

from tests.benchmarks.rtl_area import errors
from tests.benchmarks.rtl_linear import layer
from verilog.area.model import GRID, HELD_OUT, apart, estimate, fitted, model
from verilog.area.parts import PARTS, blocks, ram, rom
from verilog.templates.base import total


def test_estimates_are_near_the_grid() -> None:
    rows, others = json.loads(GRID.read_text()), json.loads(HELD_OUT.read_text())
    assert len(others) >= 60 and {r["module"] for r in rows + others} <= set(PARTS)
    assert fitted(apart(rows, others)) == model(), "fit again: tests/benchmarks/rtl_area.py --fit"
    found = errors(others, model())
    assert found["lut"]["median"] < 0.1 and found["lut"]["p90"] < 0.3
    assert found["ff"]["median"] < 0.05 and found["ff"]["p90"] < 0.2
    assert min(int(found[n].split()[0]) for n in ("dsp", "bram")) >= len(others) - 2


def test_what_becomes_a_block() -> None:
    assert [blocks(*s) for s in ((8, 8), (4, 4), (25, 18), (26, 18), (20, 20))] == [1, 0, 1, 2, 2]
    assert rom(512, 36)[1] == 1 and rom(64, 8)[1] == 0
    assert ram(1024, 18)[1] == 1 and ram(1024, 18, registered=False)[1] == 0 and ram(32, 12) == (8.0, 0)


def test_more_at_once_takes_more() -> None:
    small, large = layer(16, 2).area(), layer(16, 8).area()
    assert (small.dsp, large.dsp) == (4, 64) and small.lut < large.lut and small.ff < large.ff
    both = total([layer(16, 2), layer(16, 8)])
    assert both.dsp == 68 and both.lut == small.lut + large.lut


def test_an_unknown_module_costs_nothing_known() -> None:
    assert estimate("mine", {"W": 8}).lut == 0
