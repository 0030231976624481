"""Folds: maximum or sum over several rows, lane by lane, for pools and means."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes, Fixed, Rounding, requantise

WIDEST_SUM = 22  # most bits of the multiplier of a mean


@dataclass(frozen=True, kw_only=True, eq=False)
class Fold(Template):
    """Reduces `count` rows of x to one of y, element by element."""

    count: int

    @property
    def _blocks(self) -> int:
        return self.inputs[0].size // self.inputs[0].par

    def _grouped(self, codes: Codes) -> Codes:
        return codes.reshape(-1, self.inputs[0].rows // self.count, self.count, self.inputs[0].size)

    def _steps(self, depth: int) -> tuple[Engine, ...]:
        round_of = np.arange(self.inputs[0].beats) // self._blocks % self.count
        return (Engine({"x": round_of >= 0}, {"y": round_of == self.count - 1}, depth),)


@dataclass(frozen=True, kw_only=True, eq=False)
class FoldMax(Fold):
    """Maximum."""

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "fold_max"

    def parameters(self) -> dict[str, int]:
        """Counts and the format."""
        x = self.inputs[0]
        return {"COUNT": self.count, "BLOCKS": self._blocks, "LANES": x.par, "W": x.fixed.width,
                "S": int(x.fixed.signed)}  # fmt: skip

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Maximum of each group."""
        return (self._grouped(codes[0]).max(axis=2),)

    def engines(self) -> tuple[Engine, ...]:
        """A beat per cycle."""
        return self._steps(1)


@dataclass(frozen=True, kw_only=True, eq=False)
class FoldSum(Fold):
    """The sum times multiplier·2^−shift, in the format of y."""

    multiplier: int = 1
    shift: int = 0
    rounding: Rounding = "nearest_even"

    @property
    def approximates(self) -> bool:
        """A reciprocal of the count in a few bits."""
        return self.multiplier != 1

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "fold_sum"

    def uses(self) -> tuple[str, ...]:
        """Submodules."""
        return ("requant",)

    def parameters(self) -> dict[str, int]:
        """Counts and both formats."""
        x, y = self.inputs[0], self.outputs[0]
        return {
            "COUNT": self.count, "BLOCKS": self._blocks, "LANES": x.par, "X_W": x.fixed.width,
            "X_S": int(x.fixed.signed), "MUL": self.multiplier, "P_F": x.fixed.frac + self.shift,
            "Y_W": y.fixed.width, "Y_F": y.fixed.frac, "Y_S": int(y.fixed.signed),
            "MODE": int(self.rounding == "nearest_even"),
        }  # fmt: skip

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Exact sums, one product, one requantisation."""
        products = self._grouped(codes[0]).sum(axis=2) * self.multiplier
        fraction = self.inputs[0].fixed.frac + self.shift
        return (requantise(products, fraction, self.outputs[0].fixed, self.rounding),)

    def engines(self) -> tuple[Engine, ...]:
        """A beat per cycle."""
        return self._steps(3)


def reciprocal(count: int, x: Stream) -> tuple[int, int]:
    """(multiplier, shift) with multiplier·2^−shift ≈ 1 / count, exact for powers of two.

    The multiplier has as many bits as the sum, at most 22, so that for sums of up to 22 bits the error of a mean before
    rounding is below 1/(2·count) of a step of x.
    """
    if count & (count - 1) == 0:
        return 1, count.bit_length() - 1
    bits = min(x.fixed.width + (count - 1).bit_length(), WIDEST_SUM)
    shift = bits + count.bit_length()
    return round(math.ldexp(1, shift) / count), shift


def summed_format(count: int, multiplier: int, shift: int, x: Fixed) -> Fixed:
    """The narrowest format of all sums times multiplier·2^−shift."""
    from espalier.verilog.numbers.fixed import covering

    return covering(x.low * count * multiplier, x.high * count * multiplier, x.frac + shift)
