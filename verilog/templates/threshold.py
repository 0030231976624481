"""Threshold: comparison of each element's code with a constant, also for signs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes


@dataclass(frozen=True, kw_only=True, eq=False)
class Threshold(Template):
    """1 where code ≥ `least`; if `below`, 1 where code < `least`."""

    least: int = 0
    below: bool = False

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "threshold"

    def parameters(self) -> dict[str, int]:
        """Lanes, format and constant."""
        x = self.inputs[0]
        return {"LANES": x.lanes, "X_W": x.fixed.width, "X_S": int(x.fixed.signed), "T": self.least,
                "BELOW": int(self.below)}  # fmt: skip

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """A comparison."""
        return (((codes[0] >= self.least) != self.below).astype(np.int64),)

    def engines(self) -> tuple[Engine, ...]:
        """A beat per cycle."""
        always = np.ones(self.inputs[0].beats, bool)
        return (Engine({"x": always}, {"y": always}, 1),)
