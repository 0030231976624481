"""LayerNorm and RMS norm: bit for bit their integer model, and the model within an LSB of the true function."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.verilog.design.stream import Stream
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.templates.norm import Norm
from tests.verilog.checks import needs_icarus, on_time, proven, random_codes


@st.composite
def norms(draw: st.DrawFn) -> tuple[Norm, np.random.Generator]:
    """Rows of any size and format."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    par = draw(st.integers(1, 3))
    rows, size = draw(st.integers(1, 4)), par * draw(st.integers(1, 5))
    x = Fixed(draw(st.integers(2, 10)), draw(st.integers(-2, 7)), draw(st.booleans()))
    y = Fixed(draw(st.integers(2, 12)), draw(st.integers(-1, 10)), draw(st.booleans()))
    gamma = Fixed(draw(st.integers(2, 9)), draw(st.integers(0, 7)))
    made = Norm(
        name="n", node="n", inputs=(Stream(rows, size, x, par),), outputs=(Stream(rows, size, y, par),),
        centered=draw(st.booleans()), eps=draw(st.sampled_from((0, 1, 700, 3 << 30))),
        gamma=rng.integers(gamma.low, gamma.high + 1, size), gamma_format=gamma,
        beta=rng.integers(-100, 100, size), beta_frac=draw(st.integers(0, 9)),
        rounding=draw(st.sampled_from(("nearest_even", "floor"))),
    )  # fmt: skip
    return made, rng


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(norms())
def test_equals_its_integer_model(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[Norm, np.random.Generator]
) -> None:
    made, rng = case
    codes = random_codes(rng, made.inputs[0], 3)
    codes[0, 0] = codes[0, 0, 0]  # a row without any variance
    inputs, cache = (codes,), tmp_path_factory.mktemp("builds")
    proven(made, inputs, cache)
    on_time(made, inputs, cache)


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize(("width", "frac", "result", "lsb"), [
    (8, 4, Fixed(8, 4), 0.52), (10, 6, Fixed(10, 6), 0.53), (16, 10, Fixed(12, 8), 0.6), (16, 10, Fixed(16, 12), 2.5),
])  # fmt: skip
def test_error_in_units_of_the_result(width: int, frac: int, result: Fixed, lsb: float, centered: bool) -> None:
    """Half a unit is the rounding's own."""
    rng = np.random.default_rng(1)
    size, eps, form = 128, 1e-5, Fixed(12, 9)
    x = Stream(60, size, Fixed(width, frac))
    gamma, beta = rng.integers(200, 900, size), rng.integers(-300, 300, size)
    made = Norm(name="n", node="n", inputs=(x,), outputs=(Stream(60, size, result),), centered=centered,
                eps=round(eps * size**2 * 4**frac), gamma=gamma, gamma_format=form, beta=beta, beta_frac=9)  # fmt: skip
    values = rng.normal(0.3, np.exp(rng.normal(0, 1, (60, 1))), (2, 60, size))
    codes = x.fixed.encode(values)
    real = x.fixed.values(codes)
    kept = real - real.mean(-1, keepdims=True) if centered else real
    want = kept / np.sqrt((kept**2).mean(-1, keepdims=True) + eps) * form.values(gamma) + form.values(beta)
    want = np.clip(want * 2**result.frac, result.low, result.high)
    assert np.abs(made.reference(codes)[0] - want).max() < lsb
