"""Folds over beats and constants on elements: any counts, parallelism, formats and rounding, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import Template
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.proof.lint import lint
from espalier.verilog.proof.tools import verilator
from espalier.verilog.rtl.write import texts
from espalier.verilog.rules.linear import summed
from espalier.verilog.templates.depthwise import Depthwise
from espalier.verilog.templates.fold import FoldMax, FoldSum, reciprocal
from espalier.verilog.templates.scale_shift import ScaleShift, totalled
from tests.verilog.checks import alone, needs_icarus, on_time, proven, random_codes

FORMATS = st.builds(Fixed, st.integers(1, 9), st.integers(-2, 8), st.booleans())
ROUNDINGS = st.sampled_from(("nearest_even", "floor"))


def checked(made: Template, seed: int, cache: Path) -> None:
    inputs = tuple(random_codes(np.random.default_rng(seed), s, 3) for s in made.inputs)
    proven(made, inputs, cache)
    on_time(made, inputs, cache)


@st.composite
def folds(draw: st.DrawFn) -> Template:
    """A fold of any kind, small."""
    count, groups, par, blocks = (draw(st.integers(1, n)) for n in (5, 3, 3, 3))
    x = Stream(count * groups, par * blocks, draw(FORMATS), par)
    if draw(st.booleans()):
        y = Stream(groups, par * blocks, x.fixed, par)
        return FoldMax(name="fold", node="pool", inputs=(x,), outputs=(y,), count=count)
    y = Stream(groups, par * blocks, draw(FORMATS), par)
    multiplier, shift = reciprocal(count, x) if draw(st.booleans()) else (1, 0)
    return FoldSum(name="fold", node="pool", inputs=(x,), outputs=(y,), count=count, multiplier=multiplier,
                   shift=shift, rounding=draw(ROUNDINGS))  # fmt: skip


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(folds(), st.integers(0, 2**32 - 1))
def test_folds_equal_their_integer_models(tmp_path_factory: pytest.TempPathFactory, made: Template, seed: int) -> None:
    checked(made, seed, tmp_path_factory.mktemp("builds"))


@given(st.integers(2, 200), st.integers(2, 10), st.integers(0, 8), st.data())
def test_a_mean_is_the_rounded_quotient(count: int, width: int, frac: int, data: st.DataObject) -> None:
    x = Stream(count, 1, Fixed(width, frac))
    multiplier, shift = reciprocal(count, x)
    total = data.draw(st.integers(x.fixed.low * count, x.fixed.high * count))
    assert abs(total * multiplier / 2**shift - total / count) < 1 / (2 * count)


@st.composite
def scaled(draw: st.DrawFn) -> ScaleShift:
    """Constants of any kind."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    par, tokens = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    x = Stream(tokens * draw(st.integers(1, 2)), par * draw(st.integers(1, 3)), draw(FORMATS), par, tokens)
    form, added = draw(FORMATS), Fixed(draw(st.integers(1, 9)), draw(st.integers(-2, 8)))
    shape = draw(st.sampled_from(((1, 1), (1, x.size), (x.rows, 1), (x.rows, x.size))))
    scale, shift = (
        np.broadcast_to(rng.integers(f.low, f.high + 1, shape), (x.rows, x.size)).copy() for f in (form, added)
    )
    total, shift = totalled(x, scale, form, shift, added.frac)
    y = Stream(x.rows, x.size, draw(FORMATS), par, tokens)
    return ScaleShift(name="affine", node="bn", inputs=(x,), outputs=(y,), scale=scale, scale_format=form,
                      shift=shift, total=total, rounding=draw(ROUNDINGS))  # fmt: skip


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(scaled(), st.integers(0, 2**32 - 1))
def test_constants_equal_their_integer_model(
    tmp_path_factory: pytest.TempPathFactory, made: ScaleShift, seed: int
) -> None:
    checked(made, seed, tmp_path_factory.mktemp("builds"))


@st.composite
def depthwise(draw: st.DrawFn) -> Depthwise:
    """Taps of channels side by side."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lanes, blocks, taps, places = (draw(st.integers(1, n)) for n in (3, 3, 4, 2))
    form, bias, x = Fixed(draw(st.integers(2, 9)), draw(st.integers(-2, 9))), Fixed(8, 4), draw(FORMATS)
    weight = rng.integers(form.low, form.high + 1, (lanes * blocks, taps))
    accumulator, biases = summed(weight, form, x, (rng.integers(bias.low, bias.high + 1, lanes * blocks), bias))
    rows = Stream(places * blocks, taps * lanes, x, lanes)
    return Depthwise(
        name="conv", node="conv", inputs=(rows,), outputs=(Stream(places, lanes * blocks, draw(FORMATS), lanes),),
        weight=weight, weight_format=form, bias=biases, accumulator=accumulator, rounding=draw(ROUNDINGS),
    )  # fmt: skip


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(depthwise(), st.integers(0, 2**32 - 1))
def test_depthwise_equals_its_integer_model(
    tmp_path_factory: pytest.TempPathFactory, made: Depthwise, seed: int
) -> None:
    checked(made, seed, tmp_path_factory.mktemp("builds"))


@pytest.mark.rtl
@pytest.mark.skipif(verilator() is None, reason="verilator is not installed")
def test_sums_narrower_than_products_raise_no_warning() -> None:
    x, form, ones = Fixed(6, 3), Fixed(6, 4), np.ones((1, 1), np.int64)
    accumulator, biases = summed(ones, form, x, None)
    made = Depthwise(
        name="conv", node="conv", inputs=(Stream(1, 1, x),), outputs=(Stream(1, 1, Fixed(6, 3)),), weight=ones,
        weight_format=form, bias=biases, accumulator=accumulator,
    )  # fmt: skip
    assert accumulator.width < x.width + form.width
    assert not lint(texts(alone(made)), "top").findings
