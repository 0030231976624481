"""Cast: conversion of each element to another fixed-point format."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes, Rounding, requantise


@dataclass(frozen=True, kw_only=True, eq=False)
class Cast(Template):
    """Rounded, then saturated."""

    rounding: Rounding = "nearest_even"

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "cast_stream"

    def uses(self) -> tuple[str, ...]:
        """Submodules."""
        return ("requant",)

    def parameters(self) -> dict[str, int]:
        """Lanes and both formats."""
        x, y = self.inputs[0], self.outputs[0]
        return {
            "LANES": x.lanes, "X_W": x.fixed.width, "X_F": x.fixed.frac, "X_S": int(x.fixed.signed),
            "Y_W": y.fixed.width, "Y_F": y.fixed.frac, "Y_S": int(y.fixed.signed),
            "MODE": int(self.rounding == "nearest_even"),
        }  # fmt: skip

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """One requantisation."""
        return (requantise(codes[0], self.inputs[0].fixed.frac, self.outputs[0].fixed, self.rounding),)

    def engines(self) -> tuple[Engine, ...]:
        """A beat per cycle."""
        always = np.ones(self.inputs[0].beats, bool)
        return (Engine({"x": always}, {"y": always}, 1),)
