"""Matrix product of two streams: x · x1, with x1 buffered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from espalier.model.errors import EmitError
from espalier.verilog.design.address_loops import AddressLoops, as_loops
from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes, Fixed, Rounding, product, requantise


@dataclass(frozen=True, kw_only=True, eq=False)
class MatMul(Template):
    """`batch` matrices [depth, columns] per frame; row block r of x uses matrix (r // repeat) % batch.

    `spots` [positions of x1]: index into the flattened [batch, depth, columns]; a beat of x1 is along the axis `along`.
    The sums are multiplied by `multiplier`, with `scale_frac` fraction bits.
    """

    batch: int
    repeat: int
    columns: int
    spots: np.ndarray
    along: Literal["depth", "columns"]
    accumulator: Fixed
    multiplier: int = 1
    scale_frac: int = 0
    rounding: Rounding = "nearest_even"

    @property
    def approximates(self) -> bool:
        """A rounded scale."""
        return self.multiplier != 1

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "matmul"

    def uses(self) -> tuple[str, ...]:
        """Submodules."""
        return "operand_banks", "requant", "walk"

    @property
    def scaled(self) -> Fixed:
        """Format of the sums after the multiplier."""
        extra_bits = self.multiplier.bit_length() if self.multiplier != 1 else 0
        return Fixed(self.accumulator.width + extra_bits, self.accumulator.frac + self.scale_frac)

    @property
    def _blocks(self) -> int:
        return self.inputs[0].rows // self.inputs[0].tokens

    def parameters(self) -> dict[str, int]:
        """Sizes, parallelism, formats, and the loops of the write address."""
        x, b, y = self.inputs[0], self.inputs[1], self.outputs[0]
        words, lanes = self._writes()
        return {
            "K_SIZE": x.size, "N_SIZE": self.columns, "BATCH": self.batch, "REPEAT": self.repeat,
            "BLOCKS": self._blocks, "PAR_IN": x.par, "PAR_OUT": y.par, "TOKENS": x.tokens,
            "X_W": x.fixed.width, "X_S": int(x.fixed.signed), "B_W": b.fixed.width, "B_S": int(b.fixed.signed),
            "ACROSS": int(self.along == "columns"), "ACC_W": self.accumulator.width, "MUL": self.multiplier,
            "Q_W": self.scaled.width, "Q_F": self.scaled.frac, "Y_W": y.fixed.width, "Y_F": y.fixed.frac,
            "Y_S": int(y.fixed.signed), "MODE": int(self.rounding == "nearest_even"),
            **words.parameters("W"), **lanes.parameters("L"),
        }  # fmt: skip

    def _writes(self) -> tuple[AddressLoops, AddressLoops]:
        """Word address and lane of each beat of x1; raises EmitError if nested loops cannot give them."""
        x, b, y = self.inputs[0], self.inputs[1], self.outputs[0]
        first = self.spots[:: b.par]
        matrix, position = np.divmod(first, x.size * self.columns)
        row, column = np.divmod(position, self.columns)
        deep, wide = x.size // x.par, self.columns // y.par
        words = as_loops((matrix * wide + column // y.par) * deep + row // x.par)
        lanes = as_loops(column % y.par if self.along == "depth" else row % x.par)
        if words is None or lanes is None:
            text = f"The second operand of {self.node} is in an order that six nested loops cannot address."
            raise EmitError(text, "Use transposes and views only.", self.node)
        return words, lanes

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Exact sums, one requantisation."""
        x, y = self.inputs[0], self.outputs[0]
        buffer = np.empty((len(codes[1]), self.batch * x.size * self.columns), np.int64)
        buffer[:, self.spots] = codes[1].reshape(len(codes[1]), -1)
        matrices = buffer.reshape(-1, self.batch, x.size, self.columns)
        which = np.repeat(np.arange(self._blocks) // self.repeat % self.batch, x.tokens)
        sums = np.empty((len(codes[0]), x.rows, self.columns), np.int64)
        for k in range(self.batch):
            sums[:, which == k] = product(codes[0][:, which == k], matrices[:, k], self.accumulator.width, self.node)
        return (requantise(sums * self.multiplier, self.scaled.frac, y.fixed, self.rounding),)

    def engines(self) -> tuple[Engine, ...]:
        """x1 is written into one of two banks; the rows of x need a full bank."""
        x, b, y = self.inputs[0], self.inputs[1], self.outputs[0]
        inner, outer = x.size // x.par, self.columns // y.par
        fill, steps = np.arange(b.beats), np.arange(inner * outer * self._blocks)
        inside = steps % (inner * outer)
        return (
            Engine({"x1": fill >= 0, "free": fill == 0}, {"full": fill == len(fill) - 1}, 1),
            Engine(
                {"x": inside < inner, "full": steps == 0},
                {"y": inside % inner == inner - 1, "free": steps == len(steps) - 1},
                5 if self.multiplier == 1 else 6,
            ),
        )

    def buffers(self) -> dict[str, int]:
        """Both banks."""
        return {"full": 2, "free": 2}

    def primed(self) -> dict[str, int]:
        """Both are initially free."""
        return {"free": 2}
