"""Numbers in blocks: exponents, mantissas and the layers that take them, bit for bit; equal to the format itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.model.formats.mxint import MXInt
from espalier.verilog.design.stream import Stream
from espalier.verilog.lowering.sums import summed
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.rules.blocks import scaled_weights
from espalier.verilog.templates.blocks import (
    EXPONENT,
    BlockDivision,
    BlockExponent,
    BlockMantissa,
    BlockRound,
    back_in,
    base,
)
from espalier.verilog.templates.linear_blocks import LinearBlocks
from tests.verilog.checks import needs_icarus, on_time, proven, random_codes

Made = tuple[BlockExponent, BlockMantissa, np.random.Generator]


def maker(x: Stream, block: int, width: int) -> tuple[BlockExponent, BlockMantissa]:
    """What turns a fixed-point stream into blocks."""
    exponents = Stream(x.rows, BlockDivision(x.size, x.par, block).blocks, EXPONENT)
    out = Stream(x.rows, x.size, Fixed(width, width - 2), x.par)
    first = BlockExponent(name="e", node="e", inputs=(x,), outputs=(exponents,), block=block)
    return first, BlockMantissa(name="m", node="m", inputs=(x, exponents), outputs=(out,), block=block)


def put_back(second: BlockMantissa) -> BlockRound:
    """The same elements in the fixed point in which they came."""
    width, x = second.outputs[0].fixed.width, second.inputs[0]
    out = replace(x, fixed=back_in(x.fixed))
    return BlockRound(name="r", node="r", inputs=second.inputs, outputs=(out,), block=second.block, width=width)


@st.composite
def makers(draw: st.DrawFn) -> Made:
    """Blocks of one beat or several, the last one short at times."""
    par, steps = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    form = Fixed(draw(st.integers(1, 12)), draw(st.integers(-2, 9)), draw(st.booleans()))
    x = Stream(draw(st.integers(1, 3)), par * draw(st.integers(1, 9)), form, par)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return *maker(x, par * steps, draw(st.integers(2, 10))), rng


def small(rng: np.random.Generator, x: Stream, frames: int) -> np.ndarray:
    """Codes of all magnitudes, so that blocks differ in their exponents."""
    codes = random_codes(rng, x, frames)
    return codes >> rng.integers(0, x.fixed.width, (*codes.shape[:-1], 1))


def x_width(made: BlockExponent) -> int:
    """Bits of what comes."""
    return made.inputs[0].fixed.width


@pytest.mark.slow
@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(makers())
def test_blocks_equal_their_integer_model(tmp_path_factory: pytest.TempPathFactory, case: Made) -> None:
    first, second, rng = case
    cache = tmp_path_factory.mktemp("builds")
    x = small(rng, first.inputs[0], 3)
    proven(first, (x,), cache)
    on_time(first, (x,), cache)
    proven(second, (x, *first.reference(x)), cache)
    on_time(second, (x, *first.reference(x)), cache)
    if second.outputs[0].fixed.width <= x_width(first):
        proven(put_back(second), (x, *first.reference(x)), cache)


@settings(max_examples=60)
@given(makers())
def test_blocks_equal_the_format(case: Made) -> None:
    first, second, rng = case
    x = small(rng, first.inputs[0], 8)
    (exponents,) = first.reference(x)
    (codes,) = second.reference(x, exponents)
    form = MXInt(second.outputs[0].fixed.width, first.block)
    held = form.encode(first.inputs[0].fixed.values(x))
    np.testing.assert_array_equal(codes, held.codes)
    if second.outputs[0].fixed.width <= x_width(first):
        (back,) = put_back(second).reference(x, exponents)
        np.testing.assert_array_equal(first.inputs[0].fixed.values(back), form.decode(held))
    zeros = np.maximum.reduceat(np.abs(x), np.arange(first.cut.blocks) * first.block, axis=-1) == 0
    np.testing.assert_array_equal(np.where(zeros, 0, exponents), np.where(zeros, 0, held.shared[0].values))


@st.composite
def layers(draw: st.DrawFn) -> tuple[LinearBlocks, tuple[np.ndarray, ...]]:
    """Exponents of x, of the weights, or of both."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    par, par_out = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    size, outputs = par * draw(st.integers(1, 6)), par_out * draw(st.integers(1, 3))
    fixed = Fixed(draw(st.integers(2, 8)), draw(st.integers(-1, 6)), draw(st.booleans()))
    source = Stream(draw(st.integers(1, 2)), size, fixed, par)
    block, mantissas = par * draw(st.integers(1, 4)), draw(st.booleans())
    form = Fixed(draw(st.integers(2, 8)), draw(st.integers(0, 6)))
    weight = rng.integers(form.low, form.high + 1, (outputs, size))
    of_w = par * draw(st.integers(1, 4)) if draw(st.booleans()) or not mantissas else size
    exponents = rng.integers(0, 6 if of_w < size else 1, (outputs, -(-size // of_w)))
    first, second = maker(source, block, draw(st.integers(2, 8)))
    x = small(rng, source, 3)
    given_ = (x,) if not mantissas else second.reference(x, *first.reference(x)) + first.reference(x)
    streams = (source,) if not mantissas else (second.outputs[0], first.outputs[0])
    wide = Fixed(fixed.width + fixed.signed, fixed.frac, fixed.signed)
    bias = rng.integers(-99, 99, outputs), Fixed(8, draw(st.integers(0, 12)))
    accumulator, biases = summed(scaled_weights(weight, exponents, of_w), form, wide, bias)
    out = Fixed(draw(st.integers(1, 12)), draw(st.integers(-4, 8)), draw(st.booleans()))
    return LinearBlocks(
        name="fc", node="fc", inputs=streams, outputs=(Stream(source.rows, outputs, out, par_out),), weight=weight,
        weight_format=form, exponents=exponents, weight_block=of_w, bias=biases, accumulator=accumulator,
        block=block if mantissas else 0, base=base(source), source=fixed,
    ), given_  # fmt: skip


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(layers())
def test_a_layer_of_blocks_equals_its_integer_model(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[LinearBlocks, tuple[np.ndarray, ...]]
) -> None:
    made, inputs = case
    cache = tmp_path_factory.mktemp("builds")
    proven(made, inputs, cache)
    on_time(made, inputs, cache)
