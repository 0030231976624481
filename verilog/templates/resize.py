"""Resize: the same rows with another number of elements per beat."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes


@dataclass(frozen=True, kw_only=True, eq=False)
class Resize(Template):
    """A register of lcm(PAR_IN, PAR_OUT) elements is filled while another one is read."""

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "resize"

    def parameters(self) -> dict[str, int]:
        """Elements per beat on both sides, and the element width."""
        x, y = self.inputs[0], self.outputs[0]
        return {"PAR_IN": x.par, "PAR_OUT": y.par, "W": x.fixed.width}

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """The input."""
        return (codes[0],)

    def engines(self) -> tuple[Engine, ...]:
        """Two engines: groups of lcm elements are filled beat by beat, then output beat by beat."""
        x, y = self.inputs[0], self.outputs[0]
        group = math.lcm(x.par, y.par)
        groups = x.elements // group
        fills, drains = group // x.par, group // y.par
        fill = Engine(
            {"x": np.ones(fills * groups, bool)}, {"group": np.tile(np.arange(fills) == fills - 1, groups)}, 1
        )
        drain = Engine({"group": np.tile(np.arange(drains) == 0, groups)}, {"y": np.ones(drains * groups, bool)}, 1)
        return fill, drain
