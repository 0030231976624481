"""Scale and shift: a constant factor and summand for each element, for batch norms, scales and biases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import Engine, Memory, Template
from espalier.verilog.numbers.fixed import WIDEST, Codes, Fixed, Rounding, covering, requantise, shifted

DEPTH = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaleShift(Template):
    """`scale` and `shift` [rows, size] are codes, `shift` in the fraction of `total`."""

    scale: Codes
    scale_format: Fixed
    shift: Codes
    total: Fixed
    rounding: Rounding = "nearest_even"

    @property
    def approximates(self) -> bool:
        """Rounded scales."""
        return bool((np.abs(self.scale) != 1).any())

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "scale_shift"

    def uses(self) -> tuple[str, ...]:
        """Submodules."""
        return ("requant",)

    @property
    def _places(self) -> int:
        """Shift from a product's fraction to the sum's."""
        return self.total.frac - self.inputs[0].fixed.frac - self.scale_format.frac

    @property
    def _signed(self) -> Fixed:
        """The scale's format with a sign."""
        form = self.scale_format
        return form if form.signed else Fixed(form.width + 1, form.frac)

    def _words(self) -> tuple[Codes, Codes]:
        """The constants of one period of beats."""
        x = self.inputs[0]
        beats = [x.pack(c[None]) for c in (self.scale, self.shift)]
        pairs = np.concatenate(beats, axis=1)
        divisors = (p for p in range(1, x.beats + 1) if x.beats % p == 0)
        period = next(p for p in divisors if (pairs.reshape(x.beats // p, p, -1) == pairs[:p]).all())
        return beats[0][:period], beats[1][:period]

    def parameters(self) -> dict[str, int]:
        """Lanes, constants and formats."""
        x, y = self.inputs[0], self.outputs[0]
        return {
            "LANES": x.lanes, "PERIOD": len(self._words()[0]), "X_W": x.fixed.width, "X_S": int(x.fixed.signed),
            "M_W": self._signed.width, "S_W": self.total.width, "S_F": self.total.frac, "P_SHIFT": self._places,
            "Y_W": y.fixed.width, "Y_F": y.fixed.frac, "Y_S": int(y.fixed.signed),
            "MODE": int(self.rounding == "nearest_even"), **({"EVEN": 1} if y.fixed.low + y.fixed.high == 0 else {}),
        }  # fmt: skip

    def memories(self) -> tuple[Memory, ...]:
        """A word per beat of one period."""
        scale, shift = self._words()
        return Memory("M_FILE", scale, self._signed.width), Memory("B_FILE", shift, self.total.width)

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """The exact sum, one requantisation."""
        sums = shifted(codes[0] * self.scale, self._places) + self.shift
        return (requantise(sums, self.total.frac, self.outputs[0].fixed, self.rounding),)

    def engines(self) -> tuple[Engine, ...]:
        """A beat per cycle."""
        always = np.ones(self.inputs[0].beats, bool)
        return (Engine({"x": always}, {"y": always}, DEPTH),)


def totalled(x: Stream, scale: Codes, form: Fixed, shift: Codes, shift_frac: int) -> tuple[Fixed, Codes]:
    """The narrowest signed format of all x · scale + shift, and the shifts in its fraction."""
    frac = max(x.fixed.frac + form.frac, shift_frac)
    added = shift.astype(object) * (1 << (frac - shift_frac))
    up = 1 << (frac - x.fixed.frac - form.frac)
    ends = [scale.astype(object) * (end * up) + added for end in (x.fixed.low, x.fixed.high)]
    extremes = np.stack([*ends, added])
    total = covering(min(int(extremes.min()), -1), max(int(extremes.max()), 0), frac)
    return total, added.astype(np.int64) if total.width <= WIDEST else np.zeros_like(shift)
