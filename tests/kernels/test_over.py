"""Written over their input, formats give the bits that they give beside it: of each loop, wherever it stops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from espalier.model.formats.base import FAST, Format, parse_format
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.formats.scaled_integer import ScaledInteger
from tests.kernels.test_fake_quant import DTYPES, SPECIAL, bits, tame

cpu = pytest.importorskip("espalier.kernels.fake_quant.cpu", reason="numba is not installed")

# One of each loop, and of each way to find what a stretch shares.
KINDS = [
    "integer(width=8, frac_width=4)", "integer(width=8, frac_width=4, rounding=floor)", "minifloat_ieee",
    "minifloat_denorm", "log", "binary", "block_fp", "block_minifloat", "block_log", "mxint", "mxfp", "nvfp4",
    "scaled_integer(granularity=tensor)", "scaled_integer", "scaled_integer(granularity=group, group=32)",
    "scaled_integer(symmetric=false)", "scaled_integer(granularity=group, group=32, symmetric=false)",
    *(f"{name}(granularity={g})" for name in ("binary_scaled", "ternary") for g in ("tensor", "channel")),
    *(f"binary_residual(levels={n})" for n in (2, 3)),
]  # fmt: skip
HALVES = ("mxint", "minifloat_ieee", "nvfp4", "ternary(granularity=channel)")  # compiling takes a second each
SHARE = 0.4  # of the kinds, for each run of the tests: the same in all of them, so that no other loops are compiled


def drawn(text: str, *more: object) -> Any:
    """A parameter for a kind that a run may draw."""
    return pytest.param(text, *more, marks=pytest.mark.sampled(SHARE, by=text))


each_kind = pytest.mark.parametrize("text", [drawn(text) for text in KINDS], ids=KINDS)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """As many threads as before."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def over(fmt: Format, x: Tensor, scale: Tensor | None = None) -> bool:
    """Whether a copy of `x` was written over; then its bits are right, else they are x's."""
    want = fmt.forward_with(x, scale) if isinstance(fmt, ScaledFormat) and scale is not None else fmt.forward(x)
    held = x.clone(memory_format=torch.preserve_format)
    done = FAST[type(fmt), "cpu"].over(fmt, held, scale, False)
    assert torch.equal(bits(held), bits(want if done else x)), (fmt, x.shape, x.dtype)
    if done and scale is None:
        assert gated(fmt, x)
    return done is not None


def gated(fmt: Format, x: Tensor) -> bool:
    """Whether value and gate are as the definition's."""
    held, inside = x.clone(), fmt.inside(x)
    found = FAST[type(fmt), "cpu"].over(fmt, held, None, True)
    assert found is not None and torch.equal(bits(held), bits(fmt.forward(x)))
    return torch.equal(torch.ones_like(inside) if found[1] is None else found[1], inside)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "dtype"),
    [drawn(text, dtype) for text in KINDS for dtype in DTYPES if dtype == torch.float32 or text in HALVES],
    ids=str,
)
def test_the_same_bits_as_beside_it(text: str, dtype: torch.dtype) -> None:
    fmt, x = parse_format(text), tame(dtype, (24, 128))
    special = x.clone()
    special[1, : len(SPECIAL)] = torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)
    torch.set_num_threads(1)
    for each in (x, special, special.reshape(4, 2, 3, 128), special[:, :32].contiguous(), torch.cat([x, special] * 3)):
        assert over(fmt, each)
    over(fmt, x[:, :37].contiguous())
    over(fmt, x[3, 0])


@pytest.mark.slow
@each_kind
def test_on_two_threads(text: str) -> None:
    torch.set_num_threads(2)
    x = tame(torch.float32, (2400, 128))
    x[7, :9] = torch.nan
    assert over(parse_format(text), x)


@pytest.mark.slow
@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("text", ["mxint", "mxfp", "block_fp", "block_minifloat", "block_log", "log"])
def test_goes_on_by_the_definition_where_a_loop_stops(text: str) -> None:
    """Numbers that float32's constants cannot follow, behind ordinary ones that are written by then."""
    for first in (0, 1, 700):
        x = tame(torch.float32, (1000, 128))
        x[first:] = x[first:] * 2.0**-100 * 2.0**-42
        assert over(parse_format(text), x)
        torch.set_num_threads(2)
        assert over(parse_format(text), torch.cat([x, x, x]))


@pytest.mark.slow
def test_under_a_given_scale() -> None:
    x = tame(torch.float32)
    for granularity in ("tensor", "channel", "group"):
        for symmetric in (True, False):
            fmt = ScaledInteger(8, granularity, 32, symmetric)
            assert over(fmt, x, fmt.scale_of(x) * 0.7)


def test_leaves_alone_what_it_cannot_write() -> None:
    fmt, x = parse_format("mxint"), tame(torch.float32)
    assert not over(fmt, x.t()) and not over(fmt, x[:, :37].contiguous()) and not over(fmt, x.double())
    assert not FAST[type(fmt), "cpu"].over(fmt, torch.nn.Parameter(x), None, False)
    assert fmt.forward(x, overwrite=True) is x and torch.equal(fmt.forward(x), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients_are_stopped_where_they_lie(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    for size, ones in ((4001, 0.99), (333, 0.2), (400_000, 1.0), (3, 0.5)):
        grad = torch.randn(size, generator=generator).to(dtype)
        grad[: min(len(SPECIAL), size)] = torch.tensor(SPECIAL[:size], dtype=torch.float64).to(dtype)
        gate = torch.rand(size, generator=generator) < ones
        want, held = cpu.gated_gradient(grad, gate), grad.clone()
        assert cpu.gated_gradient(held, gate, True) is held and torch.equal(bits(held), bits(want))
        assert torch.equal(bits(want), bits(grad * gate))
