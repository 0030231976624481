"""Choose: elementwise selection between two streams by a stream of bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes, Fixed, Rounding, requantise


@dataclass(frozen=True, kw_only=True, eq=False)
class Choose(Template):
    """x1 where the bit x is set, else x2; `total`: a signed format that covers both."""

    total: Fixed
    rounding: Rounding = "nearest_even"

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "choose"

    def uses(self) -> tuple[str, ...]:
        """Submodules."""
        return ("requant",)

    def _up(self, index: int) -> int:
        return self.total.frac - self.inputs[index].fixed.frac

    def parameters(self) -> dict[str, int]:
        """Lanes and all formats."""
        x1, x2, y = self.inputs[1].fixed, self.inputs[2].fixed, self.outputs[0].fixed
        return {
            "LANES": self.inputs[0].lanes, "X1_W": x1.width, "X1_S": int(x1.signed), "X1_UP": self._up(1),
            "X2_W": x2.width, "X2_S": int(x2.signed), "X2_UP": self._up(2), "S_W": self.total.width,
            "S_F": self.total.frac, "Y_W": y.width, "Y_F": y.frac, "Y_S": int(y.signed),
            "MODE": int(self.rounding == "nearest_even"),
        }  # fmt: skip

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """A selection, one requantisation."""
        first, second = (codes[k] << np.int64(self._up(k)) for k in (1, 2))
        return (requantise(np.where(codes[0] == 1, first, second), self.total.frac, self.outputs[0].fixed,
                           self.rounding),)  # fmt: skip

    def engines(self) -> tuple[Engine, ...]:
        """A beat of each input per cycle."""
        always = np.ones(self.inputs[0].beats, bool)
        return (Engine({"x": always, "x1": always, "x2": always}, {"y": always}, 2),)
