"""Formats with a scale of the tensor, row or group, and binary ones: their definitions by brute force, laws, gradients,
stored bits, chance. What every format shares is in test_formats.py; laws that do not hold are said here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from espalier.model.document.codec import decode_format, encode
from espalier.model.errors import FormatError
from espalier.model.formats.base import Array, Format, make_format, parse_format
from espalier.model.formats.binary import Binary
from espalier.model.formats.binary_residual import BinaryResidual
from espalier.model.formats.binary_scaled import BinaryScaled
from espalier.model.formats.offset_integer import OffsetInteger
from espalier.model.formats.scaled import ScaledFormat, shared_shape
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.stored_scale import array_scale, tensor_scale
from espalier.model.formats.straight_through import straight_through, straight_through_scaled
from espalier.model.formats.ternary import Ternary

INTEGERS = [
    *(ScaledInteger(w, g, 5) for w in (2, 4, 8, 16) for g in ("tensor", "channel", "group")),
    *(ScaledInteger(w, g, 5, symmetric=False) for w in (2, 8, 16) for g in ("tensor", "channel", "group")),
    *(ScaledInteger(8, g, 5, s, d) for g in ("channel", "group") for s in (True, False)
      for d in ("bfloat16", "float16")),
]  # fmt: skip
SYMMETRIC = [f for f in INTEGERS if f.symmetric]
SIGNS: list[ScaledFormat] = [
    *(BinaryScaled(g) for g in ("tensor", "channel")),
    *(BinaryResidual(n, g) for n in (1, 2, 3) for g in ("tensor", "channel")),
    *(Ternary(t, g) for t in (0.0, 0.7) for g in ("tensor", "channel")),
]
ELEMENTS: list[ScaledFormat] = [
    *(ScaledElement(e, g, 5) for e in ("int8", "int4", "int2", "e4m3", "e2m1") for g in ("tensor", "channel", "group")),
    ScaledElement("e5m2"), ScaledElement("e3m2"), ScaledElement("e2m3"),
    ScaledElement("int8", "group", 5, "bfloat16"), ScaledElement("int4", "group", 5, "float16"),
    ScaledElement("e4m3", "group", 5, "bfloat16"),
]  # fmt: skip
OFFSETS: list[ScaledFormat] = [OffsetInteger(w, g, 5) for w in (1, 4, 8) for g in ("tensor", "channel", "group")]
SCALED: list[ScaledFormat] = [*INTEGERS, *SIGNS, *ELEMENTS, *OFFSETS]
BINARY = [Binary(), Binary(bipolar=False)]
RULED: list[Format] = [*SCALED, *BINARY]
SHAPES = [(), (1,), (7,), (4, 13), (2, 3, 11), (2, 1, 3, 5), (0,), (3, 0), (0, 4)]
each = pytest.mark.parametrize("fmt", RULED, ids=str)
each_scaled = pytest.mark.parametrize("fmt", SCALED, ids=str)
each_integer = pytest.mark.parametrize("fmt", INTEGERS, ids=str)


def rows(count: int = 200, size: int = 23, seed: int = 3) -> Array:
    """Rows at every scale, of many kinds: dense, sparse, all zero, one-sided, equal, with an outlier."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, size)) * np.ldexp(1.0, rng.integers(-100, 90, (count, 1)))
    x[::7] *= rng.random((len(x[::7]), size)) < 0.3
    x[1::9] = np.abs(x[1::9])
    x[2::11, 4] *= 50
    x[3::13] = x[3::13, :1]
    x[5] = 0
    return x.astype(np.float32)


def apply(fmt: Format, x: Array) -> Array:
    return straight_through(fmt, torch.from_numpy(np.array(x))).numpy()


def each_group(fmt: ScaledInteger, x: Array) -> Iterator[tuple[int, int, slice]]:
    """(row, index of its scale, columns) of a matrix, for what shares a scale within a row."""
    size = fmt.group if fmt.granularity == "group" else x.shape[1]
    for row in range(len(x)):
        for i, start in enumerate(range(0, x.shape[1], size)):
            yield row, i, slice(start, start + size)


def scales(fmt: ScaledFormat, x: Array) -> Array:
    return fmt.scale_of(torch.from_numpy(np.array(x))).numpy()


