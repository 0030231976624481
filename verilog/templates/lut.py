"""Functions of one number by table: of all codes, or of line segments selected by the upper bits of wide codes.

The integer model reads the same tables; `worst` is the largest error of the line segments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.verilog.area.memory_contents import table_counts, varying_bits
from espalier.verilog.design.template import Engine, Memory, Template
from espalier.verilog.numbers.fixed import Codes, Fixed, Rounding, covering, requantise, shifted

WHOLE = 10  # most code bits for a full table
WIDEST = 20  # most code bits for line segments
MOST = 10  # most upper bits that select a segment
FINER = 3  # extra fraction bits of bases and slopes
Function = Callable[[NDArray[Any]], NDArray[Any]]


def all_codes(form: Fixed) -> Codes:
    """Every code, in the order of its bits as an unsigned number."""
    codes = np.arange(1 << form.width)
    return np.where(codes > form.high, codes - (1 << form.width), codes)


@dataclass(frozen=True, kw_only=True, eq=False)
class Lut(Template):
    """`table[x]`, x as an unsigned number."""

    table: Codes

    @property
    def approximates(self) -> bool:
        """The function in double precision, rounded once."""
        return True

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "lut"

    def parameters(self) -> dict[str, int]:
        """Lanes and widths."""
        x, y = self.inputs[0], self.outputs[0]
        return {"LANES": x.lanes, "X_W": x.fixed.width, "Y_W": y.fixed.width}

    def memories(self) -> tuple[Memory, ...]:
        """The table."""
        return (Memory("T_FILE", self.table[:, None], self.outputs[0].fixed.width),)

    def content_counts(self) -> dict[str, int]:
        """Tables of the words, and their varying bits."""
        width = self.outputs[0].fixed.width
        return {**table_counts(self.table, width), "KEPT": varying_bits(self.table, width)}

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """The words at the codes."""
        return (self.table[codes[0] & ((1 << self.inputs[0].fixed.width) - 1)],)

    def engines(self) -> tuple[Engine, ...]:
        """A beat per cycle."""
        always = np.ones(self.inputs[0].beats, bool)
        return (Engine({"x": always}, {"y": always}, 1),)


def tabled(function: Function, x: Fixed, to: Fixed, rounding: Rounding) -> Codes:
    """The code of the function's value for each code of x; 0 for NaN."""
    with np.errstate(all="ignore"):
        return to.encode(
            np.nan_to_num(function(x.values(all_codes(x))), nan=0.0, posinf=np.inf, neginf=-np.inf), rounding
        )


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Line segments: `base` with FINER more fraction bits than the result, `slope` with `more` beyond those; `low`:
    code bits within a segment."""

    base: Codes
    slope: Codes
    low: int
    more: int
    worst: float  # largest error in steps of the result, including rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class Pieces(Template):
    """base·2^more + slope·low, in the format of y."""

    lines: Lines
    rounding: Rounding = "nearest_even"

    @property
    def approximates(self) -> bool:
        """Line segments."""
        return True

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "pieces"

    def uses(self) -> tuple[str, ...]:
        """Submodules."""
        return ("requant",)

    def remark(self) -> str:
        """Number and error of the segments."""
        return f"{len(self.lines.base)} line segments, error at most {self.lines.worst:.2f} steps of the result"

    @property
    def _base(self) -> Fixed:
        return _holding(self.lines.base)

    @property
    def _slope(self) -> Fixed:
        return _holding(self.lines.slope)

    def _sums(self, codes: Codes) -> Codes:
        lines = self.lines
        unsigned = codes & ((1 << self.inputs[0].fixed.width) - 1)
        segment, along = unsigned >> lines.low, unsigned & ((1 << lines.low) - 1)
        return shifted(lines.base[segment], lines.more) + lines.slope[segment] * along

    @property
    def _fraction(self) -> int:
        return self.outputs[0].fixed.frac + FINER + self.lines.more

    def parameters(self) -> dict[str, int]:
        """Lanes and widths."""
        x, y, lines = self.inputs[0], self.outputs[0], self.lines
        sums = _holding(self._sums(all_codes(x.fixed)))
        wide = max(sums.width, self._base.width, self._slope.width + lines.low + 1)
        return {
            "LANES": x.lanes, "X_W": x.fixed.width, "LOW": lines.low, "B_W": self._base.width,
            "M_W": self._slope.width, "SHIFT": lines.more, "S_W": wide, "S_F": self._fraction,
            "Y_W": y.fixed.width, "Y_F": y.fixed.frac, "Y_S": int(y.fixed.signed),
            "MODE": int(self.rounding == "nearest_even"),
        }  # fmt: skip

    @property
    def _words(self) -> Codes:
        """{slope, base} of each segment."""
        width = self._base.width
        return (self.lines.slope << width) | (self.lines.base & ((1 << width) - 1))

    def memories(self) -> tuple[Memory, ...]:
        """A word per segment."""
        return (Memory("T_FILE", self._words[:, None], self._base.width + self._slope.width),)

    def content_counts(self) -> dict[str, int]:
        """Tables of the words, and the varying bits of bases and slopes."""
        base, slope = self._base.width, self._slope.width
        halves = {"BASES": varying_bits(self.lines.base, base), "SLOPES": varying_bits(self.lines.slope, slope)}
        return {**table_counts(self._words, base + slope), **halves}

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Linear interpolation, one requantisation."""
        return (requantise(self._sums(codes[0]), self._fraction, self.outputs[0].fixed, self.rounding),)

    def engines(self) -> tuple[Engine, ...]:
        """A beat per cycle."""
        always = np.ones(self.inputs[0].beats, bool)
        return (Engine({"x": always}, {"y": always}, 4),)


def _holding(codes: Codes) -> Fixed:
    return covering(min(int(codes.min()), -1), max(int(codes.max()), 0), 0)


def fit_segments(function: Function, x: Fixed, to: Fixed, goal: float = 1.0) -> Lines:
    """The fewest segments, at most 2^10, with errors within `goal` steps of the result, else the most accurate."""
    with np.errstate(all="ignore"):
        exact = np.ldexp(np.nan_to_num(function(x.values(all_codes(x))), nan=0.0), to.frac)
    target = np.clip(exact, to.low, to.high)
    best: Lines | None = None
    for upper in range(2, min(MOST, x.width - 1) + 1):
        lines = _fit(target, x.width - upper)
        if best is None or lines.worst < best.worst:
            best = lines
        if lines.worst <= goal:
            break
    assert best is not None
    return best


def _fit(target: NDArray[np.float64], low: int) -> Lines:
    """Fit each segment through its end points, then centre its errors."""
    parts = target.reshape(-1, 1 << low)
    extra_bits, along = low, np.arange(1 << low)
    slope = np.rint(np.ldexp((parts[:, -1] - parts[:, 0]) / max(along[-1], 1), FINER + extra_bits)).astype(np.int64)
    off = parts - np.ldexp(slope[:, None] * along, -FINER - extra_bits)
    base = np.rint(np.ldexp((off.min(axis=1) + off.max(axis=1)) / 2, FINER)).astype(np.int64)
    rounded = np.rint(np.ldexp(base[:, None], -FINER) + np.ldexp(slope[:, None] * along, -FINER - extra_bits))
    return Lines(base, slope, low, extra_bits, float(np.abs(rounded - parts).max()))
