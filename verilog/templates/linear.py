"""Linear: y = x·Wᵀ + b, folded over inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.template import Engine, Memory, Template
from espalier.verilog.numbers.fixed import Codes, Fixed, Rounding, product, requantise, shifted

DEPTH = 5  # cycles from reading the last operands to the result


@dataclass(frozen=True, kw_only=True, eq=False)
class Linear(Template):
    """`weight` [outputs, inputs] and `bias` [outputs] are codes; the bias is in the accumulator's fraction.

    With several groups, successive rows use the weights of successive groups, of groups · y.size rows in total.
    """

    weight: Codes
    weight_format: Fixed
    bias: Codes
    accumulator: Fixed
    rounding: Rounding = "nearest_even"
    groups: int = 1

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "linear"

    def uses(self) -> tuple[str, ...]:
        """Submodules."""
        return ("requant", "row_operands", "row_walk")

    @property
    def _shift(self) -> int:
        """Places from a product's fraction to the accumulator's."""
        return self.accumulator.frac - self.inputs[0].fixed.frac - self.weight_format.frac

    def parameters(self) -> dict[str, int]:
        """Sizes, parallelism, formats."""
        x, y = self.inputs[0], self.outputs[0]
        return {
            "IN_SIZE": x.size, "OUT_SIZE": y.size, "PAR_IN": x.par, "PAR_OUT": y.par, "TOKENS": x.tokens,
            "GROUPS": self.groups,
            "X_W": x.fixed.width, "X_S": int(x.fixed.signed), "W_W": self.weight_format.width,
            "B_W": self.accumulator.width, "ACC_W": self.accumulator.width, "ACC_F": self.accumulator.frac,
            "P_SHIFT": self._shift, "Y_W": y.fixed.width, "Y_F": y.fixed.frac, "Y_S": int(y.fixed.signed),
            "MODE": int(self.rounding == "nearest_even"),
        }  # fmt: skip

    def memories(self) -> tuple[Memory, ...]:
        """Weights by (group, out block, in block), each word [out lane, in lane]; biases by group and out block."""
        x, y = self.inputs[0], self.outputs[0]
        blocks = self.weight.reshape(self.groups * y.size // y.par, y.par, x.size // x.par, x.par).transpose(0, 2, 1, 3)
        words = blocks.reshape(-1, y.par * x.par)
        return (
            Memory("W_FILE", words, self.weight_format.width),
            Memory("B_FILE", self.bias.reshape(-1, y.par), self.accumulator.width),
        )

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Exact sums, one requantisation."""
        x, y, width = self.inputs[0], self.outputs[0], self.accumulator.width
        rows, weights = codes[0].reshape(-1, self.groups, x.size), self.weight.reshape(self.groups, y.size, x.size)
        parts = [product(rows[:, g], weights[g].T, width, self.node) for g in range(self.groups)]
        sums = shifted(np.stack(parts, axis=1), self._shift) + self.bias.reshape(self.groups, y.size)
        sums = sums.reshape(-1, y.rows, y.size)
        return (requantise(sums, self.accumulator.frac, self.outputs[0].fixed, self.rounding),)

    def engines(self) -> tuple[Engine, ...]:
        """(in blocks · out blocks) steps per block of rows; the input is read with the first out block."""
        x, y = self.inputs[0], self.outputs[0]
        inner, outer, blocks = x.size // x.par, y.size // y.par, x.rows // x.tokens
        takes = np.tile(np.arange(inner * outer) < inner, blocks)
        gives = np.tile(np.arange(inner * outer) % inner == inner - 1, blocks)
        return (Engine({"x": takes}, {"y": gives}, DEPTH),)