# -- numpy and torch are one definition


@each
def test_decoding_what_was_encoded_is_quantising(fmt: Format) -> None:
    x = rows()
    got = fmt.rounded(x)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, apply(fmt, x))
    if isinstance(fmt, ScaledFormat):
        np.testing.assert_array_equal(fmt.scale_of_array(x), scales(fmt, x))


@each
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape(fmt: Format, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(4))
    got = straight_through(fmt, x)
    assert got.shape == x.shape and got.dtype == x.dtype and fmt.inside(x).shape == x.shape
    np.testing.assert_array_equal(fmt.rounded(x.numpy()), got.numpy())
    if isinstance(fmt, ScaledFormat):
        assert tuple(fmt.scale_of(x).shape) == fmt.scale_shape(shape) == fmt.scale_of_array(x.numpy()).shape
    turned = torch.randn(5, 4, 6).permute(2, 0, 1)
    assert torch.equal(straight_through(fmt, turned), straight_through(fmt, turned.contiguous()))


@pytest.mark.slow
@each
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_other_dtypes(fmt: Format, dtype: torch.dtype) -> None:
    """16 bits: the float32 value, rounded once, never infinite. 64 bits: the same but near ties."""
    x = torch.randn(40, 13, generator=torch.Generator().manual_seed(5)).to(dtype)
    got, want = straight_through(fmt, x), straight_through(fmt, x.float())
    assert got.dtype == dtype
    if dtype == torch.float64:
        assert torch.isclose(got.float(), want).float().mean() > 0.995
    else:
        assert torch.equal(got, want.to(dtype))
        ends = torch.tensor([[torch.finfo(dtype).max, -torch.finfo(dtype).max, 1.0]], dtype=dtype)
        assert straight_through(fmt, ends).isfinite().all()


@each
def test_stored_bits_are_what_is_encoded(fmt: Format) -> None:
    for shape in ((4, 13), (7,), (2, 3, 10), ()):
        encoded = fmt.encode(np.random.default_rng(0).normal(size=shape).astype(np.float32))
        assert encoded.codes.shape == shape and (np.abs(encoded.codes) < 2**fmt.element_bits).all()
        shared = sum(s.values.size * s.bits for s in encoded.shared)
        assert all(np.issubdtype(s.values.dtype, np.unsignedinteger) for s in encoded.shared)
        assert all((s.values.astype(np.int64) < 2**s.bits).all() for s in encoded.shared)
        assert fmt.stored_bits(shape) == encoded.codes.size * fmt.element_bits + shared


def test_bits_by_hand() -> None:
    assert ScaledInteger(8, "channel").stored_bits((768, 3072)) == 768 * (3072 * 8 + 32)
    assert ScaledInteger(4, "group", 64, True, "bfloat16").bits == 4.25
    assert ScaledInteger(4, "group", 64).stored_bits((3, 100)) == 3 * (100 * 4 + 2 * 32)  # the last group is short
    assert ScaledInteger(8, "tensor", symmetric=False).stored_bits((10, 10)) == 800 + 32 + 8
    assert BinaryScaled("tensor").stored_bits((8, 8)) == 96 and Binary().stored_bits((8, 8)) == 64
    assert BinaryResidual(3, "channel").stored_bits((8, 8)) == 3 * (64 + 8 * 32)
    assert Ternary().stored_bits((8, 8)) == 128 + 8 * 32


# -- definitions, by brute force


@pytest.mark.parametrize("fmt", SYMMETRIC, ids=str)
def test_scale_is_the_largest_magnitude_over_the_largest_code(fmt: ScaledInteger) -> None:
    x = rows()
    got = scales(fmt, x)
    if fmt.granularity == "tensor":
        assert got == np.abs(x).max() / np.float32(fmt.top)
        return
    for r, i, columns in each_group(fmt, x):
        assert got[r, i] == np.abs(x[r, columns]).max() / np.float32(fmt.top)


