"""Softmax: bit for bit its integer model, whatever is masked, and the model within a few LSB of the true function."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.verilog.design.stream import Stream
from espalier.verilog.numbers.fixed import Codes, Fixed
from espalier.verilog.templates.softmax import Softmax
from tests.verilog.checks import needs_icarus, on_time, proven, random_codes

BIT = Fixed(1, 0, False)


@st.composite
def softmaxes(draw: st.DrawFn) -> Softmax:
    """Rows of any size and format, with a mask or without."""
    par = draw(st.integers(1, 3))
    rows, size = draw(st.integers(1, 4)), par * draw(st.integers(1, 5))
    x = Stream(rows, size, Fixed(draw(st.integers(2, 9)), draw(st.integers(-3, 7)), draw(st.booleans())), par)
    y = Fixed(draw(st.integers(2, 10)), draw(st.integers(1, 10)), draw(st.booleans()))
    masks = (Stream(rows, size, BIT, par),) if draw(st.booleans()) else ()
    return Softmax(name="s", node="s", inputs=(x, *masks), outputs=(Stream(rows, size, y, par),),
                   keep=draw(st.integers(0, 1)), rounding=draw(st.sampled_from(("nearest_even", "floor"))))  # fmt: skip


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(softmaxes(), st.integers(0, 2**32 - 1))
def test_equals_its_integer_model(tmp_path_factory: pytest.TempPathFactory, made: Softmax, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = [random_codes(rng, s, 3) for s in made.inputs]
    if len(codes) > 1:
        codes[1][0, 0] = 1 - made.keep  # a row with nothing in it
    inputs, cache = tuple(codes), tmp_path_factory.mktemp("builds")
    proven(made, inputs, cache)
    on_time(made, inputs, cache)


def exact(x: np.ndarray, kept: np.ndarray) -> np.ndarray:
    e = np.where(kept, np.exp(x - np.where(kept, x, -np.inf).max(-1, keepdims=True)), 0)
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize(("width", "frac", "result", "lsb"), [
    (8, 4, Fixed(8, 8, False), 0.75), (8, 3, Fixed(8, 7), 0.75), (12, 8, Fixed(12, 12, False), 0.8),
    (16, 11, Fixed(16, 15), 2.5),
])  # fmt: skip
def test_error_in_units_of_the_result(width: int, frac: int, result: Fixed, lsb: float) -> None:
    """Half a unit is the rounding's own; what is more comes of the table's steps."""
    rng = np.random.default_rng(3)
    x = Stream(50, 24, Fixed(width, frac))
    made = Softmax(name="s", node="s", inputs=(x, Stream(50, 24, BIT)), outputs=(Stream(50, 24, result),))
    codes: Codes = np.clip(np.rint(rng.normal(0, 3, (4, 50, 24)) * 2**frac), x.fixed.low, x.fixed.high).astype(np.int64)
    kept = rng.random(codes.shape) < 0.8
    kept[..., 0] = True
    got = made.reference(codes, kept.astype(np.int64))[0]
    want = np.minimum(exact(x.fixed.values(codes), kept) * 2**result.frac, result.high)
    assert np.abs(got - want).max() < lsb
    assert (got[~kept] == 0).all()


def test_a_row_without_elements_is_zero() -> None:
    x = Stream(1, 4, Fixed(8, 4))
    made = Softmax(
        name="s", node="s", inputs=(x, Stream(1, 4, BIT)), outputs=(Stream(1, 4, Fixed(8, 8, False)),), keep=0
    )
    assert not made.reference(np.ones((1, 1, 4), np.int64), np.ones((1, 1, 4), np.int64))[0].any()
