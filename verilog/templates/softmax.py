"""Softmax over rows: a table of powers of two, an exact sum, one reciprocal per row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Memory, Template
from espalier.verilog.numbers.fixed import Codes, Rounding, requantise

GUARD = 5  # bits of the exponentials beyond the result's
BEYOND = 6  # bits of log2 e beyond the table's


@dataclass(frozen=True, kw_only=True, eq=False)
class Softmax(Template):
    """The second input, if any, is a mask: elements whose bit is not `keep` give 0."""

    keep: int = 1
    rounding: Rounding = "nearest_even"

    @property
    def approximates(self) -> bool:
        """A table of powers and a rounded reciprocal."""
        return True

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "softmax_rows" if len(self.inputs) > 1 else "softmax"

    def uses(self) -> tuple[str, ...]:
        """Submodules."""
        return "powers", "reciprocal", "requant", "row_max", "softmax_rows"

    @property
    def _places(self) -> int:
        """Fraction bits of the exponent: the table has 2^_places entries."""
        return min(max(self.outputs[0].fixed.frac - 1, 8), 11)

    @property
    def _log2e(self) -> int:
        return round(math.log2(math.e) * 2 ** (self._places + BEYOND))

    @property
    def _fraction(self) -> int:
        """Fraction bits of the exponentials."""
        return min(max(self.outputs[0].fixed.frac + GUARD, 8), 22)

    @property
    def _drop(self) -> int:
        return self.inputs[0].fixed.frac + BEYOND

    def _division(self) -> tuple[int, int]:
        """(quotient bits per cycle, at most 4, and cycles), to take no longer than a row if possible."""
        size = self.inputs[0].size
        quotient_bits = max(self.outputs[0].fixed.frac, 4) + 3 + (size - 1).bit_length()
        bits = min(-(-quotient_bits // (size // self.inputs[0].par)), 4)
        return bits, -(-quotient_bits // bits)

    @property
    def _reciprocal(self) -> int:
        """Fraction bits of the reciprocal."""
        bits, steps = self._division()
        return bits * steps - 1

    @property
    def _banks(self) -> int:
        """Rows in flight without stalls."""
        beats, steps = self.inputs[0].size // self.inputs[0].par, self._division()[1]
        return -(-(3 * beats + steps + 18) // max(beats, steps)) + 1

    def parameters(self) -> dict[str, int]:
        """Sizes and formats."""
        x, y = self.inputs[0], self.outputs[0]
        mask = {"KEEP": self.keep} if len(self.inputs) > 1 else {}
        return {
            "SIZE": x.size, "PAR": x.par, "BANKS": self._banks, "X_W": x.fixed.width, "X_S": int(x.fixed.signed),
            **mask, "LOG2E": self._log2e, "DROP": self._drop, "T_BITS": self._places, "E_F": self._fraction,
            "R_F": self._reciprocal, "BITS": self._division()[0], "Y_W": y.fixed.width, "Y_F": y.fixed.frac,
            "Y_S": int(y.fixed.signed), "MODE": int(self.rounding == "nearest_even"),
        }  # fmt: skip

    def memories(self) -> tuple[Memory, ...]:
        """2^(−i/2^places) for all fractions i."""
        return (Memory("T_FILE", self._table()[:, None], self._fraction + 1),)

    def _table(self) -> Codes:
        powers = np.exp2(self._fraction - np.arange(1 << self._places) / (1 << self._places))
        return np.rint(powers).astype(np.int64)

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Maximum, exponentials, sum, reciprocal and product in integers."""
        x, unmasked = codes[0], self._unmasked(*codes)
        peak = np.where(unmasked, x, self.inputs[0].fixed.low).max(-1, keepdims=True)
        scaled = np.where(unmasked, peak - x, 0) * self._log2e
        drop = self._drop
        t = (scaled + (1 << (drop - 1))) >> drop if drop > 0 else scaled << -drop
        powers = self._table()[t & ((1 << self._places) - 1)] >> np.minimum(t >> self._places, 62)
        powers = np.where(unmasked, powers, 0)
        total = powers.sum(-1, keepdims=True)
        frac = self._fraction + self._reciprocal
        reciprocal = np.where(total > 0, (1 << frac) // np.maximum(total, 1), 0)
        return (requantise(powers * reciprocal, frac, self.outputs[0].fixed, self.rounding),)

    def _unmasked(self, x: Codes, *mask: Codes) -> np.ndarray:
        return mask[0] == self.keep if mask else np.ones(x.shape, bool)

    def engines(self) -> tuple[Engine, ...]:
        """Rows are written, read for their exponentials, divided, and read for the result."""
        x = self.inputs[0]
        beats = x.size // x.par
        step = np.tile(np.arange(beats), x.rows)
        always, first, last = step >= 0, step == 0, step == beats - 1
        steps = self._division()[1]
        divide = np.tile(np.arange(steps), x.rows)
        mask = {"x1": always} if len(self.inputs) > 1 else {}
        return (
            Engine({"x": always, **mask, "free": first}, {"peaked": last}, 2),
            Engine({"peaked": first}, {"summed": last}, 7),
            Engine({"summed": divide == 0}, {"divided": divide == steps - 1}, 1),
            Engine({"divided": first}, {"y": always, "free": last}, 3),
        )

    def buffers(self) -> dict[str, int]:
        """A slot for each row in flight."""
        return dict.fromkeys(("free", "peaked", "summed", "divided"), self._banks)

    def primed(self) -> dict[str, int]:
        """All slots are initially free."""
        return {"free": self._banks}