@each_integer
def test_it_takes_the_nearest_code(fmt: ScaledInteger) -> None:
    """Under power-of-two scales all is exact: random values, all midpoints and ±1 ulp around them, ties to even."""
    rng = np.random.default_rng(6)
    low = -fmt.top if fmt.symmetric else -(fmt.top // 3)
    high = fmt.top if fmt.symmetric else low + fmt.top
    ints = np.arange(low, high + 1)
    ints = ints if len(ints) < 600 else rng.choice(ints, 600)
    near = np.concatenate([ints, ints + 0.5, rng.uniform(2 * low, 2 * high, 500)]).astype(np.float32)
    x = np.concatenate([near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))])
    for exponent in (-10, 0, 7):
        step = np.float32(2.0**exponent)
        given = np.full(shared_shape(x.shape, fmt.per), step)
        if not fmt.symmetric:
            given = np.stack([given, given * np.float32(low)])
        got = fmt.with_scale(torch.from_numpy(x * step), torch.from_numpy(given)).numpy()
        np.testing.assert_array_equal(got, np.clip([round(float(v)) for v in x], low, high) * step)
        np.testing.assert_array_equal(fmt.decode(fmt.encode_with(x * step, given)), got)


def steps_of(fmt: ScaledInteger, x: Array) -> Array:
    """The stored scale of each element of a matrix, from its bit pattern."""
    values = fmt.encode(x).shared[0].values
    if fmt.scale_dtype == "float16":
        step = values.view(np.float16).astype(np.float64)
    else:
        step = (values.astype(np.uint32) << (16 if fmt.scale_dtype == "bfloat16" else 0)).view(np.float32)
    wide = np.repeat(step, fmt.group, -1)[..., : x.shape[1]] if fmt.granularity == "group" else step
    return np.broadcast_to(np.asarray(wide, np.float64), x.shape)


@each_integer
def test_the_error_is_half_a_step_and_zero_is_exact(fmt: ScaledInteger) -> None:
    """Nothing clips under the data's own scale; without symmetry the zero point's rounding adds half a step."""
    x = rows() if fmt.scale_dtype != "float16" else np.random.default_rng(1).normal(size=(50, 23)).astype(np.float32)
    got, step = apply(fmt, x).astype(np.float64), steps_of(fmt, x)
    slack = fmt.top * 2.0**-22  # code·s is rounded to float32
    assert (np.abs(got - x) <= step * ((0.5 if fmt.symmetric else 1) + slack)).all()
    assert (got[x == 0] == 0).all() and not apply(fmt, np.zeros_like(x)).any()
    assert (np.abs(got - x) > 0.3 * step).any()


def test_16_bit_scales_are_the_next_above() -> None:
    """Against all float16 and bfloat16 values."""
    rng = np.random.default_rng(2)
    x = np.ldexp(rng.uniform(1, 2, 4000), rng.integers(-30, 15, 4000)).astype(np.float32)
    for dtype in ("float16", "bfloat16"):
        bits = torch.arange(1, 2**15, dtype=torch.int32).to(torch.int16)
        known = bits.view(getattr(torch, dtype)).float().numpy()
        known = known[np.isfinite(known)]
        want = known[np.searchsorted(known, x)]
        np.testing.assert_array_equal(array_scale(x, dtype), want)
        np.testing.assert_array_equal(tensor_scale(torch.from_numpy(x), dtype).numpy(), want)
        np.testing.assert_array_equal(array_scale(want, dtype), want)
        for end in (0.0, 1e-45, 3e38):
            assert 0 < array_scale(np.float32(end), dtype) < np.inf
            assert array_scale(np.float32(end), dtype) == tensor_scale(torch.tensor(end), dtype).item()


def one_group(fmt: ScaledFormat, row: list[float], given: list[float] | None) -> list[float]:
    """The definitions of binary_scaled, binary_residual and ternary in Python's own arithmetic."""
    mean = lambda values: np.float32(math.fsum(values) / max(len(values), 1))  # noqa: E731
    if isinstance(fmt, Ternary):
        delta = np.float32(math.fsum(map(abs, row)) / len(row) * fmt.threshold)
        kept = [abs(v) for v in row if abs(v) > delta]
        alpha = given[0] if given else mean(kept)
        return [float(alpha * np.sign(v)) if abs(v) > delta else 0.0 for v in row]
    left, total = [np.float32(v) for v in row], [np.float32(0)] * len(row)
    for level in range(getattr(fmt, "levels", 1)):
        alpha = np.float32(given[level]) if given else mean([abs(float(v)) for v in left])
        signs = [np.float32(1 if v >= 0 else -1) for v in left]
        total = [t + alpha * s for t, s in zip(total, signs, strict=True)]
        left = [v - alpha * s for v, s in zip(left, signs, strict=True)]
    return [float(t) for t in total]


