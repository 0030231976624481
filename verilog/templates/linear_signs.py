"""Linear with weights −1, 0 and +1: the folded layer without multipliers; XNOR and popcount for one-bit inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Memory
from espalier.verilog.templates.linear import Linear

DEPTH = 4  # cycles from reading the last operands to the result


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearSigns(Linear):
    """`Linear` with weights −1, 0, +1. Negative terms are inverted bits, with their correction in the bias."""

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "linear_signs"

    @property
    def _bits(self) -> int:
        """Bits of a weight: 2 if there are zeros."""
        return 1 if (self.weight != 0).all() else 2

    def parameters(self) -> dict[str, int]:
        """Sizes, parallelism, formats."""
        values = Linear.parameters(self)
        del values["B_W"]
        return {**values, "W_W": self._bits}

    def memories(self) -> tuple[Memory, ...]:
        """Weights as bits (+; or negative, not zero), and biases with the constants of the inverted terms."""
        x, y = self.inputs[0], self.outputs[0]
        bits = self.weight == 1 if self._bits == 1 else (self.weight != 0) | ((self.weight < 0) << 1)
        blocks = bits.astype(np.int64).reshape(self.groups * y.size // y.par, y.par, x.size // x.par, x.par)
        complement = 1 if x.fixed.signed else 1 - (1 << x.fixed.width)
        biases = self.bias + (((self.weight < 0).sum(1) * complement) << self._shift)
        return (
            Memory("W_FILE", blocks.transpose(0, 2, 1, 3).reshape(-1, y.par * x.par), self._bits),
            Memory("B_FILE", biases.reshape(-1, y.par), self.accumulator.width),
        )

    def engines(self) -> tuple[Engine, ...]:
        """As `Linear`, with fewer pipeline stages."""
        (engine,) = Linear.engines(self)
        return (Engine(engine.takes, engine.gives, DEPTH),)
