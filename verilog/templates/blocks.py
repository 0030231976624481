"""Blocks of a row as OCP MX has them: an exponent for each, then the elements under it.

Exponents travel as a stream of their own (E8M0, one a block); a FIFO keeps the elements that wait for theirs.
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
class Cut:
    """Rows of `size` elements, `par` a beat, cut into blocks of `block`; the last one may be short."""

    size: int
    par: int
    block: int

    @property
    def steps(self) -> int:
        """Beats of a block."""
        return min(self.block, self.size) // self.par

    @property
    def beats(self) -> int:
        """Beats of a row."""
        return self.size // self.par

    @property
    def blocks(self) -> int:
        """Blocks of a row."""
        return -(-self.size // self.block)

    def starts(self, rows: int) -> np.ndarray:
        """[rows · beats]: which beats begin a block."""
        return np.tile(np.arange(self.beats) % self.steps == 0, rows)

    def ends(self, rows: int) -> np.ndarray:
        """[rows · beats]: which beats end one."""
        return np.roll(self.starts(rows), -1)

    def spread(self, each: Codes) -> Codes:
        """A number for each block […, blocks] → for each element […, size]."""
        return np.repeat(each, min(self.block, self.size), axis=-1)[..., : self.size]


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockExponent(Template):
    """floor(log2 max|x|) + 127 of each block; one of zeros gives the exponent of the step of x."""

    block: int

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "block_exponent"

    @property
    def cut(self) -> Cut:
        """How rows are cut."""
        return Cut(self.inputs[0].size, self.inputs[0].par, self.block)

    def parameters(self) -> dict[str, int]:
        """Sizes and format."""
        x = self.inputs[0]
        return {"PAR": x.par, "X_W": x.fixed.width, "X_S": int(x.fixed.signed), "STEPS": self.cut.steps,
                "BEATS": self.cut.beats, "BASE": base(x)}  # fmt: skip

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """The place of the highest bit in each block."""
        cut, sizes = self.cut, np.abs(codes[0])
        firsts = np.arange(cut.blocks) * cut.block
        most = np.maximum.reduceat(sizes, firsts, axis=-1)
        place = np.full_like(most, base(self.inputs[0]))
        for k in range(1, self.inputs[0].fixed.width + 1):
            place += (most >> k) > 0
        return (place,)

    def engines(self) -> tuple[Engine, ...]:
        """A beat a cycle."""
        ends = self.cut.ends(self.inputs[0].rows)
        return (Engine({"x": np.ones(len(ends), bool)}, {"y": ends}, 2),)


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockMantissa(Template):
    """Elements (x) under the exponents of their blocks (x1): rounded, ties to even, the smallest code left out."""

    block: int

    @property
    def module(self) -> str:
        """The SystemVerilog module."""
        return "block_mantissa"

    @property
    def cut(self) -> Cut:
        """How rows are cut."""
        return Cut(self.inputs[0].size, self.inputs[0].par, self.block)

    def parameters(self) -> dict[str, int]:
        """Sizes and formats."""
        x = self.inputs[0]
        return {"PAR": x.par, "X_W": x.fixed.width, "X_S": int(x.fixed.signed), "STEPS": self.cut.steps,
                "BEATS": self.cut.beats, "BASE": base(x), "Y_W": self.outputs[0].fixed.width}  # fmt: skip

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Shifted to the place of the block, rounded, clipped."""
        return (self.elements(codes, self.outputs[0].fixed.width),)

    def elements(self, codes: tuple[Codes, ...], width: int) -> Codes:
        """Those of `width` bits."""
        places = width - 2
        drop = self.cut.spread(codes[1]) - base(self.inputs[0]) - places
        down, up = np.maximum(drop, 0), np.maximum(-drop, 0)
        whole = (codes[0] << up) >> down
        rest = codes[0] & ((np.int64(1) << down) - 1)
        twice, full = 2 * rest, np.int64(1) << down
        more = (down > 0) & ((twice > full) | ((twice == full) & (whole & 1 == 1)))
        top = (1 << (places + 1)) - 1
        return np.clip(whole + more, -top, top)

    def engines(self) -> tuple[Engine, ...]:
        """A beat a cycle; the first of a block waits for its exponent."""
        starts = self.cut.starts(self.inputs[0].rows)
        every = np.ones(len(starts), bool)
        return (Engine({"x": every, "x1": starts}, {"y": every}, 2),)


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockRound(BlockMantissa):
    """What elements of `width` bits stand for, in the fixed point in which x came: for whatever mixes the blocks."""

    width: int

    def parameters(self) -> dict[str, int]:
        """Sizes and formats."""
        return {**BlockMantissa.parameters(self), "Y_W": self.width, "BACK": 1,
                "O_W": self.outputs[0].fixed.width}  # fmt: skip

    def reference(self, *codes: Codes) -> tuple[Codes, ...]:
        """Elements put back in the place of their block."""
        places = self.width - 2
        drop = self.cut.spread(codes[1]) - base(self.inputs[0])
        return ((self.elements(codes, self.width) << drop) >> places,)


def back_in(source: Fixed) -> Fixed:
    """The fixed point of what blocks of `source` stand for: beside the least code of all, the largest rounds up."""
    return Fixed(source.width + source.signed, source.frac, source.signed)


def base(x: Stream) -> int:
    """The exponent of the step of a fixed-point stream."""
    return BIAS - x.fixed.frac
