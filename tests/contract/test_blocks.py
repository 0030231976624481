"""Formats by blocks against brute force: each block under the scale that its definition names, worked out here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.model.formats.base import Array, make_format, parameters, parse_format
from espalier.model.formats.block_fp import BlockFP
from espalier.model.formats.block_log import BlockLog
from espalier.model.formats.block_minifloat import BlockMinifloat
from espalier.model.formats.blocks import BlockFormat, Blocks
from espalier.model.formats.mxfp import MXFP
from espalier.model.formats.mxint import MXInt
from espalier.model.formats.nvfp4 import NVFP4
from espalier.model.formats.nvfp4_row import NVFP4Row
from espalier.model.formats.straight_through import straight_through
from tests.contract.format_cases import BLOCKED, FLOAT, apply, floor_log2, mirrored, nearest, nearest_power, probes

EMAX = {"e5m2": 15, "e4m3": 8, "e3m2": 4, "e2m3": 2, "e2m1": 2}
each = pytest.mark.parametrize("fmt", BLOCKED, ids=str)
POWERED = [f for f in BLOCKED if not f.name.startswith("nvfp4")]


def exponent(fmt: BlockFormat, e: Array) -> Array:
    """Exponent of the scale of blocks whose largest magnitude has the exponent `e`, by the definitions."""
    match fmt:
        case MXInt():
            return np.clip(e, -127, 127)
        case MXFP():
            return np.clip(e - EMAX[fmt.element], -127, 127)
        case BlockFP():
            bias = 2 ** (fmt.exponent_width - 1) - 1 if fmt.exponent_bias is None else fmt.exponent_bias
            return np.clip(e, -bias, min(2**fmt.exponent_width - 1 - bias, 127))
        case BlockMinifloat():
            return -np.clip(2**fmt.exponent_width - 1 - e, 0, 2**fmt.exponent_bias_width - 1)
        case _:
            raise AssertionError(fmt)


def expected(fmt: BlockFormat, blocks: Array) -> Array:
    """Values of blocks (n, elements) by brute force, float64."""
    top = np.abs(blocks).max(-1, keepdims=True)
    match fmt:
        case BlockLog():
            power = nearest_power(top, -150, 200)
            e = np.where(top == 0, 0, np.log2(np.where(power == 0, 1, power)).astype(int))
            codes = 2 ** (fmt.width - 1) - 1
            bias = np.clip(codes - e, 0, 2**fmt.exponent_bias_width - 1)
            return nearest_power(blocks, 1 - bias, np.minimum(codes - bias, 127))
        case NVFP4():
            s = max(np.float32(top.max()) / np.float32(2688), FLOAT.tiny)
            e4m3 = parse_format("minifloat_ieee(reserved=nan)").codes()
            t = nearest(e4m3, top / (np.float32(6) * s)).astype(np.float32) * s
            scaled = blocks / np.where(t == 0, np.float32(1), t)
            found = nearest(fmt.codes(), scaled).astype(np.float32).astype(np.float64) * t
            return np.clip(found, -FLOAT.max, FLOAT.max).astype(np.float32).astype(np.float64)
        case _:
            scale = np.ldexp(1.0, exponent(fmt, floor_log2(top.astype(np.float64))))
            # In a grid of one binade the numbers are k themselves, and even ones exist with a single digit, too.
            one_digit = not isinstance(fmt, MXInt | BlockFP) and fmt.grid.mantissa == 0  # type: ignore[attr-defined]
            return nearest(fmt.codes(), blocks.astype(np.float64) / scale, one_digit) * scale


BRUTE = [f for f in BLOCKED if f.element_bits <= 16 and f.name != "nvfp4_row"]  # which has a test of its own


@pytest.mark.parametrize("fmt", BRUTE, ids=str)
def test_each_element_is_the_nearest_under_its_blocks_scale(fmt: BlockFormat) -> None:
    count = 50_000 if fmt.element_bits <= 8 else 5_000
    blocks = fmt.blocks.split(probes(fmt, count))
    flat = blocks.reshape(-1, fmt.blocks.elements)
    got = apply(fmt, fmt.blocks.merge(blocks, shape_of(blocks)))
    got = fmt.blocks.split(got).reshape(flat.shape).astype(np.float64)
    want = expected(fmt, flat)
    wrong = got != want
    assert not wrong.any(), (flat[wrong][:5], got[wrong][:5], want[wrong][:5])


def shape_of(blocks: Array) -> tuple[int, ...]:
    """Shape of the plane that full blocks make."""
    *_, n, m, rows, block = blocks.shape
    return n * rows, m * block


def test_every_tie_of_an_element_goes_to_even() -> None:
    """Halves between codes under many scales; the top of the block stands beside them."""
    for text in ("mxint(width=4, block=2)", "block_fp(width=5, block=2)", "mxfp(element=e2m3, block=2)"):
        fmt = parse_format(text)
        codes = fmt.codes()
        middles = (codes[1:] + codes[:-1]) / 2
        for power in (-120, -3, 0, 90):
            pairs = np.ldexp(np.stack([middles, np.full_like(middles, codes[-1])], -1), power).astype(np.float32)
            want = expected(fmt, pairs)  # type: ignore[arg-type]
            np.testing.assert_array_equal(apply(fmt, pairs), want)


# -- where blocks lie


@pytest.mark.parametrize("fmt", POWERED, ids=str)
@pytest.mark.parametrize("shape", [(), (7,), (37,), (5, 37), (2, 3, 5, 19), (3, 0), (0, 4)], ids=str)
def test_each_tile_is_quantised_for_itself(fmt: BlockFormat, shape: tuple[int, ...]) -> None:
    """Short ones too: as if each were a tensor of its own."""
    rng = np.random.default_rng(1)
    x = np.ldexp(rng.normal(0, 1, shape), rng.integers(-20, 20, shape)).astype(np.float32)
    got = apply(fmt, x)
    plane = x.reshape((-1, *((1,) * (2 - x.ndim) + x.shape)[-2:])) if x.size else x.reshape(0, 1, 1)
    flat = make_format(fmt.name, {**parameters(fmt), "block": fmt.blocks.elements, "rows": 1})
    want = np.empty_like(plane)
    for i in range(plane.shape[0]):
        for r in range(0, plane.shape[1], fmt.blocks.rows):
            for c in range(0, plane.shape[2], fmt.blocks.block):
                tile = plane[i, r : r + fmt.blocks.rows, c : c + fmt.blocks.block]
                want[i, r : r + fmt.blocks.rows, c : c + fmt.blocks.block] = apply(flat, tile.ravel()).reshape(
                    tile.shape
                )
    np.testing.assert_array_equal(got, want.reshape(shape))


@given(st.lists(st.integers(0, 7), max_size=4), st.integers(1, 9), st.integers(1, 4))
@settings(max_examples=100, derandomize=True)
def test_merging_undoes_splitting(shape: list[int], block: int, rows: int) -> None:
    """For numpy and torch, any rank."""
    blocks, x = Blocks(block, rows), np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    cut = blocks.split(x)
    assert cut.shape == (*blocks.counts(x.shape), rows, block)
    np.testing.assert_array_equal(blocks.merge(cut, x.shape), x)
    same = blocks.split(torch.from_numpy(x))
    np.testing.assert_array_equal(same.numpy(), cut)
    np.testing.assert_array_equal(blocks.merge(same, x.shape).numpy(), x)


@each
def test_an_all_zero_block_is_zero_beside_others(fmt: BlockFormat) -> None:
    x = np.zeros((2 * fmt.blocks.rows, 3 * fmt.blocks.block), np.float32)
    assert (apply(fmt, x) == 0).all() and (fmt.rounded(x) == 0).all()
    x[:, : fmt.blocks.block] = 5
    assert (apply(fmt, x)[:, fmt.blocks.block :] == 0).all()


@each
def test_nan_leaves_its_neighbours_alone(fmt: BlockFormat) -> None:
    x = probes(fmt, 500)
    holes = np.random.default_rng(2).random(x.shape) < 0.1
    torn, filled = np.where(holes, np.float32(np.nan), x), np.where(holes, np.float32(0), x)
    got = apply(fmt, torn)
    assert np.isnan(got[holes]).all()
    np.testing.assert_array_equal(got[~holes], apply(fmt, filled)[~holes])
    assert not fmt.inside(torch.from_numpy(torn)).numpy()[holes].any()


@pytest.mark.slow
@each
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_infinity_counts_as_the_largest_of_its_dtype(fmt: BlockFormat, dtype: torch.dtype) -> None:
    x = torch.tensor([[torch.inf, 1.0], [-torch.inf, 3.0]], dtype=dtype)
    most = torch.finfo(dtype).max
    got = straight_through(fmt, x)
    assert got.isfinite().all() and torch.equal(got, straight_through(fmt, x.clamp(-most, most)))
    assert not fmt.inside(x)[:, 0].any()


# -- laws of blocks


def clipped(fmt: BlockFormat, x: Array) -> bool:
    """Whether the shared field lies at an end of its range."""
    shared = fmt.encode(x).shared[0]
    return bool(((shared.values == 0) | (shared.values >= 2**shared.bits - 1)).any())


LEVEL = mirrored(np.random.default_rng(4).uniform(0.5, 1, (20, 64)).astype(np.float32))
FREE = [(f, k) for f in POWERED for k in (-5, 1, 9) if not clipped(f, LEVEL) and not clipped(f, np.ldexp(LEVEL, k))]


@pytest.mark.parametrize("fmt, shift", FREE, ids=str)
def test_a_power_of_two_goes_through(fmt: BlockFormat, shift: int) -> None:
    """q(x·2^k) = q(x)·2^k, as long as the shared field is not at an end of its range."""
    np.testing.assert_array_equal(apply(fmt, np.ldexp(LEVEL, shift)), np.ldexp(apply(fmt, LEVEL), shift))


def test_all_kinds_of_blocks_are_tried_there() -> None:
    assert {f.name for f, _ in FREE} == {f.name for f in POWERED} and len(FREE) > 60


@pytest.mark.parametrize("exponent_width, bias", [(4, -126), (1, -100), (3, 0), (3, 9), (2, 60), (8, 127)])
@pytest.mark.parametrize("width", [2, 6, 12])
def test_a_given_bias_bounds_the_shared_exponent(exponent_width: int, bias: int, width: int) -> None:
    fmt = BlockFP(width, exponent_width, block=4, exponent_bias=bias)
    x = np.random.default_rng(0).normal(size=(60, 4)) * np.ldexp(1.0, np.arange(-120, 120, 4))[:, None]
    exponent = np.floor(np.log2(np.abs(x.astype(np.float32)).max(1, keepdims=True).astype(np.float64)))
    step = 2.0 ** (exponent.clip(-bias, min(2**exponent_width - 1 - bias, 127)) - (width - 2))
    most = 2 ** (width - 1) - 1
    want = (np.rint(x.astype(np.float32) / step).clip(-most, most) * step).astype(np.float32)
    found = fmt.forward(torch.from_numpy(x.astype(np.float32))).numpy()
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(fmt.rounded(x.astype(np.float32)), want)


def test_nvfp4_follows_the_tensors_scale() -> None:
    """Powers of two go through, and a second quantising changes no more than the last bit."""
    fmt = NVFP4()
    x = np.random.default_rng(6).normal(0, 1, (64, 64)).astype(np.float32)
    once = apply(fmt, x)
    np.testing.assert_array_equal(apply(fmt, x * 2.0**-90), once * np.float32(2.0**-90))
    np.testing.assert_allclose(apply(fmt, once), once, rtol=2.0**-22)


@pytest.mark.parametrize("block", [16, 5])
def test_nvfp4_by_row_is_nvfp4_of_each_row_alone(block: int) -> None:
    row, whole = NVFP4Row(block), NVFP4(block)
    rng = np.random.default_rng(16)
    x = np.ldexp(rng.normal(0, 1, (2, 7, 33)), rng.integers(-140, 120, (2, 7, 1))).astype(np.float32)
    x[0, 0], x[0, 1, 3], x[0, 1, 20] = 0, np.inf, np.nan
    alone = np.stack([[apply(whole, each[None])[0] for each in plane] for plane in x])
    np.testing.assert_array_equal(apply(row, x), alone)
    np.testing.assert_array_equal(apply(row, x[0, 2]), alone[0, 2])
    changed = x.copy()
    changed[:, 1:] *= 3
    np.testing.assert_array_equal(apply(row, changed)[:, 0], alone[:, 0])
    assert apply(row, x[:, :, :0]).shape == (2, 7, 0)


@pytest.mark.parametrize("fmt", POWERED, ids=str)
def test_the_gradient_stops_where_the_top_of_a_block_is_clipped(fmt: BlockFormat) -> None:
    """Elsewhere it passes: all of a block lies within its own scale."""
    x = torch.from_numpy(np.random.default_rng(8).normal(0, 1, (64, 96)).astype(np.float32))
    inside, values = fmt.inside(x), straight_through(fmt, x)
    assert inside.any() and (values[~inside].abs() <= x[~inside].abs()).all()
    again = x.clone().requires_grad_()
    straight_through(fmt, again).sum().backward()
    assert again.grad is not None and torch.equal(again.grad, inside.float())


def test_a_clipped_top_by_hand() -> None:
    fmt = MXInt(4, 2)  # k/4 under a scale of 1: up to 1.75, and 1.875 would be 2
    x = torch.tensor([[1.875, 0.3], [1.8125, 0.3]])
    assert straight_through(fmt, x).tolist() == [[1.75, 0.25], [1.75, 0.25]]
    assert fmt.inside(x).tolist() == [[False, True], [True, True]]


# -- bits


@pytest.mark.parametrize(
    "text, bits",
    [
        ("block_fp(width=8, exponent_width=8, block=16)", 8.5),
        ("mxint(width=8, block=32)", 8.25),
        ("mxint(width=4, block=32)", 4.25),
        ("mxint(width=8, block=[4, 16])", 8.125),
        ("mxfp(element=e2m1, block=32)", 4.25),
        ("mxfp(element=e3m2, block=32)", 6.25),
        ("block_minifloat(width=8, exponent_bias_width=4, block=16)", 8.25),
        ("block_log(width=4, exponent_bias_width=8, block=16)", 4.5),
        ("nvfp4(block=16)", 4.5),
    ],
)
def test_bits_count_what_a_block_shares(text: str, bits: float) -> None:
    assert parse_format(text).bits == bits


@pytest.mark.parametrize(
    "text, shape, stored",
    [
        ("mxint(width=8, block=32)", (10, 64), 640 * 8 + 20 * 8),
        ("mxint(width=8, block=32)", (10, 65), 650 * 8 + 30 * 8),
        ("mxint(width=8, block=32)", (), 16),
        ("mxint(width=8, block=[4, 16])", (2, 5, 17), 170 * 8 + 2 * 2 * 2 * 8),
        ("block_fp(width=4, exponent_width=5, block=16)", (3, 33), 99 * 4 + 9 * 5),
        ("nvfp4(block=16)", (3, 33), 99 * 4 + 9 * 8 + 32),
        ("nvfp4_row(block=16)", (2, 3, 33), 198 * 4 + 18 * 8 + 6 * 32),
    ],
)
def test_stored_bits_count_short_blocks(text: str, shape: tuple[int, ...], stored: int) -> None:
    assert parse_format(text).stored_bits(shape) == stored


# -- what the predecessor got wrong


def sqnr(fmt: Any, x: Array) -> float:
    """Signal over error in dB."""
    signal, error = np.square(x, dtype=np.float64).sum(), np.square(x.astype(np.float64) - apply(fmt, x)).sum()
    return float(10 * np.log10(signal / error))


@pytest.fixture(scope="module")
def weights() -> Array:
    return np.random.default_rng(0).normal(0, 0.02, (768, 768)).astype(np.float32)


@pytest.mark.parametrize(
    "text, decibels",
    [
        ("mxint(width=8, block=32)", 42.4),
        ("mxfp(element=e4m3, block=32)", 30.7),
        ("integer(width=8, frac_width=7)", 19.0),
        ("integer(width=8, frac_width=4)", 1.7),
    ],
)
def test_quality_on_normal_weights(text: str, decibels: float, weights: Array) -> None:
    assert sqnr(parse_format(text), weights) == pytest.approx(decibels, abs=0.1)


def test_mxfp_carries_into_the_next_binade() -> None:
    x = np.linspace(1.95, 1.99, 41, dtype=np.float32)
    pairs = np.stack([x, np.full_like(x, 3.5)], -1)  # scale 2^−7
    np.testing.assert_array_equal(apply(MXFP("e4m3", 2), pairs), np.stack([np.full_like(x, 2.0), pairs[:, 1]], -1))
    alone = apply(MXFP("e4m3", 1), x[:, None])  # scale 2^−8: beyond 448 of it
    np.testing.assert_array_equal(alone, np.full_like(alone, 1.75))


@pytest.mark.parametrize("bias_width", [4, 8])
def test_block_minifloat_keeps_small_weights(bias_width: int, weights: Array) -> None:
    """A larger maximum has a smaller bias."""
    fmt = BlockMinifloat(8, 4, bias_width)
    assert sqnr(fmt, weights) > 31
    assert (apply(fmt, weights) == 0).mean() < 0.001
    small, large = (int(BlockMinifloat().encode(np.array([v], np.float32)).shared[0].values[0, 0]) for v in (0.02, 20))
    assert (small, large) == (15 + 6, 15 - 4)


def test_ieee_minifloat_carries() -> None:
    assert apply(parse_format("minifloat_ieee"), np.array([0.99], np.float32)) == 1.0


@each
def test_a_power_of_two_as_maximum_is_exact(fmt: BlockFormat) -> None:
    x = np.zeros((fmt.blocks.rows, fmt.blocks.block), np.float32)
    for power in (-3.0, 0.0, 2.0):
        x[0, 0] = 2.0**power
        scaled = fmt.name.startswith("nvfp4")
        if scaled or not clipped(fmt, x):
            np.testing.assert_allclose(apply(fmt, x), x, rtol=2.0**-23 if scaled else 0)


@pytest.mark.parametrize("fmt", [f for f in POWERED if f.element_bits <= 8 and "width=8" in str(f)], ids=str)
def test_values_below_1e8_are_quantised_too(fmt: BlockFormat) -> None:
    x = np.random.default_rng(9).normal(0, 1e-9, (64, 96)).astype(np.float32)
    got = apply(fmt, x)
    values = np.unique(fmt.blocks.split(np.abs(got)).reshape(-1, fmt.blocks.elements)[0])
    assert (got != x).mean() > 0.9 and len(values) <= 2**7