@pytest.mark.parametrize("fmt", SIGNS, ids=str)
@pytest.mark.parametrize("given", [None, [0.75, 0.5, 0.125]], ids=["own", "given"])
def test_signs_follow_their_definition(fmt: ScaledFormat, given: list[float] | None) -> None:
    x = rows(60, 17)
    groups = [x] if getattr(fmt, "granularity", "") == "tensor" else [r[None] for r in x]
    want = np.concatenate([one_group(fmt, g.ravel().tolist(), given) for g in groups]).reshape(x.shape)
    if given is None:
        got = apply(fmt, x)
    else:
        shape = fmt.scale_shape(x.shape)
        levels = np.array(given[: getattr(fmt, "levels", 1)], np.float32)
        if not isinstance(fmt, BinaryResidual):
            levels = levels[0]
        scale = np.array(np.broadcast_to(levels.reshape(levels.shape + (1,) * (len(shape) - levels.ndim)), shape))
        got = straight_through_scaled(fmt, torch.from_numpy(x), torch.from_numpy(scale)).numpy()
        np.testing.assert_array_equal(fmt.decode(fmt.encode_with(x, scale)), got)
    np.testing.assert_array_equal(got, want.astype(np.float32))


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_residual_signs_take_the_nearest_sum(levels: int) -> None:
    """Where each scale is not below the sum of those after it, greedy signs are the nearest of all sums."""
    fmt, alphas = BinaryResidual(levels, "tensor"), np.array([0.5, 0.25, 0.125][:levels], np.float32)
    x = np.random.default_rng(0).uniform(-2, 2, 5000).astype(np.float32)
    got = fmt.with_scale(torch.from_numpy(x), torch.from_numpy(alphas)).numpy()
    sums = np.array([0.0])
    for a in alphas:
        sums = np.concatenate([sums - a, sums + a])
    assert np.array_equal(np.abs(got - x), np.abs(x[:, None] - sums).min(1).astype(np.float32))


def test_signs_by_hand() -> None:
    x = torch.tensor([[0.5, -1.5, 0.0, 2.0]])
    assert straight_through(Binary(), x).tolist() == [[1, -1, 1, 1]]
    assert straight_through(Binary(bipolar=False), x).tolist() == [[1, 0, 0, 1]]
    assert straight_through(BinaryScaled(), x).tolist() == [[1, -1, 1, 1]]
    assert straight_through(BinaryResidual(2), x).tolist() == [[0.25, -1.75, 0.25, 1.75]]
    assert straight_through(Ternary(), x).tolist() == [[0, -1.75, 0, 1.75]]


@pytest.mark.parametrize("fmt", [BinaryScaled("tensor"), Ternary(granularity="tensor")], ids=str)
def test_mean_scales_are_least_squares(fmt: ScaledFormat) -> None:
    x = torch.randn(500, generator=torch.Generator().manual_seed(2))
    best = fmt.scale_of(x)
    error = [float((fmt.with_scale(x, best * f) - x).square().sum()) for f in (0.99, 1.0, 1.01)]
    assert error[1] < min(error[0], error[2])


# -- laws


WHOLE = [f for f in ELEMENTS if getattr(f, "integer", False)]  # one more code below zero than above
ODD = [f for f in RULED if f != Binary(bipolar=False) and getattr(f, "symmetric", True) and f not in (*WHOLE, *OFFSETS)]
SAME_AGAIN = [f for f in RULED if not isinstance(f, BinaryResidual) and f not in WHOLE
              and getattr(f, "scale_dtype", "float32") == "float32"]  # fmt: skip
MONOTONE = [f for f in RULED if getattr(f, "levels", 1) == 1]


