"""Linear with block exponents of its operand, its weights or both; sums are exact in fixed point."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from espalier.verilog.design.template import Engine, Memory, Template
from espalier.verilog.numbers.fixed import Codes, Fixed, Rounding, requantise
from espalier.verilog.templates.blocks import BlockDivision

DEPTH = 6  # cycles from reading the last operands to the result


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearBlocks(Template):
    """`weight` [outputs, inputs] is multiplied by 2^`exponents` [outputs, blocks], none negative; `bias` is in the
    accumulator's fraction. With a second input, x holds mantissas of blocks of `block`, and x1 their exponents:
    `base` is the exponent of the step of `source`, the fixed-point format that they were computed from.
    """

    weight: Codes
    weight_format: Fixed
    exponents: Codes
    weight_block: int
    bias: Codes
    accumulator: Fixed
    rounding: Rounding = "nearest_even"
    block: int = 0
    base: int = 0
    source: Fixed = field(default=Fixed(8, 0))

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "linear_blocks" if self._mantissas else "linear_block_weights"

    def uses(self) -> tuple[str, ...]:
        """Submodules."""
        inner = () if self._mantissas else ("linear_blocks",)
        return (*inner, "requant", "row_walk")

    @property
    def _mantissas(self) -> bool:
        return len(self.inputs) > 1

    @property
    def _drop(self) -> int:
        """Fraction bits of a mantissa."""
        return self.inputs[0].fixed.frac if self._mantissas else 0

    @property
    def _shift(self) -> int:
        """Places from a product's fraction to the accumulator's."""
        frac = self.source.frac if self._mantissas else self.inputs[0].fixed.frac
        return self.accumulator.frac - frac - self.weight_format.frac

    @property
    def cuts(self) -> tuple[BlockDivision, BlockDivision]:
        """Division of the rows of x and of the weights into blocks."""
        x = self.inputs[0]
        return BlockDivision(x.size, x.par, self.block or x.size), BlockDivision(x.size, x.par, self.weight_block)

    def parameters(self) -> dict[str, int]:
        """Sizes, parallelism, blocks, formats."""
        x, y = self.inputs[0], self.outputs[0]
        of_x, of_w = self.cuts
        values = {
            "IN_SIZE": x.size, "OUT_SIZE": y.size, "PAR_IN": x.par, "PAR_OUT": y.par, "X_W": x.fixed.width,
            "X_S": int(x.fixed.signed), "W_W": self.weight_format.width, "W_STEPS": of_w.steps,
            "W_MOST": int(self.exponents.max()), "ACC_W": self.accumulator.width, "ACC_F": self.accumulator.frac,
            "P_SHIFT": self._shift, "Y_W": y.fixed.width, "Y_F": y.fixed.frac, "Y_S": int(y.fixed.signed),
            "MODE": int(self.rounding == "nearest_even"),
        }  # fmt: skip
        if self._mantissas:
            values |= {"X_STEPS": of_x.steps, "X_MOST": self.source.width - 1, "BASE": self.base, "DROP": self._drop}
        return values

    def memories(self) -> tuple[Memory, ...]:
        """Weights by (out block, in block), exponents by (out block, block of weights), biases by out block."""
        x, y = self.inputs[0], self.outputs[0]
        blocks = self.weight.reshape(y.size // y.par, y.par, x.size // x.par, x.par).transpose(0, 2, 1, 3)
        by_output = self.exponents.reshape(y.size // y.par, y.par, -1).transpose(0, 2, 1)
        return (
            Memory("W_FILE", blocks.reshape(-1, y.par * x.par), self.weight_format.width),
            Memory("E_FILE", by_output.reshape(-1, y.par), int(self.exponents.max() + 1).bit_length()),
            Memory("B_FILE", self.bias.reshape(-1, y.par), self.accumulator.width),
        )

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Products beat by beat, shifted by both exponents; exact sums, one requantisation."""
        x, y = self.inputs[0], self.outputs[0]
        (of_x, of_w), beats = self.cuts, x.size // x.par
        rows = codes[0].reshape(-1, beats, x.par)
        parts = np.einsum("nbp,obp->nob", rows, self.weight.reshape(y.size, beats, x.par))
        weight_shifts = of_w.spread(self.exponents)[:, :: x.par] + self._shift
        if self._mantissas:
            input_shifts = of_x.spread(codes[1].reshape(len(rows), -1))[:, :: x.par] - self.base
            parts = (parts << (weight_shifts + input_shifts[:, None])) >> self._drop
        else:
            parts = parts << weight_shifts
        sums = (parts.sum(-1) + self.bias).reshape(-1, y.rows, y.size)
        return (requantise(sums, self.accumulator.frac, y.fixed, self.rounding),)

    def engines(self) -> tuple[Engine, ...]:
        """(in blocks · out blocks) steps per row; the inputs are read with the first out block."""
        x, y = self.inputs[0], self.outputs[0]
        inner, outer = x.size // x.par, y.size // y.par
        steps = np.arange(inner * outer)
        takes = {"x": np.tile(steps < inner, x.rows)}
        if self._mantissas:
            takes["x1"] = np.tile((steps < inner) & (steps % self.cuts[0].steps == 0), x.rows)
        return (Engine(takes, {"y": np.tile(steps % inner == inner - 1, x.rows)}, DEPTH),)
