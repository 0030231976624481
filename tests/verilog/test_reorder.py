"""Orders of beats: loops found in addresses, frames reordered, beats dropped, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.verilog.design.address_loops import as_loops
from espalier.verilog.design.stream import Stream
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.templates.reorder import Pick, Reorder
from tests.verilog.checks import needs_icarus, on_time, proven, random_codes


@st.composite
def orders(draw: st.DrawFn) -> np.ndarray:
    """A frame's beats under a transpose of up to four axes."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    axes = draw(st.permutations(range(len(shape))))
    return np.arange(np.prod(shape)).reshape(shape).transpose(axes).reshape(-1)


@given(orders())
def test_transposes_are_walks(order: np.ndarray) -> None:
    found = as_loops(order)
    assert found is not None
    np.testing.assert_array_equal(found.addresses(), order)


def test_what_is_no_loop_is_told() -> None:
    assert as_loops(np.array([0, 3, 1, 2, 7])) is None


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=5)
@given(orders(), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_reorder(tmp_path_factory: pytest.TempPathFactory, order: np.ndarray, par: int, seed: int) -> None:
    stream = Stream(1, len(order) * par, Fixed(5, 2), par)
    made = Reorder(name="r", node="r", inputs=(stream,), outputs=(stream,), beats=order)
    codes = random_codes(np.random.default_rng(seed), stream, 4)
    inputs, cache = (codes,), tmp_path_factory.mktemp("builds")
    proven(made, inputs, cache)
    on_time(made, inputs, cache)


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=5)
@given(st.data())
def test_pick(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    period, rounds, par = (data.draw(st.integers(1, m)) for m in (7, 3, 3))
    start = data.draw(st.integers(0, period - 1))
    count = data.draw(st.integers(1, period - start))
    fixed = Fixed(4, 1, False)
    x, y = Stream(rounds, period * par, fixed, par), Stream(rounds, count * par, fixed, par)
    made = Pick(name="p", node="p", inputs=(x,), outputs=(y,), period=period, start=start, count=count)
    codes = random_codes(np.random.default_rng(data.draw(st.integers(0, 99))), made.inputs[0], 3)
    inputs, cache = (codes,), tmp_path_factory.mktemp("builds")
    proven(made, inputs, cache)
    on_time(made, inputs, cache)