@pytest.mark.parametrize("fmt", ODD, ids=str)
def test_signed_formats_mirror(fmt: Format) -> None:
    """Not 0/1, zero points that round differently, and zero's own sign."""
    x = rows()
    x[x == 0] = 1e-3  # sign(0) is +1 on both sides
    got, turned = apply(fmt, x), apply(fmt, -x)
    odd = got == -turned
    assert odd.all() if not isinstance(fmt, BinaryResidual) else odd.mean() > 0.98  # residuals can be 0


@pytest.mark.parametrize("fmt", SAME_AGAIN, ids=str)
def test_idempotent(fmt: Format) -> None:
    """Not residual signs and 16-bit scales: what they give has another scale. Without symmetry, under one scale."""
    once = apply(fmt, rows())
    if isinstance(fmt, OffsetInteger) or (isinstance(fmt, ScaledInteger) and not fmt.symmetric):
        x = torch.from_numpy(once)
        again = fmt.with_scale(x, fmt.scale_of(torch.from_numpy(rows())))
        np.testing.assert_array_equal(again.numpy(), once)
    else:
        np.testing.assert_allclose(apply(fmt, once), once, rtol=2e-7)  # q·s/q may miss s by one bit


@each_scaled
def test_scales_move_with_powers_of_two(fmt: ScaledFormat) -> None:
    x = np.random.default_rng(0).normal(size=(40, 23)).astype(np.float32)
    for exponent in (-5, 5):  # float16 scales become denormal below
        np.testing.assert_array_equal(apply(fmt, np.ldexp(x, exponent)), np.ldexp(apply(fmt, x), exponent))


@pytest.mark.parametrize("fmt", MONOTONE, ids=str)
def test_monotone_within_what_shares_a_scale(fmt: Format) -> None:
    """Not residual signs: where a scale is below the sum of those after it, they overshoot."""
    x = rows(40, 5) if getattr(fmt, "granularity", "tensor") != "tensor" else rows(40, 5).reshape(1, -1)
    assert (np.diff(apply(fmt, np.sort(x, axis=-1)), axis=-1) >= 0).all()


@each
def test_values_that_are_not_numbers_do_not_disturb_others(fmt: Format) -> None:
    x = rows(30, 11)
    spoiled = x.copy()
    spoiled[:, 3], spoiled[:, 4], spoiled[:, 6] = np.nan, np.inf, -np.inf
    got = apply(fmt, spoiled)
    assert np.isnan(got[:, 3]).all() and np.isfinite(np.delete(got, 3, 1)).all()
    assert (got[:, 4:5] >= np.delete(got, 3, 1)).all() or getattr(fmt, "granularity", "") != "channel"
    if isinstance(fmt, ScaledFormat):
        quiet = np.where(np.isfinite(spoiled), spoiled, np.float32(0))
        if isinstance(fmt, ScaledInteger):
            np.testing.assert_array_equal(scales(fmt, spoiled), scales(fmt, quiet))
        ends = apply(fmt, np.array([[np.inf, -np.inf, np.nan, 0.0]], np.float32))
        assert np.isfinite(ends[0, [0, 1, 3]]).all() and np.isnan(ends[0, 2])


@each
def test_codes_are_all_values_at_a_scale_of_one(fmt: Format) -> None:
    codes = fmt.codes()
    assert codes.dtype == np.float32 and (np.diff(codes) > 0).all() and 1 < len(codes) <= 2**fmt.element_bits
    if isinstance(fmt, ScaledFormat):
        shape = fmt.scale_shape(codes.shape)
        scale = torch.ones(shape)
        if isinstance(fmt, OffsetInteger) or (isinstance(fmt, ScaledInteger) and not fmt.symmetric):
            scale[1] = 0
        if isinstance(fmt, BinaryResidual):
            scale = scale * (0.5 ** torch.arange(fmt.levels)).reshape(-1, *[1] * (len(shape) - 1))
        if not isinstance(fmt, Ternary):  # a given scale leaves the threshold as it is
            np.testing.assert_array_equal(fmt.with_scale(torch.from_numpy(codes), scale).numpy(), codes)


# -- against others


