"""Shifts and scales from data: against trying everything, and against the definitions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from espalier.model.formats.base import Format, parse_format
from espalier.model.formats.integer import Integer
from espalier.model.formats.scaled import ScaledFormat
from espalier.passes.observed.difference import Comparison, compare
from espalier.passes.observed.divergence import divergence, threshold
from espalier.passes.observed.scales import activation_scale, one_scale, weight_scale
from espalier.passes.observed.shift_selection import (
    Method,
    chosen_shift,
    covering,
    ends,
    least_error,
    shift_of,
    shifted,
)
from espalier.passes.observed.tensor_statistics import TensorStatistics

SHIFTED = (
    "integer(width=8, frac_width=4)", "integer(width=4, frac_width=30)", "integer(width=16, frac_width=-9)",
    "integer(width=8, frac_width=4, signed=false)", "minifloat_ieee(width=8)", "log(width=4)",
    "minifloat_ieee(width=6, exponent_width=3, reserved=inf)", "minifloat_denorm(width=8)", "log(width=8)",
)  # fmt: skip
SCALED = (
    "scaled_integer(width=4)", "scaled_integer(width=4, granularity=tensor)", "scaled_integer(granularity=group(16))",
    "scaled_integer(width=4, granularity=tensor, symmetric=false)", "scaled_integer(width=3, symmetric=false)",
    "scaled_integer(width=4, scale_dtype=bfloat16)",
)  # fmt: skip
METHODS: tuple[Method, ...] = ("minmax", "percentile", "mse", "entropy")
X = (np.random.default_rng(0).standard_t(5, (256, 96)) * 0.03).astype(np.float32)


def seen(x: np.ndarray) -> TensorStatistics:
    found = TensorStatistics.empty(0)
    for part in np.array_split(x, 3):
        found.add(part)
    return found


def neighbours(fmt: Format) -> list[Format]:
    """All that a wide search around a format finds."""
    tried = (shifted(fmt, shift_of(fmt) + d) for d in range(-14, 15))
    return [f for f in tried if f is not None]


def error(fmt: Format, x: np.ndarray) -> float:
    return float(np.square(fmt.rounded(x) - x, dtype=np.float64).sum())


# -- shifts


@pytest.mark.parametrize("text", SHIFTED)
@pytest.mark.parametrize("size", [1e-6, 0.3, 1.0, 77.0])
def test_covering_is_the_finest_that_holds_all(text: str, size: float) -> None:
    fmt = parse_format(text)
    low, high = (0.0, size) if ends(fmt)[0] == 0 else (-0.7 * size, size)
    found = covering(fmt, low, high)
    holds = [f for f in neighbours(found) if ends(f)[0] <= low and high <= ends(f)[1]]
    assert ends(found)[0] <= low and high <= ends(found)[1]
    assert shift_of(found) == max(map(shift_of, holds))


@pytest.mark.parametrize("text", SHIFTED)
def test_least_error_is_the_least_of_all(text: str) -> None:
    fmt = parse_format(text)
    x = np.abs(X) if ends(fmt)[0] == 0 else X
    found = least_error(fmt, x.reshape(-1), float(x.min()), float(x.max()))
    best = min(neighbours(found), key=lambda f: error(f, x))
    assert error(found, x) == pytest.approx(error(best, x), rel=1e-6)


def test_methods_by_hand() -> None:
    """Uniform values to 1 and a single 60: covering all costs 6 binary places."""
    x = np.append(np.linspace(-0.9, 0.9, 65535), 60).astype(np.float32).reshape(256, 256)
    found = seen(x)
    assert chosen_shift(Integer(8, 0), found, "minmax", 99.9) == Integer(8, 1)
    assert chosen_shift(Integer(8, 0), found, "percentile", 99.9) == Integer(8, 7)
    assert chosen_shift(Integer(8, 0), found, "percentile", 100.0) == Integer(8, 1)
    assert chosen_shift(Integer(8, 0), found, "mse", 99.9) == least_error(Integer(8, 0), x.reshape(-1), -0.9, 60.0)


@pytest.mark.parametrize("text", SHIFTED)
def test_zeros_leave_a_format_as_it_is(text: str) -> None:
    fmt = parse_format(text)
    assert covering(fmt, 0.0, 0.0) == fmt


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("text", SHIFTED)
def test_every_method_suits_every_format(text: str, method: Method) -> None:
    fmt = parse_format(text)
    found = chosen_shift(fmt, seen(X), method, 99.9)
    assert replace(found, **{fmt.shift or "": getattr(fmt, fmt.shift or "")}) == fmt
    assert error(found, X) <= error(fmt, X) * 1.001 or method != "mse"


# -- divergence


def test_divergence_by_hand() -> None:
    counts = np.array([4, 2, 0, 2] + [0] * 124 + [8])
    groups = np.array([0, 0, 1, 1] + [2] * 124)
    # P = 4 2 10 of 16 (what lies beyond joins the last used bin), Q = 3 3 2 of 8.
    p, q = np.array([4, 2, 10]) / 16, np.array([3, 3, 2]) / 8
    assert divergence(counts, groups) == pytest.approx(float((p * np.log(p / q)).sum()))
    assert divergence(counts, np.zeros(3, int)) == math.inf


def test_entropy_clips_what_is_rare() -> None:
    counts = np.zeros(2048, np.int64)
    counts[:256] = (np.exp(-np.linspace(0, 4, 256)) * 10000).astype(int)
    counts[-1] = 3
    assert 0.06 <= threshold(counts, 127) <= 0.25
    assert threshold(np.ones(2048, np.int64), 127) == 1.0, "too few values to tell"


# -- scales


@pytest.mark.parametrize("text", SCALED)
def test_minmax_is_the_definitions_own(text: str) -> None:
    fmt = parse_format(text)
    assert isinstance(fmt, ScaledFormat)
    x = torch.from_numpy(X)
    assert torch.allclose(weight_scale(fmt, x, "minmax", 99.9), fmt.scale_of(x))
    if one_scale(fmt):
        assert torch.allclose(activation_scale(fmt, seen(X), "minmax", 99.9), fmt.scale_of(x))


@pytest.mark.parametrize("text", SCALED)
def test_mse_is_never_worse_than_minmax(text: str) -> None:
    fmt = parse_format(text)
    assert isinstance(fmt, ScaledFormat)
    x = torch.from_numpy(X)

    def noise(scale: torch.Tensor) -> torch.Tensor:
        return (fmt.with_scale(x, scale) - x).double().square().sum(-1)

    found, plain = weight_scale(fmt, x, "mse", 99.9), fmt.scale_of(x)
    assert found.shape == fmt.scale_shape(tuple(x.shape)) and (noise(found).sum() <= noise(plain).sum())
    assert noise(found).sum() < noise(plain).sum() or "width=8" in str(fmt)
    if fmt.scale_shape((2, 4))[-1:] == (1,):
        assert (noise(found) <= noise(plain) * (1 + 1e-6)).all(), "every row for itself"


def test_percentile_of_rows_leaves_out_so_many() -> None:
    fmt = parse_format("scaled_integer(width=8)")
    assert isinstance(fmt, ScaledFormat)
    x = torch.arange(1.0, 1001.0).repeat(3, 1) * torch.tensor([[1.0], [-1.0], [5.0]])
    scale = weight_scale(fmt, x, "percentile", 99.0)
    # 1 % of 1000: 5 at either end.
    assert torch.allclose(scale[:, 0] * 127, torch.tensor([995.0, 995.0, 4975.0]))
    inside = fmt.inside_with(x, scale).float().mean(-1)
    assert ((inside >= 0.99) & (inside < 1)).all()


@pytest.mark.parametrize("text", ["ternary", "binary_scaled", "binary_residual", "ternary(granularity=tensor)"])
@pytest.mark.parametrize("method", METHODS)
def test_scales_that_are_no_range_are_the_definitions(text: str, method: Method) -> None:
    fmt = parse_format(text)
    assert isinstance(fmt, ScaledFormat)
    x = torch.from_numpy(X)
    assert torch.equal(weight_scale(fmt, x, method, 99.9), fmt.scale_of(x))


# -- errors


def test_a_difference_does_not_hang_on_the_cut() -> None:
    x = torch.from_numpy(X).clone()
    x[0, 0] = -3.4e38
    y, inside = Integer(6, 5).define(x), Integer(6, 5).inside(x)
    parts = Comparison()
    for a, b, c in zip(x.split(50), y.split(50), inside.split(50), strict=True):
        parts.add(a, b, c)
    a, b = x.double().view(-1)[1:], y.double().view(-1)[1:]
    found = parts.difference()
    assert found.sqnr_db == pytest.approx(10 * math.log10(float(a.square().sum() / (a - b).square().sum())))
    assert found.cosine == pytest.approx(float(torch.nn.functional.cosine_similarity(a, b, 0)))
    assert found.max_error == float((a - b).abs().max())
    assert found.mean_error == pytest.approx(float((a - b).abs().mean()))
    assert found.underflow == pytest.approx(float(((b == 0) & (a != 0)).double().mean()))
    assert found.saturated == pytest.approx(float((~inside.view(-1)[1:]).double().mean()))
    nothing = compare(Integer(8, 4), torch.zeros(4))
    assert nothing.sqnr_db is None and nothing.cosine is None and nothing.zeros == 1 and nothing.underflow == 0
