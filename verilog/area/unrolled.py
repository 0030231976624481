"""Resources of the unrolled engine's adders, registers and windows; `tests/benchmarks/rtl_unrolled.py --fit` fits them.

An added bit takes a look-up table, rounding and saturation some more, and a pipelined bit a register.
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
    """Look-up tables or registers per unit of each count."""
    coefficients: Mapping[str, float] = json.loads(MODEL.read_text())
    return coefficients


def adders(counts: Mapping[str, int]) -> Area:
    """Resources of a layer, by its template's `content_counts`."""
    coefficients = model()
    lut, ff = (sum(coefficients[name] * counts[name] for name in names) for names in (TABLES, REGISTERS))
    return Area(round(lut), round(ff))


def lines(p: Mapping[str, int]) -> Area:
    """Resources of whole windows: rows in memories, taps in registers, multiplexers for the padding."""
    wide, taps = p["LANES"] * p["W"], p["K_H"] * p["K_W"]
    tables, blocks = ram(p["IN_W"] * p["GAP_H"], wide)
    count = bits(p["STEPS"]) * 2 + bits(p["OUT_H"]) + bits(p["OUT_W"]) + 2 * bits(p["IN_H"] + p["IN_W"]) + 10
    registers = p["K_H"] * ((p["K_W"] - 1) * p["GAP_W"] + 1) * wide + (p["K_H"] - 1) * wide
    return Area(
        round((p["K_H"] - 1) * tables + taps * wide + 1.2 * count), registers + count + 9, 0, (p["K_H"] - 1) * blocks
    )
