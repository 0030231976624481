"""The folded linear layer: any sizes, parallelism, formats and rounding, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.verilog.design.stream import Stream
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.proof.lint import lint
from espalier.verilog.proof.tools import verilator
from espalier.verilog.rtl.write import texts
from espalier.verilog.rules.linear import summed
from espalier.verilog.templates.linear import Linear
from tests.verilog.checks import alone, needs_icarus, proven, random_codes


def layer(name: str, ins: tuple[int, int], outs: tuple[int, int], rows: int = 1, tokens: int = 1) -> Linear:
    """A layer with random weights; `ins`, `outs`: (size, elements a beat)."""
    form, rng = Fixed(4, 0), np.random.default_rng(1)
    weight = rng.integers(form.low, form.high + 1, (outs[0], ins[0]))
    accumulator, biases = summed(weight, form, form, None)
    x, y = Stream(rows, ins[0], form, ins[1], tokens), Stream(rows, outs[0], form, outs[1], tokens)
    return Linear(name=name, node=name, inputs=(x,), outputs=(y,), weight=weight, weight_format=form, bias=biases,
                  accumulator=accumulator)  # fmt: skip


@st.composite
def linears(draw: st.DrawFn) -> tuple[Linear, np.random.Generator]:
    """A layer of any kind, small."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    par_in, par_out, tokens = (draw(st.integers(1, 3)) for _ in range(3))
    groups = draw(st.integers(1, 3)) if tokens == 1 else 1
    size_in, size_out = par_in * draw(st.integers(1, 4)), par_out * draw(st.integers(1, 3))
    x = Fixed(draw(st.integers(1, 9)), draw(st.integers(-2, 8)), draw(st.booleans()))
    form = Fixed(draw(st.integers(2, 9)), draw(st.integers(-2, 9)))
    weight = rng.integers(form.low, form.high + 1, (groups * size_out, size_in))
    bias = Fixed(draw(st.integers(2, 12)), draw(st.integers(-2, 12)))
    accumulator, biases = summed(weight, form, x, (rng.integers(bias.low, bias.high + 1, groups * size_out), bias))
    out = Fixed(draw(st.integers(1, 12)), draw(st.integers(-4, 12)), draw(st.booleans()))
    rows = groups * tokens * draw(st.integers(1, 2))
    made = Linear(
        name="fc", node="fc", inputs=(Stream(rows, size_in, x, par_in, tokens),),
        outputs=(Stream(rows, size_out, out, par_out, tokens),), weight=weight, weight_format=form, bias=biases,
        accumulator=accumulator, rounding=draw(st.sampled_from(("nearest_even", "floor"))), groups=groups,
    )  # fmt: skip
    return made, rng


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(linears())
def test_equals_its_integer_model(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[Linear, np.random.Generator]
) -> None:
    made, rng = case
    cache: Path = tmp_path_factory.mktemp("builds")
    proven(made, (random_codes(rng, made.inputs[0], 3),), cache)


@needs_icarus
@pytest.mark.rtl
@pytest.mark.skipif(verilator() is None, reason="verilator is not installed")
@pytest.mark.parametrize("bias", [0, 3])
def test_weights_that_are_all_zero_raise_no_warning(tmp_path: Path, bias: int) -> None:
    x, form, nothing = Fixed(8, 4), Fixed(6, 4), np.zeros((4, 8), np.int64)
    accumulator, biases = summed(nothing, form, x, (np.full(4, bias), Fixed(6, 8)))
    made = Linear(
        name="fc", node="fc", inputs=(Stream(2, 8, x, 2),), outputs=(Stream(2, 4, Fixed(8, 4), 2),), weight=nothing,
        weight_format=form, bias=biases, accumulator=accumulator,
    )  # fmt: skip
    assert accumulator.width < x.width
    assert not lint(texts(alone(made)), "top").findings
    proven(made, (random_codes(np.random.default_rng(0), made.inputs[0], 3),), tmp_path)
