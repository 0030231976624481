"""The product of two streams: any sizes, heads, orders, parallelism and formats, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.verilog.design.stream import Stream
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.templates.matmul import MatMul
from tests.verilog.checks import needs_icarus, on_time, proven, random_codes


def fixed(draw: st.DrawFn) -> Fixed:
    return Fixed(draw(st.integers(2, 8)), draw(st.integers(-2, 8)), draw(st.booleans()))


@st.composite
def matmuls(draw: st.DrawFn) -> tuple[MatMul, np.random.Generator]:
    """A product of any kind, small."""
    par_in, par_out, tokens = (draw(st.integers(1, 3)) for _ in range(3))
    depth, columns = par_in * draw(st.integers(1, 3)), par_out * draw(st.integers(1, 3))
    batch, repeat, turns = (draw(st.integers(1, 3)) for _ in range(3))
    along = draw(st.sampled_from(("depth", "columns")))
    elements = np.arange(batch * depth * columns).reshape(batch, depth, columns)
    if along == "depth":
        spots = elements.transpose(draw(st.sampled_from(((0, 2, 1), (2, 0, 1)))))
    else:
        spots = elements.transpose(draw(st.sampled_from(((0, 1, 2), (1, 0, 2)))))
    par = par_in if along == "depth" else par_out
    x, b = fixed(draw), fixed(draw)
    rows = tokens * repeat * batch * turns
    multiplier = draw(st.sampled_from((1, 1, 3, 181)))
    made = MatMul(
        name="m", node="m", inputs=(Stream(rows, depth, x, par_in, tokens), Stream(1, spots.size, b, par)),
        outputs=(Stream(rows, columns, fixed(draw), par_out, tokens),), batch=batch, repeat=repeat, columns=columns,
        spots=spots.reshape(-1), along=along, accumulator=Fixed(18 + depth.bit_length(), x.frac + b.frac),
        multiplier=multiplier, scale_frac=draw(st.integers(0, 9)),
        rounding=draw(st.sampled_from(("nearest_even", "floor"))),
    )  # fmt: skip
    return made, np.random.default_rng(draw(st.integers(0, 2**32 - 1)))


@pytest.mark.slow
@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(matmuls())
def test_equals_its_integer_model(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[MatMul, np.random.Generator]
) -> None:
    made, rng = case
    inputs, cache = tuple(random_codes(rng, s, 3) for s in made.inputs), tmp_path_factory.mktemp("builds")
    proven(made, inputs, cache)
    on_time(made, inputs, cache)


def test_the_model_is_a_matrix_product() -> None:
    """Three query heads a key head: repeat 3."""
    rng = np.random.default_rng(0)
    f = Fixed(8, 4)
    made = MatMul(
        name="m", node="m", inputs=(Stream(6 * 4, 8, f), Stream(2 * 5, 8, f)), outputs=(Stream(24, 5, Fixed(24, 8)),),
        batch=2, repeat=3, columns=5, along="depth", accumulator=Fixed(19, 8),
        spots=np.arange(2 * 8 * 5).reshape(2, 8, 5).transpose(2, 0, 1).reshape(-1),
    )  # fmt: skip
    x, b = random_codes(rng, made.inputs[0], 2), random_codes(rng, made.inputs[1], 2)
    query = x.reshape(2, 4, 2, 3, 8)  # [frame, row, key head, query head of it, depth]
    keys = b.reshape(2, 5, 2, 8)
    want = np.einsum("frkqd,fnkd->frkqn", query, keys).reshape(2, 24, 5)
    np.testing.assert_array_equal(made.reference(x, b)[0], want)
