"""Tables, lines and pairs: any widths, parallelism and rounding, bit for bit; and how far tables are off."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.verilog.design.stream import Stream
from espalier.verilog.design.template import Template
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.templates.chain import Chain, Replay
from espalier.verilog.templates.lut import Lut, Pieces, all_codes, fit_segments, tabled
from espalier.verilog.templates.pair import COMPARE, KINDS, Pair, exact_format
from tests.verilog.checks import needs_icarus
from tests.verilog.test_fold import FORMATS, ROUNDINGS, checked


@st.composite
def tables(draw: st.DrawFn) -> Template:
    """A table or lines."""
    par, tokens = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    wide = draw(st.booleans())
    form = Fixed(draw(st.integers(11, 13)), draw(st.integers(4, 10)), draw(st.booleans())) if wide else draw(FORMATS)
    x = Stream(2 * tokens, 2 * par, form, par, tokens)
    y = Stream(2 * tokens, 2 * par, draw(FORMATS), par, tokens)
    function, rounding = draw(st.sampled_from((np.tanh, np.exp, np.abs, np.sin))), draw(ROUNDINGS)
    if wide:
        lines = fit_segments(function, form, y.fixed)
        return Pieces(name="table", node="f", inputs=(x,), outputs=(y,), lines=lines, rounding=rounding)
    table = tabled(function, form, y.fixed, rounding)
    return Lut(name="table", node="f", inputs=(x,), outputs=(y,), table=table)


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(tables(), st.integers(0, 2**32 - 1))
def test_tables_equal_their_integer_models(tmp_path_factory: pytest.TempPathFactory, made: Template, seed: int) -> None:
    checked(made, seed, tmp_path_factory.mktemp("builds"))


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Two streams of any formats."""
    par, tokens = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    x, x1, y = (Stream(2 * tokens, 2 * par, draw(FORMATS), par, tokens) for _ in range(3))
    kind = draw(st.sampled_from(KINDS))
    return Pair(name="pair", node="add", inputs=(x, x1), outputs=(y,), kind=kind, rounding=draw(ROUNDINGS),
                total=exact_format(kind, x.fixed, x1.fixed))  # fmt: skip


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(pairs(), st.integers(0, 2**32 - 1))
def test_pairs_equal_their_integer_model(tmp_path_factory: pytest.TempPathFactory, made: Pair, seed: int) -> None:
    checked(made, seed, tmp_path_factory.mktemp("builds"))


@pytest.mark.parametrize("name", ["gelu", "silu", "tanh", "sigmoid"])
def test_lines_of_16_bits_stay_within_a_step_of_torch(name: str) -> None:
    function = getattr(torch.nn.functional, name)
    x, y = Fixed(16, 11), Fixed(8, 4)
    values = torch.from_numpy(x.values(all_codes(x)))
    lines = fit_segments(lambda v: function(torch.from_numpy(v)).numpy(), x, y)
    stream = Stream(1, 1 << 16, x)
    made = Pieces(name="f", node="f", inputs=(stream,), outputs=(Stream(1, 1 << 16, y),), lines=lines)
    (got,) = made.reference(all_codes(x)[None, None])
    off = np.abs(y.values(got[0, 0]) - np.clip(function(values).numpy(), y.low / 16, y.high / 16)).max() * 16
    assert off <= lines.worst + 1e-9
    assert lines.worst <= 1


@st.composite
def chains(draw: st.DrawFn) -> Template:
    """Streams in turns, or a frame again and again."""
    par, size, turns, times = (draw(st.integers(1, 3)) for _ in range(4))
    x = Stream(turns * draw(st.integers(1, 2)), par * size, draw(FORMATS), par)
    if draw(st.booleans()):
        y = Stream(x.rows * times, x.size, x.fixed, par)
        return Replay(name="replay", node="mul", inputs=(x,), outputs=(y,), times=times)
    other = Stream(turns * draw(st.integers(1, 2)), x.size, x.fixed, par)
    y = Stream(x.rows + other.rows, x.size, x.fixed, par)
    return Chain(name="chain", node="cat", inputs=(x, other), outputs=(y,), turns=turns)


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(chains(), st.integers(0, 2**32 - 1))
def test_chains_equal_their_integer_models(tmp_path_factory: pytest.TempPathFactory, made: Template, seed: int) -> None:
    checked(made, seed, tmp_path_factory.mktemp("builds"))


def test_a_comparison_of_single_signed_bits_has_room_for_true() -> None:
    """1 is no value of one signed bit: the result was 0."""
    for kind in COMPARE:
        assert exact_format(kind, Fixed(1, 0), Fixed(1, 0)).high >= 1
