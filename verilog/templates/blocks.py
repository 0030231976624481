"""Block formats as in OCP MX: the shared exponent of each block, and its elements.

Exponents are a separate stream (E8M0, one per block); a FIFO buffers the elements until their exponent is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import Engine, Template
from espalier.verilog.numbers.fixed import Codes, Fixed

EXPONENT = Fixed(8, 0, False)
BIAS = 127  # of E8M0


@dataclass(frozen=True, slots=True)
class BlockDivision:
    """Division of rows of `size` elements, `par` per beat, into blocks of `block`; the last one may be shorter."""

    size: int
    par: int
    block: int

    @property
    def steps(self) -> int:
        """Beats per block."""
        return min(self.block, self.size) // self.par

    @property
    def beats(self) -> int:
        """Beats per row."""
        return self.size // self.par

    @property
    def blocks(self) -> int:
        """Blocks per row."""
        return -(-self.size // self.block)

    def starts(self, rows: int) -> np.ndarray:
        """[rows · beats]: the first beats of blocks."""
        return np.tile(np.arange(self.beats) % self.steps == 0, rows)

    def ends(self, rows: int) -> np.ndarray:
        """[rows · beats]: the last beats of blocks."""
        return np.roll(self.starts(rows), -1)

    def spread(self, per_block: Codes) -> Codes:
        """Values per block […, blocks] → per element […, size]."""
        return np.repeat(per_block, min(self.block, self.size), axis=-1)[..., : self.size]


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockExponent(Template):
    """floor(log2 max|x|) + 127 of each block; the exponent of x's step for a block of zeros."""

    block: int

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "block_exponent"

    @property
    def cut(self) -> BlockDivision:
        """Division of the rows into blocks."""
        return BlockDivision(self.inputs[0].size, self.inputs[0].par, self.block)

    def parameters(self) -> dict[str, int]:
        """Sizes and format."""
        x = self.inputs[0]
        return {"PAR": x.par, "X_W": x.fixed.width, "X_S": int(x.fixed.signed), "STEPS": self.cut.steps,
                "BEATS": self.cut.beats, "BASE": base(x)}  # fmt: skip

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Position of the highest set bit in each block."""
        cut, sizes = self.cut, np.abs(codes[0])
        firsts = np.arange(cut.blocks) * cut.block
        largest = np.maximum.reduceat(sizes, firsts, axis=-1)
        exponents = np.full_like(largest, base(self.inputs[0]))
        for k in range(1, self.inputs[0].fixed.width + 1):
            exponents += (largest >> k) > 0
        return (exponents,)

    def engines(self) -> tuple[Engine, ...]:
        """A beat per cycle."""
        ends = self.cut.ends(self.inputs[0].rows)
        return (Engine({"x": np.ones(len(ends), bool)}, {"y": ends}, 2),)


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockMantissa(Template):
    """Elements (x) scaled by the exponents of their blocks (x1): rounded, ties to even, clipped symmetrically."""

    block: int

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "block_mantissa"

    @property
    def cut(self) -> BlockDivision:
        """Division of the rows into blocks."""
        return BlockDivision(self.inputs[0].size, self.inputs[0].par, self.block)

    def parameters(self) -> dict[str, int]:
        """Sizes and formats."""
        x = self.inputs[0]
        return {"PAR": x.par, "X_W": x.fixed.width, "X_S": int(x.fixed.signed), "STEPS": self.cut.steps,
                "BEATS": self.cut.beats, "BASE": base(x), "Y_W": self.outputs[0].fixed.width}  # fmt: skip

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Shift by the block's exponent, round, clip."""
        return (self.elements(codes, self.outputs[0].fixed.width),)

    def elements(self, codes: tuple[Codes, ...], width: int) -> Codes:
        """Elements of `width` bits."""
        fraction = width - 2
        drop = self.cut.spread(codes[1]) - base(self.inputs[0]) - fraction
        down, up = np.maximum(drop, 0), np.maximum(-drop, 0)
        truncated = (codes[0] << up) >> down
        remainder = codes[0] & ((np.int64(1) << down) - 1)
        twice, full = 2 * remainder, np.int64(1) << down
        rounds_up = (down > 0) & ((twice > full) | ((twice == full) & (truncated & 1 == 1)))
        top = (1 << (fraction + 1)) - 1
        return np.clip(truncated + rounds_up, -top, top)

    def engines(self) -> tuple[Engine, ...]:
        """A beat per cycle; the first of a block needs its exponent."""
        starts = self.cut.starts(self.inputs[0].rows)
        always = np.ones(len(starts), bool)
        return (Engine({"x": always, "x1": starts}, {"y": always}, 2),)


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockRound(BlockMantissa):
    """Elements of `width` bits converted back to fixed point, for operations that mix blocks."""

    width: int

    def parameters(self) -> dict[str, int]:
        """Sizes and formats."""
        return {**BlockMantissa.parameters(self), "Y_W": self.width, "BACK": 1,
                "O_W": self.outputs[0].fixed.width}  # fmt: skip

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Elements shifted back by the exponent of their block."""
        fraction = self.width - 2
        drop = self.cut.spread(codes[1]) - base(self.inputs[0])
        return ((self.elements(codes, self.width) << drop) >> fraction,)


def back_in(source: Fixed) -> Fixed:
    """The fixed-point format of the values of blocks of `source`, whose largest values may round up."""
    return Fixed(source.width + source.signed, source.frac, source.signed)


def base(x: Stream) -> int:
    """Biased exponent of the step of a fixed-point stream."""
    return BIAS - x.fixed.frac
