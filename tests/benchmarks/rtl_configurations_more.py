"""Configurations of what else moves and computes: addresses, quotients, deep FIFOs, functions whose words repeat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import Template
from espalier.verilog.numbers.fixed import Fixed, covering
from espalier.verilog.templates.choose import Choose
from espalier.verilog.templates.divide import Divide
from espalier.verilog.templates.fifo import Fifo
from espalier.verilog.templates.gather import Gather
from espalier.verilog.templates.lut import Lut, Pieces, fit_segments, tabled
from espalier.verilog.templates.pair import KINDS, Pair, exact_format
from espalier.verilog.templates.source import Source

Random = np.random.Generator


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _silu(x: Any) -> Any:
    return x * _sigmoid(x)


FUNCTIONS: tuple[Callable[[Any], Any], ...] = (np.tanh, np.exp, _sigmoid, _silu, np.cos, np.sqrt)


def _one(rng: Random, *values: int) -> int:
    return int(rng.choice(values))


def gather(rng: Random) -> Template:
    """Beats in any order, some of them borders."""
    beats, lanes, f = _one(rng, 16, 48, 64, 200), _one(rng, 1, 2, 4), _one(rng, 4, 8, 12)
    leave = _one(rng, beats, beats + 8, 2 * beats)
    order = rng.integers(-_one(rng, 0, 8), beats, leave)
    x, form = Stream(beats, lanes, Fixed(f, 2), lanes), Fixed(f, 2)
    y = Stream(leave, lanes, form, lanes)
    return Gather(name="i", node="i", inputs=(x,), outputs=(y,), beats=np.maximum(order, -1), pad=_one(rng, 0, 0, -3))


def divide(rng: Random) -> Template:
    """Quotients of several widths."""
    lanes, signs = _one(rng, 1, 2, 4), rng.integers(0, 2, 3)
    forms = [Fixed(_one(rng, 6, 8, 12), _one(rng, 2, 4, 6), bool(s)) for s in signs]
    streams = [Stream(1, 16, f, lanes) for f in forms]
    return Divide(name="i", node="i", inputs=tuple(streams[:2]), outputs=(streams[2],))


def deep(rng: Random) -> Template:
    """FIFOs that are read into a register."""
    x = Stream(1, 32, Fixed(_one(rng, 4, 8, 12), 2), _one(rng, 1, 2, 4, 8))
    depth = _one(rng, 64, 100, 256, 640, 1024)
    return Fifo(name="i", node="i", inputs=(x,), outputs=(x,), depth=depth, registered=True)


def compared(rng: Random) -> Template:
    """Bits of two streams."""
    a, b = (Fixed(_one(rng, 6, 8, 12, 16), _one(rng, 2, 4), bool(_one(rng, 0, 1, 1))) for _ in range(2))
    kind, lanes = KINDS[_one(rng, 5, 6, 7, 8)], _one(rng, 1, 2, 4, 8)
    x, x1, y = (Stream(1, 16, f, lanes) for f in (a, b, Fixed(1, 0, False)))
    return Pair(name="i", node="i", inputs=(x, x1), outputs=(y,), kind=kind, total=exact_format(kind, a, b))


def choose(rng: Random) -> Template:
    """One of two streams."""
    lanes = _one(rng, 1, 2, 4, 8)
    a, b, y = (Fixed(_one(rng, 6, 8, 12), _one(rng, 2, 4, 5)) for _ in range(3))
    frac = max(a.frac, b.frac)
    ends = [v << (frac - f.frac) for f in (a, b) for v in (f.low, f.high)]
    streams = [Stream(1, 16, f, lanes) for f in (Fixed(1, 0, False), a, b, y)]
    return Choose(name="i", node="i", inputs=tuple(streams[:3]), outputs=(streams[3],),
                  total=covering(min(ends), max(ends), frac))  # fmt: skip


def source(rng: Random) -> Template:
    """Constants of random words."""
    rows, form = _one(rng, 1, 8, 17, 64, 200), Fixed(_one(rng, 4, 8, 12), 2)
    lanes = _one(rng, 1, 2, 4, 8)
    codes = rng.integers(form.low, form.high + 1, (rows, lanes))
    return Source(name="i", node="i", inputs=(), outputs=(Stream(rows, lanes, form, lanes),), codes=codes)


def function(rng: Random, whole: bool) -> Template:
    """Functions that are steep, flat, or saturated in parts of their range."""
    made = FUNCTIONS[_one(rng, *range(len(FUNCTIONS)))]
    wide = _one(rng, 6, 8, 9, 10) if whole else _one(rng, 11, 12, 14)
    x, lanes = Fixed(wide, _one(rng, 1, 3, wide - 3)), _one(rng, 1, 2, 4)
    y = Fixed(_one(rng, 4, 6, 8, 12), _one(rng, 2, 4))
    ins, outs = Stream(1, 16, x, lanes), Stream(1, 16, y, lanes)
    if whole:
        return Lut(name="i", node="i", inputs=(ins,), outputs=(outs,), table=tabled(made, x, y, "nearest_even"))
    return Pieces(name="i", node="i", inputs=(ins,), outputs=(outs,), lines=fit_segments(made, x, y))
