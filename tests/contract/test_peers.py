"""Small floats against other people's: ml_dtypes and torch's float8, on all codes and all bfloat16 numbers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from espalier.model.formats.base import Array, Encoded, parse_format
from espalier.model.formats.minifloat_ieee import MinifloatIEEE
from espalier.model.formats.straight_through import straight_through
from tests.contract.format_cases import apply

PEERS: list[tuple[str, Any, str]] = [
    ("minifloat_ieee(width=8, exponent_width=4, reserved=nan)", ml_dtypes.float8_e4m3fn, "e4m3"),
    ("minifloat_ieee(width=8, exponent_width=5, reserved=inf)", ml_dtypes.float8_e5m2, "e5m2"),
    ("minifloat_ieee(width=8, exponent_width=4, reserved=inf)", ml_dtypes.float8_e4m3, ""),
    ("minifloat_ieee(width=8, exponent_width=3, reserved=inf)", ml_dtypes.float8_e3m4, ""),
    ("minifloat_ieee(width=6, exponent_width=2)", ml_dtypes.float6_e2m3fn, "e2m3"),
    ("minifloat_ieee(width=6, exponent_width=3)", ml_dtypes.float6_e3m2fn, "e3m2"),
    ("minifloat_ieee(width=4, exponent_width=2)", ml_dtypes.float4_e2m1fn, "e2m1"),
    ("minifloat_ieee(width=16, exponent_width=5, reserved=inf)", np.float16, ""),
    ("minifloat_ieee(width=16, exponent_width=8, reserved=inf)", ml_dtypes.bfloat16, ""),
]
TORCH = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
each = pytest.mark.parametrize("text, peer, element", PEERS, ids=[p[0] for p in PEERS])


@pytest.fixture(scope="module")
def bfloats() -> Array:
    """All 2^16 bfloat16 numbers, NaN and infinities among them, as float32."""
    return np.arange(2**16, dtype=np.uint16).view(ml_dtypes.bfloat16).astype(np.float32)


def saturated(fmt: MinifloatIEEE, x: Array, theirs: Array) -> Array:
    """Their values, with our largest where theirs leave the finite numbers."""
    most = np.float32(fmt.grid.largest)
    beyond = ~np.isfinite(theirs) & ~np.isnan(x)
    return np.where(beyond, np.copysign(most, x), theirs)


def form(text: str) -> MinifloatIEEE:
    """The format of a text."""
    found = parse_format(text)
    assert isinstance(found, MinifloatIEEE)
    return found


@each
def test_all_codes_have_the_same_value(text: str, peer: Any, element: str) -> None:
    fmt = form(text)
    codes = np.arange(2**fmt.width)
    theirs = codes.astype(np.uint16 if fmt.width == 16 else np.uint8).view(peer).astype(np.float32)
    ours = fmt.decode(Encoded(codes))
    np.testing.assert_array_equal(ours, theirs)
    finite = np.isfinite(theirs)
    np.testing.assert_array_equal(fmt.codes(), np.unique(theirs[finite]))
    np.testing.assert_array_equal(fmt.encode(ours[finite]).codes, codes[finite])  # −0 too


@pytest.mark.slow
@each
def test_all_bfloat16_numbers_round_alike(text: str, peer: Any, element: str, bfloats: Array) -> None:
    fmt = form(text)
    with np.errstate(all="ignore"):
        theirs = bfloats.astype(peer).astype(np.float32)
    want = np.where(np.isnan(bfloats), np.float32(np.nan), saturated(fmt, bfloats, theirs))
    got = apply(fmt, bfloats)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(bfloats))
    half = straight_through(fmt, torch.from_numpy(bfloats).bfloat16())
    np.testing.assert_array_equal(half.float().numpy(), torch.from_numpy(want).bfloat16().float().numpy())


@each
def test_random_floats_round_alike(text: str, peer: Any, element: str) -> None:
    """float32 inputs beside the midpoints, which bfloat16 numbers do not reach."""
    fmt, rng = form(text), np.random.default_rng(1)
    values = fmt.codes().astype(np.float64)
    middles = ((values[1:] + values[:-1]) / 2).astype(np.float32)
    x = np.concatenate([np.nextafter(middles, np.float32(s)) for s in (-np.inf, np.inf)] + [middles])
    x = np.concatenate([x, rng.normal(0, min(fmt.grid.largest, 1e30) / 3, 100_000).astype(np.float32)])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(apply(fmt, x), saturated(fmt, x, x.astype(peer).astype(np.float32)))


@pytest.mark.parametrize("element", list(TORCH))
def test_torch_casts_alike(element: str, bfloats: Array) -> None:
    fmt = next(form(text) for text, _, e in PEERS if e == element)
    theirs = torch.from_numpy(bfloats).to(TORCH[element]).float().numpy()
    want = np.where(np.isnan(bfloats), np.float32(np.nan), saturated(fmt, bfloats, theirs))
    np.testing.assert_array_equal(apply(fmt, bfloats), want)
    codes = torch.arange(256, dtype=torch.uint8)
    np.testing.assert_array_equal(fmt.decode(Encoded(codes.long().numpy())), codes.view(TORCH[element]).float().numpy())


@pytest.mark.parametrize("text, peer, element", [p for p in PEERS if p[2]], ids=[p[2] for p in PEERS if p[2]])
def test_mxfp_elements_are_theirs_under_a_power_of_two(text: str, peer: Any, element: str) -> None:
    """Scales by torch.frexp, elements by their cast."""
    fmt, rng = parse_format(f"mxfp(element={element}, block=32)"), np.random.default_rng(2)
    np.testing.assert_array_equal(fmt.codes(), form(text).codes())
    x = np.ldexp(rng.normal(0, 1, (4000, 32)), rng.integers(-60, 60, (4000, 1))).astype(np.float32)
    emax = {"e5m2": 15, "e4m3": 8, "e3m2": 4, "e2m3": 2, "e2m1": 2}[element]
    scale = np.ldexp(1.0, np.frexp(np.abs(x).max(-1, keepdims=True))[1] - 1 - emax).astype(np.float32)
    with np.errstate(all="ignore"):
        theirs = saturated(form(text), x, (x / scale).astype(peer).astype(np.float32))
    np.testing.assert_array_equal(apply(fmt, x), theirs * scale)


def test_e8m0_scales_are_ml_dtypes() -> None:
    """The stored scale of a block, read as theirs, is the power of two that was used."""
    fmt, powers = parse_format("mxint(width=8, block=1)"), np.ldexp(1.0, np.arange(-127, 128)).astype(np.float32)
    stored = fmt.encode(powers[:, None]).shared[0].values.ravel()
    theirs = stored.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    np.testing.assert_array_equal(theirs, powers)
