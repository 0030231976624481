"""Layers of weights −1, 0, +1, thresholds, and scales that are no powers of two: bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import Template
from espalier.verilog.lowering.conversion import conversion
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.numbers.scaled import Scaled, Signs
from espalier.verilog.rules.linear import summed
from espalier.verilog.templates.linear_signs import LinearSigns
from tests.verilog.checks import needs_icarus, on_time, proven, random_codes

Case = tuple[Template, np.random.Generator]


@st.composite
def layers(draw: st.DrawFn) -> Case:
    """With zeros among the weights or without, of numbers or signs, of one group or several."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    par_in, par_out, tokens = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    groups = draw(st.integers(1, 3)) if tokens == 1 else 1
    size_in, size_out = par_in * draw(st.integers(1, 4)), par_out * draw(st.integers(1, 3))
    signs = Signs(1, -1, False), Signs(1, 0, False, 1.0, False)
    x = draw(st.one_of(st.sampled_from(signs), st.builds(Fixed, st.integers(1, 9), st.integers(-2, 8), st.booleans())))
    weight = rng.choice([-1, 0, 1] if draw(st.booleans()) else [-1, 1], (groups * size_out, size_in))
    form = Fixed(2, 0)
    bias = rng.integers(-20, 20, len(weight)), Fixed(8, draw(st.integers(-2, 6)))
    accumulator, biases = summed(weight, form, x, bias)
    out = Fixed(draw(st.integers(1, 12)), draw(st.integers(-4, 8)), draw(st.booleans()))
    rows = groups * tokens * draw(st.integers(1, 2))
    made = LinearSigns(
        name="fc", node="fc", inputs=(Stream(rows, size_in, x, par_in, tokens),), weight=weight, weight_format=form,
        outputs=(Stream(rows, size_out, out, par_out, tokens),), bias=biases, accumulator=accumulator, groups=groups,
        rounding=draw(st.sampled_from(("nearest_even", "floor"))),
    )  # fmt: skip
    return made, rng


@st.composite
def conversions(draw: st.DrawFn) -> Case:
    """From any format to any other."""
    scale = st.floats(0.003, 3.0)
    fixed = st.builds(Fixed, st.integers(2, 12), st.integers(-2, 8), st.booleans())
    scaled = st.one_of(
        st.builds(Scaled, st.integers(2, 9), st.just(0), st.just(True), scale),
        st.builds(Scaled, st.integers(4, 9), st.just(0), st.just(False), scale, st.integers(0, 15)),
    )
    signs = st.one_of(
        st.builds(Signs, st.just(1), st.just(-1), st.just(False), scale),
        st.just(Signs(1, 0, False, 1.0, False)),
    )
    special = st.one_of(scaled, signs)
    forms = draw(st.one_of(st.tuples(fixed, special), st.tuples(special, fixed), st.tuples(special, special)))
    x = Stream(draw(st.integers(1, 3)), 2 * draw(st.integers(1, 4)), forms[0], draw(st.integers(1, 2)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return conversion("c", "c", x, forms[1], "nearest_even", ()), rng


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(layers())
def test_a_layer_of_signs_equals_its_integer_model(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    made, rng = case
    cache = tmp_path_factory.mktemp("builds")
    inputs = (random_codes(rng, made.inputs[0], 3),)
    proven(made, inputs, cache)
    on_time(made, inputs, cache)


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(conversions())
def test_a_conversion_equals_its_integer_model(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    made, rng = case
    proven(made, (random_codes(rng, made.inputs[0], 3),), tmp_path_factory.mktemp("builds"))


@settings(max_examples=60)
@given(conversions())
def test_a_conversion_is_near_the_format_itself(case: Case) -> None:
    made, rng = case
    x, y = made.inputs[0], made.outputs[0].fixed
    codes = random_codes(rng, x, 8)
    (got,) = made.reference(codes)
    assert y.holds(got)
    want = y.encode(x.fixed.values(codes))
    if isinstance(y, Signs) or isinstance(x.fixed, Signs):
        np.testing.assert_array_equal(got, want)
    else:
        assert np.abs(got - want).max() <= 1  # a tie, or so near to one that 18 bits of scale decide
        assert (got != want).mean() < 0.2
