"""Linear with weights −1, 0 and +1: the folded layer without products; one bit of x makes it XNOR and a count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Memory
from espalier.verilog.templates.linear import Linear

DEPTH = 4  # cycles from asking for the last term to the result


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearSigns(Linear):
    """As `Linear`, of weights −1, 0, +1. Inverted bits stand for a negative term: what they miss is in the bias."""

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "linear_signs"

    @property
    def _bits(self) -> int:
        """Of a weight: a zero needs a second one."""
        return 1 if (self.weight != 0).all() else 2

    def parameters(self) -> dict[str, int]:
        """Sizes, parallelism, formats."""
        found = Linear.parameters(self)
        del found["B_W"]
        return {**found, "W_W": self._bits}

    def memories(self) -> tuple[Memory, ...]:
        """Weights as bits (+; or negative, not zero), and biases with the constants of the inverted terms."""
        x, y = self.inputs[0], self.outputs[0]
        bits = self.weight == 1 if self._bits == 1 else (self.weight != 0) | ((self.weight < 0) << 1)
        blocks = bits.astype(np.int64).reshape(self.groups * y.size // y.par, y.par, x.size // x.par, x.par)
        missing = 1 if x.fixed.signed else 1 - (1 << x.fixed.width)
        biases = self.bias + (((self.weight < 0).sum(1) * missing) << self._shift)
        return (
            Memory("W_FILE", blocks.transpose(0, 2, 1, 3).reshape(-1, y.par * x.par), self._bits),
            Memory("B_FILE", biases.reshape(-1, y.par), self.accumulator.width),
        )

    def engines(self) -> tuple[Engine, ...]:
        """As `linear`, a stage shorter."""
        (engine,) = Linear.engines(self)
        return (Engine(engine.takes, engine.gives, DEPTH),)
