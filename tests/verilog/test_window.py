"""Windows over images: any kernel, stride, dilation and padding, against torch's unfold and bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from espalier.verilog.design.stream import Stream
from espalier.verilog.numbers.fixed import Fixed
from espalier.verilog.proof.lint import lint
from espalier.verilog.proof.tools import verilator
from espalier.verilog.rtl.write import texts
from espalier.verilog.templates.window import Walk, Window
from tests.verilog.checks import alone, needs_icarus, on_time, proven, random_codes

KINDS = st.tuples(st.integers(1, 7), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.integers(0, 2))


def walk_of(axes: tuple[tuple[int, int, int, int, int], ...]) -> Walk:
    """From (size, kernel, stride, dilation, padding) of both axes; the image is whole rows and columns of places."""
    outs = [(n + 2 * p - (k - 1) * d - 1) // s + 1 for n, k, s, d, p in axes]
    image, kernel, step, gap, before = ((a[i], b[i]) for i in range(5) for a, b in [axes])
    return Walk(image, (outs[0], outs[1]), kernel, step, gap, before)


@st.composite
def windows(draw: st.DrawFn) -> tuple[Window, np.random.Generator]:
    """A window of any kind, small."""
    axes = (draw(KINDS), draw(KINDS))
    walk = walk_of(axes)
    assume(min(walk.out) > 0)
    par, groups, per = (draw(st.integers(1, 2)) for _ in range(3))
    channels = par * groups * per
    form = Fixed(draw(st.integers(1, 9)), 0, draw(st.booleans()))
    x = Stream(walk.pixels, channels, form, par)
    y = Stream(walk.places * groups, walk.taps * channels // groups, form, par)
    made = Window(name="window", node="conv", inputs=(x,), outputs=(y,), walk=walk, groups=groups,
                  pad=draw(st.sampled_from((0, form.low))))  # fmt: skip
    return made, np.random.default_rng(draw(st.integers(0, 2**32 - 1)))


@settings(max_examples=40)
@given(st.tuples(KINDS, KINDS), st.integers(1, 3))
def test_holds_what_torch_unfolds(axes: tuple[tuple[int, ...], ...], channels: int) -> None:
    walk = walk_of(axes)  # type: ignore[arg-type]
    assume(min(walk.out) > 0)
    image = np.random.default_rng(0).integers(-8, 8, (2, channels, *walk.image))
    want = torch.nn.functional.unfold(
        torch.tensor(image, dtype=torch.float64), walk.kernel, walk.gap, walk.before, walk.step
    )  # [frames, channels · taps, places]
    form = Fixed(4, 0)
    x, y = Stream(walk.pixels, channels, form), Stream(walk.places, walk.taps * channels, form)
    made = Window(name="w", node="w", inputs=(x,), outputs=(y,), walk=walk)
    (got,) = made.reference(image.reshape(2, channels, -1).transpose(0, 2, 1))
    ordered = got.reshape(2, walk.places, walk.taps, channels).transpose(0, 3, 2, 1).reshape(want.shape)
    np.testing.assert_array_equal(ordered, want.numpy())


@needs_icarus
@pytest.mark.rtl
@settings(max_examples=6)
@given(windows())
def test_equals_its_integer_model(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[Window, np.random.Generator]
) -> None:
    made, rng = case
    cache: Path = tmp_path_factory.mktemp("builds")
    inputs = (random_codes(rng, made.inputs[0], 3),)
    proven(made, inputs, cache)
    on_time(made, inputs, cache)


@needs_icarus
@pytest.mark.rtl
@pytest.mark.parametrize(("width", "pad"), [(32, -(1 << 31)), (40, -(1 << 39)), (45, 5)])
def test_borders_beyond_32_bits(tmp_path: Path, width: int, pad: int) -> None:
    """The largest of exact sums: the code around the image is the least of a wide format."""
    walk, form = Walk((2, 2), (2, 2), (3, 3), before=(1, 1)), Fixed(width, 3)
    x, y = Stream(4, 1, form), Stream(4, 9, form)
    made = Window(name="w", node="w", inputs=(x,), outputs=(y,), walk=walk, pad=pad)
    proven(made, (random_codes(np.random.default_rng(0), x, 2),), tmp_path)
    if verilator() is not None:
        assert not lint(texts(alone(made)), "top").findings
