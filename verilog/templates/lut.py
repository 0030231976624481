"""Functions of one number by table: all codes, or straight lines between the upper bits of wide ones.

The integer model reads the same tables: they are the definition, and `worst` tells how far off they are.
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

WHOLE = 10  # bits of codes up to which every one has its word
WIDEST = 20  # bits of codes that lines are fitted to
MOST = 10  # upper bits that choose a line
FINER = 3  # places of bases and slopes below those of the result
Function = Callable[[NDArray[Any]], NDArray[Any]]


def all_codes(form: Fixed) -> Codes:
    """Every code, as unsigned numbers count up."""
    codes = np.arange(1 << form.width)
    return np.where(codes > form.high, codes - (1 << form.width), codes)


@dataclass(frozen=True, kw_only=True, eq=False)
class Lut(Template):
    """`table[x]`, x as an unsigned number."""

    table: Codes

    @property
    def approximates(self) -> bool:
        """Functions in double precision, rounded once."""
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
        """How much the words repeat."""
        width = self.outputs[0].fixed.width
        return {**table_counts(self.table, width), "KEPT": varying_bits(self.table, width)}

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """The words."""
        return (self.table[codes[0] & ((1 << self.inputs[0].fixed.width) - 1)],)

    def engines(self) -> tuple[Engine, ...]:
        """A beat a cycle."""
        every = np.ones(self.inputs[0].beats, bool)
        return (Engine({"x": every}, {"y": every}, 1),)


def tabled(function: Function, x: Fixed, to: Fixed, rounding: Rounding) -> Codes:
    """The code of the function's value for each code of x; what has no value gives 0."""
    with np.errstate(all="ignore"):
        return to.encode(
            np.nan_to_num(function(x.values(all_codes(x))), nan=0.0, posinf=np.inf, neginf=-np.inf), rounding
        )


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """`base` in the result's fraction and FINER, `slope` per step of x with `more` places beyond; `low` bits along."""

    base: Codes
    slope: Codes
    low: int
    more: int
    worst: float  # steps of the result between line and function, rounding included


@dataclass(frozen=True, kw_only=True, eq=False)
class Pieces(Template):
    """base·2^more + slope·low, in the format of y."""

    lines: Lines
    rounding: Rounding = "nearest_even"

    @property
    def approximates(self) -> bool:
        """Straight lines."""
        return True

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "pieces"

    def uses(self) -> tuple[str, ...]:
        """Modules below it."""
        return ("requant",)

    def remark(self) -> str:
        """How far off the lines are."""
        return f"{len(self.lines.base)} lines, at most {self.lines.worst:.2f} steps of the result off"

    @property
    def _base(self) -> Fixed:
        return _holding(self.lines.base)

    @property
    def _slope(self) -> Fixed:
        return _holding(self.lines.slope)

    def _sums(self, codes: Codes) -> Codes:
        lines = self.lines
        unsigned = codes & ((1 << self.inputs[0].fixed.width) - 1)
        piece, along = unsigned >> lines.low, unsigned & ((1 << lines.low) - 1)
        return shifted(lines.base[piece], lines.more) + lines.slope[piece] * along

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
        """{slope, base} of each line."""
        width = self._base.width
        return (self.lines.slope << width) | (self.lines.base & ((1 << width) - 1))

    def memories(self) -> tuple[Memory, ...]:
        """A word for each line."""
        return (Memory("T_FILE", self._words[:, None], self._base.width + self._slope.width),)

    def content_counts(self) -> dict[str, int]:
        """How much the words repeat, and how many bits of their halves vary."""
        base, slope = self._base.width, self._slope.width
        halves = {"BASES": varying_bits(self.lines.base, base), "SLOPES": varying_bits(self.lines.slope, slope)}
        return {**table_counts(self._words, base + slope), **halves}

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """The place on the line, one requantisation."""
        return (requantise(self._sums(codes[0]), self._fraction, self.outputs[0].fixed, self.rounding),)

    def engines(self) -> tuple[Engine, ...]:
        """A beat a cycle."""
        every = np.ones(self.inputs[0].beats, bool)
        return (Engine({"x": every}, {"y": every}, 4),)


def _holding(codes: Codes) -> Fixed:
    return covering(min(int(codes.min()), -1), max(int(codes.max()), 0), 0)


def fitted(function: Function, x: Fixed, to: Fixed, goal: float = 1.0) -> Lines:
    """The fewest lines, at most 2^10, that stay within `goal` steps of the result, or the closest found."""
    with np.errstate(all="ignore"):
        exact = np.ldexp(np.nan_to_num(function(x.values(all_codes(x))), nan=0.0), to.frac)
    wanted = np.clip(exact, to.low, to.high)
    found: Lines | None = None
    for upper in range(2, min(MOST, x.width - 1) + 1):
        made = _fit(wanted, x.width - upper)
        if found is None or made.worst < found.worst:
            found = made
        if made.worst <= goal:
            break
    assert found is not None
    return found


def _fit(wanted: NDArray[np.float64], low: int) -> Lines:
    """Each line through both ends of its piece, then moved to the middle of its errors."""
    parts = wanted.reshape(-1, 1 << low)
    more, along = low, np.arange(1 << low)
    slope = np.rint(np.ldexp((parts[:, -1] - parts[:, 0]) / max(along[-1], 1), FINER + more)).astype(np.int64)
    off = parts - np.ldexp(slope[:, None] * along, -FINER - more)
    base = np.rint(np.ldexp((off.min(axis=1) + off.max(axis=1)) / 2, FINER)).astype(np.int64)
    given = np.rint(np.ldexp(base[:, None], -FINER) + np.ldexp(slope[:, None] * along, -FINER - more))
    return Lines(base, slope, low, more, float(np.abs(given - parts).max()))
