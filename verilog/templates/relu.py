"""ReLU: max(x, 0) in the input's format."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes


@dataclass(frozen=True, kw_only=True, eq=False)
class Relu(Template):
    """Replaces negative codes by 0."""

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "relu"

    def parameters(self) -> dict[str, int]:
        """Lanes and width."""
        return {"LANES": self.inputs[0].lanes, "W": self.inputs[0].fixed.width}

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """max(code, 0)."""
        return (np.maximum(codes[0], 0),)

    def engines(self) -> tuple[Engine, ...]:
        """A beat per cycle."""
        always = np.ones(self.inputs[0].beats, bool)
        return (Engine({"x": always}, {"y": always}, 1),)
