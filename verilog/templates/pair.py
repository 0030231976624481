"""Elementwise operations of two streams: sum, difference, product, maximum, minimum and comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes, Fixed, Rounding, covering, requantise

Kind = Literal["add", "sub", "mul", "max", "min", "gt", "ge", "eq", "ne"]
KINDS: tuple[Kind, ...] = ("add", "sub", "mul", "max", "min", "gt", "ge", "eq", "ne")
COMPARE = KINDS[5:]  # give bits


@dataclass(frozen=True, kw_only=True, eq=False)
class Pair(Template):
    """`total`: the format of every exact result; for a comparison, of both operands."""

    kind: Kind
    total: Fixed
    rounding: Rounding = "nearest_even"

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "pair"

    def uses(self) -> tuple[str, ...]:
        """Submodules."""
        return ("requant",)

    def _up(self, index: int) -> int:
        return 0 if self.kind == "mul" else self.total.frac - self.inputs[index].fixed.frac

    @property
    def _frac(self) -> int:
        """Fraction bits of the exact result."""
        return 0 if self.kind in COMPARE else self.total.frac

    def parameters(self) -> dict[str, int]:
        """Lanes and all three formats."""
        x, x1, y = self.inputs[0].fixed, self.inputs[1].fixed, self.outputs[0].fixed
        return {
            "OP": KINDS.index(self.kind), "LANES": self.inputs[0].lanes, "X_W": x.width, "X_S": int(x.signed),
            "X_UP": self._up(0), "X1_W": x1.width, "X1_S": int(x1.signed), "X1_UP": self._up(1),
            "S_W": self.total.width, "S_F": self._frac, "Y_W": y.width, "Y_F": y.frac, "Y_S": int(y.signed),
            "MODE": int(self.rounding == "nearest_even"),
        }  # fmt: skip

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """The exact result, one requantisation."""
        exact = combine_codes(self.kind, codes[0] << np.int64(self._up(0)), codes[1] << np.int64(self._up(1)))
        return (requantise(exact, self._frac, self.outputs[0].fixed, self.rounding),)

    def engines(self) -> tuple[Engine, ...]:
        """A beat of each input per cycle."""
        always = np.ones(self.inputs[0].beats, bool)
        return (Engine({"x": always, "x1": always}, {"y": always}, 2),)


def combine_codes(kind: Kind, a: Codes, b: Codes) -> Codes:
    """The exact result for aligned codes."""
    match kind:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "max":
            return np.maximum(a, b)
        case "min":
            return np.minimum(a, b)
        case "gt":
            return (a > b).astype(np.int64)
        case "ge":
            return (a >= b).astype(np.int64)
        case "eq":
            return (a == b).astype(np.int64)
        case "ne":
            return (a != b).astype(np.int64)


def exact_format(kind: Kind, a: Fixed, b: Fixed) -> Fixed:
    """The narrowest signed format of all results and both operands."""
    least = 1 if kind in COMPARE else 0  # true is 1, which one signed bit is not
    kind = "max" if kind in COMPARE else kind
    frac = a.frac + b.frac if kind == "mul" else max(a.frac, b.frac)
    up = (0, 0) if kind == "mul" else (frac - a.frac, frac - b.frac)
    p, q = (np.array([f.low << n, f.high << n, 0], object) for f, n in zip((a, b), up, strict=True))
    ends = np.concatenate([combine_codes(kind, p[:, None], q[None, :]).reshape(-1), p, q])
    return covering(min(-1, int(ends.min())), max(least, int(ends.max())), frac)
