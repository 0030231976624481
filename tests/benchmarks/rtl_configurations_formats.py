"""Configurations of what computes with signs and with numbers in blocks, for the grid of areas."""

from __future__ import annotations

import numpy as np

from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import Template
from espalier.verilog.lowering.sums import summed
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.numbers.scaled import Signs
from espalier.verilog.rules.blocks import scaled_weights
from espalier.verilog.templates.blocks import EXPONENT, BlockDivision, BlockExponent, BlockMantissa, base
from espalier.verilog.templates.linear_blocks import LinearBlocks
from espalier.verilog.templates.linear_signs import LinearSigns
from espalier.verilog.templates.threshold import Threshold

Random = np.random.Generator
SIGN = Signs(1, -1, False)


def _one(rng: Random, *values: int) -> int:
    return int(rng.choice(values))


def _form(rng: Random, *widths: int) -> Fixed:
    width = _one(rng, *widths)
    return Fixed(width, width // 2)


def signs(rng: Random) -> Template:
    """Weights with zeros and without, of numbers and of signs."""
    par_in, par_out, tokens = _one(rng, 2, 4, 8, 16), _one(rng, 1, 2, 4), _one(rng, 1, 1, 2)
    size_in, size_out = par_in * _one(rng, 4, 8, 16), par_out * _one(rng, 2, 4, 8)
    x = _form(rng, 4, 8, 8, 12) if _one(rng, 0, 1, 1) else SIGN
    weight = rng.choice([-1, 0, 1] if _one(rng, 0, 1) else [-1, 1], (size_out, size_in))
    bias = rng.integers(-90, 90, size_out), Fixed(8, max(x.frac, 0))
    accumulator, biases = summed(weight, Fixed(2, 0), x, bias)
    y = _form(rng, 6, 8, 12)
    return LinearSigns(
        name="i", node="i", inputs=(Stream(tokens * 4, size_in, x, par_in, tokens),), weight=weight,
        outputs=(Stream(tokens * 4, size_out, y, par_out, tokens),), weight_format=Fixed(2, 0), bias=biases,
        accumulator=accumulator,
    )  # fmt: skip


def threshold(rng: Random) -> Template:
    """Signs, and zero or more."""
    x, lanes = _form(rng, 8, 12, 20, 32), _one(rng, 1, 2, 4, 8)
    ins, outs = Stream(1, 32, x, lanes), Stream(1, 32, SIGN, lanes)
    return Threshold(name="i", node="i", inputs=(ins,), outputs=(outs,), least=_one(rng, 0, 1))


def blocks(rng: Random, mantissas: bool) -> Template:
    """Exponents of blocks, and their elements."""
    par, f, width = _one(rng, 1, 2, 4, 8), _form(rng, 8, 12, 16, 24), _one(rng, 4, 6, 8)
    x, block = Stream(4, 64, f, par), _one(rng, 8, 16, 32)
    exponents = Stream(4, BlockDivision(64, par, block).blocks, EXPONENT)
    if not mantissas:
        return BlockExponent(name="i", node="i", inputs=(x,), outputs=(exponents,), block=block)
    out = Stream(4, 64, Fixed(width, width - 2), par)
    return BlockMantissa(name="i", node="i", inputs=(x, exponents), outputs=(out,), block=block)


def linear_blocks(rng: Random, both: bool) -> Template:
    """Exponents of the weights, and of the operand too."""
    par, par_out, block = _one(rng, 1, 2, 4, 8), _one(rng, 1, 2, 4), _one(rng, 8, 16, 32)
    size, outputs, rows = 64, par_out * _one(rng, 2, 4, 8), 4
    source, form, y = _form(rng, 8, 8, 12, 16), _form(rng, 4, 6, 8, 8), _form(rng, 8, 12)
    weight = rng.integers(1 - (1 << (form.width - 1)), 1 << (form.width - 1), (outputs, size))
    exponents = rng.integers(0, _one(rng, 3, 6), (outputs, -(-size // block)))
    wide = Fixed(source.width + 1, source.frac)
    bias = rng.integers(-90, 90, outputs), Fixed(8, source.frac + form.frac)
    accumulator, biases = summed(scaled_weights(weight, exponents, block), form, wide, bias)
    width = _one(rng, 4, 6, 8)
    x = Stream(rows, size, Fixed(width, width - 2) if both else source, par)
    ins = (x, Stream(rows, BlockDivision(size, par, block).blocks, EXPONENT)) if both else (x,)
    return LinearBlocks(
        name="i", node="i", inputs=ins, outputs=(Stream(rows, outputs, y, par_out),), weight=weight, bias=biases,
        weight_format=form, exponents=exponents, weight_block=block, accumulator=accumulator,
        block=block if both else 0, base=base(Stream(rows, size, source, par)), source=source,
    )  # fmt: skip
