"""Depthwise convolution: the taps of each channel, several channels in parallel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Memory, Template
from espalier.verilog.numbers.fixed import Codes, Fixed, Rounding, requantise, shifted


@dataclass(frozen=True, kw_only=True, eq=False)
class Depthwise(Template):
    """`weight` [channels, taps], `bias` [channels] in the accumulator's fraction.

    An input row has, tap by tap, a block of channels, which is output in one beat; the blocks alternate.
    """

    weight: Codes
    weight_format: Fixed
    bias: Codes
    accumulator: Fixed
    rounding: Rounding = "nearest_even"

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "depthwise"

    def uses(self) -> tuple[str, ...]:
        """Submodules."""
        return ("requant",)

    @property
    def _sizes(self) -> tuple[int, int, int]:
        """Blocks, taps, lanes."""
        channels, taps = self.weight.shape
        lanes = self.inputs[0].par
        return channels // lanes, taps, lanes

    @property
    def _shift(self) -> int:
        """Places from a product's fraction to the accumulator's."""
        return self.accumulator.frac - self.inputs[0].fixed.frac - self.weight_format.frac

    def parameters(self) -> dict[str, int]:
        """Sizes and formats."""
        x, y, (blocks, taps, lanes) = self.inputs[0].fixed, self.outputs[0].fixed, self._sizes
        return {
            "TAPS": taps, "BLOCKS": blocks, "LANES": lanes, "X_W": x.width, "X_S": int(x.signed),
            "W_W": self.weight_format.width, "ACC_W": self.accumulator.width, "ACC_F": self.accumulator.frac,
            "P_SHIFT": self._shift, "Y_W": y.width, "Y_F": y.frac, "Y_S": int(y.signed),
            "MODE": int(self.rounding == "nearest_even"),
        }  # fmt: skip

    def memories(self) -> tuple[Memory, ...]:
        """Weights by (block, tap), biases by block, a lane per channel."""
        blocks, taps, lanes = self._sizes
        words = self.weight.reshape(blocks, lanes, taps).transpose(0, 2, 1).reshape(-1, lanes)
        return (
            Memory("W_FILE", words, self.weight_format.width),
            Memory("B_FILE", self.bias.reshape(blocks, lanes), self.accumulator.width),
        )

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Exact sums, one requantisation."""
        blocks, taps, lanes = self._sizes
        x = codes[0].reshape(len(codes[0]), -1, blocks, taps, lanes)
        sums = (x * self.weight.reshape(blocks, lanes, taps).transpose(0, 2, 1)).sum(axis=3)
        sums = (shifted(sums, self._shift) + self.bias.reshape(blocks, lanes)).reshape(len(x), -1, lanes)
        y = self.outputs[0]
        return (requantise(sums, self.accumulator.frac, y.fixed, self.rounding).reshape(-1, y.rows, y.size),)

    def engines(self) -> tuple[Engine, ...]:
        """A tap per cycle."""
        tap = np.arange(self.inputs[0].beats) % self._sizes[1]
        return (Engine({"x": tap >= 0}, {"y": tap == self._sizes[1] - 1}, 4),)
