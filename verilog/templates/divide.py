"""Elementwise division of two streams: the exact quotient, rounded once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes, Rounding

DEPTH = 2  # cycles from the last bit to the output


@dataclass(frozen=True, kw_only=True, eq=False)
class Divide(Template):
    """x / x1; saturated for x1 = 0, and 0 / 0 = 0."""

    rounding: Rounding = "nearest_even"

    @property
    def approximates(self) -> bool:
        """One rounding of the exact quotient, where float32 rounds twice."""
        return True

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "divide"

    @property
    def _places(self) -> int:
        """Left shift from the quotient of the codes to the result's code."""
        x, divisor, y = self.inputs[0].fixed, self.inputs[1].fixed, self.outputs[0].fixed
        return y.frac + divisor.frac - x.frac

    @property
    def bits(self) -> int:
        """Bits of the quotient; a beat takes one more cycle."""
        return max(self.inputs[0].fixed.width + max(self._places, 0), 2)

    def parameters(self) -> dict[str, int]:
        """Lanes, shifts and all three formats."""
        x, x1, y = self.inputs[0].fixed, self.inputs[1].fixed, self.outputs[0].fixed
        return {
            "LANES": self.inputs[0].lanes, "X_W": x.width, "X_S": int(x.signed), "X1_W": x1.width,
            "X1_S": int(x1.signed), "UP": max(self._places, 0), "DOWN": max(-self._places, 0), "Y_W": y.width,
            "Y_S": int(y.signed), "MODE": int(self.rounding == "nearest_even"),
        }  # fmt: skip

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Magnitudes divided, rounded, signed, saturated."""
        x, divisor = codes
        y, minus = self.outputs[0].fixed, (x < 0) ^ (divisor < 0)
        top, bottom = np.abs(x) << max(self._places, 0), np.abs(divisor) << max(-self._places, 0)
        safe = np.maximum(bottom, 1)
        integer, remainder = np.divmod(top, safe)
        if self.rounding == "nearest_even":
            integer = integer + ((2 * remainder > safe) | ((2 * remainder == safe) & (integer & 1 == 1)))
        else:
            integer = integer + (minus & (remainder > 0))
        ends = np.where(minus, y.low, y.high)
        quotient = np.clip(np.where(minus, -integer, integer), y.low, y.high)
        return (np.where(x == 0, 0, np.where(bottom == 0, ends, quotient)),)

    def engines(self) -> tuple[Engine, ...]:
        """A beat of each input, then a bit per cycle."""
        step = np.arange(self.inputs[0].beats * (self.bits + 1)) % (self.bits + 1)
        return (Engine({"x": step == 0, "x1": step == 0}, {"y": step == self.bits}, DEPTH),)
