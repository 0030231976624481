"""What adders, registers and windows of the unrolled engine take; `tests/benchmarks/rtl_unrolled.py --fit` measures it.

A bit that is added is a table; rounding and saturation come on top, and every kept bit is a register.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from espalier.verilog.area.parts import bits, ram
from espalier.verilog.area.resources import Area

MODEL = Path(__file__).parent / "unrolled.json"
TABLES, REGISTERS = ("ADD", "ROUND", "CUT"), ("KEEP",)


@cache
def model() -> Mapping[str, float]:
    """Tables or registers of each figure."""
    found: Mapping[str, float] = json.loads(MODEL.read_text())
    return found


def adders(figures: Mapping[str, int]) -> Area:
    """Of a layer, by the figures of its template."""
    by = model()
    lut, ff = (sum(by[name] * figures[name] for name in names) for names in (TABLES, REGISTERS))
    return Area(round(lut), round(ff))


def lines(p: Mapping[str, int]) -> Area:
    """Of whole windows: rows in memories, taps in registers, and a choice of what lies outside."""
    wide, taps = p["LANES"] * p["W"], p["K_H"] * p["K_W"]
    tables, blocks = ram(p["IN_W"] * p["GAP_H"], wide)
    count = bits(p["STEPS"]) * 2 + bits(p["OUT_H"]) + bits(p["OUT_W"]) + 2 * bits(p["IN_H"] + p["IN_W"]) + 10
    held = p["K_H"] * ((p["K_W"] - 1) * p["GAP_W"] + 1) * wide + (p["K_H"] - 1) * wide
    return Area(
        round((p["K_H"] - 1) * tables + taps * wide + 1.2 * count), held + count + 9, 0, (p["K_H"] - 1) * blocks
    )