@pytest.mark.parametrize("symmetric", [True, False])
def test_torchs_fake_quantisation_under_the_same_scales(symmetric: bool) -> None:
    """torch multiplies by 1/s where we divide by s, so ties may differ; with power-of-two scales nothing does."""
    x = torch.randn(64, 300, generator=torch.Generator().manual_seed(8)) * 0.02
    for exact in (True, False):
        for granularity in ("tensor", "channel"):
            fmt = ScaledInteger(8, granularity, symmetric=symmetric)
            scale = fmt.scale_of(x)
            if exact:
                scale = torch.where(scale > 0, torch.exp2(scale.log2().ceil()), scale)  # not the negative minimum
            s, zero = (scale, torch.zeros_like(scale)) if symmetric else (scale[0], torch.round(-scale[1] / scale[0]))
            low, high = (-127, 127) if symmetric else (0, 255)
            if granularity == "tensor":
                want = torch.fake_quantize_per_tensor_affine(x, float(s), int(zero), low, high)
            else:
                want = torch.fake_quantize_per_channel_affine(x, s.flatten(), zero.flatten().int(), 0, low, high)
            got = fmt.with_scale(x, scale)
            assert torch.equal(got, want) if exact else torch.isclose(got, want, atol=1e-9).float().mean() > 0.9999


def test_error_of_gaussian_weights() -> None:
    x = torch.randn(3072, 768, generator=torch.Generator().manual_seed(0)) * 0.02
    sqnr = lambda f: 10 * math.log10(x.double().square().sum() / (x - straight_through(f, x)).double().square().sum())  # noqa: E731
    assert sqnr(ScaledInteger(8)) == pytest.approx(42.3, abs=0.1)
    assert sqnr(BinaryScaled()) == pytest.approx(-10 * math.log10(1 - 2 / math.pi), abs=0.05)  # E|x|² = 2/π·σ²


# -- words


@pytest.mark.parametrize("fmt", [*RULED, Binary(stochastic=True)], ids=str)
def test_text_and_json_round_trip(fmt: Format) -> None:
    assert parse_format(str(fmt)) == fmt == decode_format(json.loads(json.dumps(encode(fmt))))
    told = fmt.describe()
    assert told["formula"] and told["source"] and told["bits"] == fmt.bits and 0 < len(fmt.label) <= 24
    assert any(a.startswith("Linear") for a in told["aliases"])


def test_other_spellings() -> None:
    assert parse_format("scaled_integer(width=4, granularity=group(64))") == ScaledInteger(4, "group", 64)
    assert make_format("scaled_integer", {"granularity": "per_tensor"}) == ScaledInteger(granularity="tensor")
    assert make_format("binary_scaled", {"granularity": "row", "binary_training": True}) == BinaryScaled("channel")
    assert parse_format("binary(zero_one=true)") == Binary(bipolar=False)


BAD: list[tuple[str, dict[str, Any], str]] = [
    *(("scaled_integer", {"width": w}, "width must be a whole number from 2 to 16.") for w in (1, 17, 4.0, True, "8")),
    ("scaled_integer", {"group": 1}, "group must be a whole number from 2 to 65536."),
    ("scaled_integer", {"granularity": "group(1)"}, "group must be a whole number from 2 to 65536."),
    ("scaled_integer", {"granularity": "rows"}, "granularity must be tensor, channel, group."),
    ("scaled_integer", {"scale_dtype": "int8"}, "scale_dtype must be float32, bfloat16, float16."),
    ("scaled_integer", {"symmetric": 1}, "symmetric must be true or false."),
    ("binary", {"bipolar": "yes"}, "bipolar must be true or false."),
    ("binary", {"stochastic": 1}, "stochastic must be true or false."),
    ("binary", {"binary_training": False}, "Leave the layer in float, or set it to true."),
    ("binary_scaled", {"granularity": "group"}, "granularity must be tensor or channel."),
    ("binary_residual", {"levels": 4}, "levels must be a whole number from 1 to 3."),
    ("binary_residual", {"granularity": None}, "granularity must be tensor or channel."),
    *(("ternary", {"threshold": t}, "threshold must be a number from 0 to 0.99.") for t in (-0.1, 1, math.nan, "a")),
]


@pytest.mark.parametrize("name, values, hint", BAD)
def test_impossible_values_name_field_and_range(name: str, values: dict[str, Any], hint: str) -> None:
    with pytest.raises(FormatError) as caught:
        make_format(name, values)
    assert caught.value.hint == hint and next(iter(values)).split("_")[0] in f"{caught.value.message} group granularity"
