"""Fixed point beyond what every format keeps: exact at any width, the golden file, torch's fake quantisation."""

from __future__ import annotations

import base64
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.model.formats.base import Array
from espalier.model.formats.integer import Integer
from espalier.model.formats.straight_through import straight_through
from tests.contract.format_cases import FORMS, apply, floors, probes, underflows

integers = st.builds(
    Integer,
    st.integers(1, 32),
    st.integers(-32, 64),
    st.booleans(),
    st.sampled_from(("nearest_even", "floor")),
)


def exact(fmt: Integer, x: float) -> Fraction:
    """The definition of `integer` in exact arithmetic."""
    scaled = Fraction(x) * Fraction(2) ** fmt.frac_width
    code = scaled.__floor__() if fmt.rounding == "floor" else round(scaled)
    lo, hi = fmt.limits
    return Fraction(min(max(code, lo), hi)) / Fraction(2) ** fmt.frac_width


@pytest.mark.slow
@given(integers, st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
@settings(max_examples=100, derandomize=True)
def test_integer_of_any_width_is_exact(fmt: Integer, values: list[float]) -> None:
    """Exactly the definition, rounded once to float32 where 25 bits and more do not fit it."""
    x = np.array(values, np.float32)
    got = apply(fmt, x)
    for value, result, lost in zip(x, got, underflows(fmt, x), strict=True):
        if not (lost and floors(fmt)):
            assert float(result) == float(np.float32(float(exact(fmt, float(value))))), (fmt, value)


# Each format is compiled for each type, which takes seconds. The largest codes of all but the last are beyond float16.
HALVES = [Integer(32, -32), Integer(20, 0, False, "floor"), Integer(32, 8), Integer(8, -12), Integer(16, 16)]


@pytest.mark.slow
@given(
    st.sampled_from(HALVES),
    st.lists(st.floats(width=16, allow_nan=False, allow_infinity=False), min_size=1, max_size=20),
)
@settings(max_examples=60, derandomize=True)
def test_finite_half_floats_stay_finite(fmt: Integer, values: list[float]) -> None:
    """A code that float16 cannot hold is not given: the largest that it can is."""
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.tensor(values, dtype=dtype)
        x = x[x.isfinite()]
        assert straight_through(fmt, x).isfinite().all()


@pytest.mark.parametrize("width", [24, 25, 31, 32])
@pytest.mark.parametrize("signed", [True, False])
def test_wide_integers_saturate_at_their_limits(width: int, signed: bool) -> None:
    fmt = Integer(width, 16, signed)
    lo, hi = fmt.limits
    x = torch.tensor([-3e38, 3e38, -np.inf, np.inf], dtype=torch.float64)
    assert straight_through(fmt, x).tolist() == [lo / 2**16, hi / 2**16, lo / 2**16, hi / 2**16]
    assert straight_through(fmt, x.float()).tolist() == [np.float32(v) for v in (lo / 2**16, hi / 2**16) * 2]
    assert fmt.inside(x).tolist() == [False] * 4


def test_golden_integers(shared: Path) -> None:
    """The shared golden file, bit for bit; its cases without frac_width are the half of the width."""
    data = json.loads((shared / "golden" / "integer.json").read_text())
    inputs = {k: floats(v["f32"], v["shape"]) for k, v in data["inputs"].items()}
    seen = set()
    for case in data["cases"]:
        given_, rounding = case["params"], {"integer": "nearest_even", "integer_floor": "floor"}[case["q"]]
        frac = given_["width"] // 2 if given_["frac_width"] is None else given_["frac_width"]
        fmt = Integer(given_["width"], frac, given_.get("is_signed", True), rounding)  # type: ignore[arg-type]
        got, want = apply(fmt, inputs[case["x"]]), floats(case["y"], case["shape"])
        np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32), f"{fmt} of {case['x']}")
        seen.add((rounding, fmt.width))
    assert {("nearest_even", 8), ("floor", 8), ("nearest_even", 32), ("floor", 32)} <= seen


def floats(text: str, shape: list[int]) -> Array:
    return np.frombuffer(base64.b64decode(text), "<f4").reshape(shape).copy()


NEAREST = [f for f in FORMS if f.bits <= 8 and isinstance(f, Integer) and not floors(f)]


@pytest.mark.parametrize("fmt", NEAREST, ids=str)
def test_integer_is_torchs_fake_quantisation(fmt: Integer) -> None:
    """Values and gradient of torch.fake_quantize, ties and limits included."""
    x = torch.from_numpy(probes(fmt, 2000))
    theirs, ours = x.clone().requires_grad_(), x.clone().requires_grad_()
    scale, (low, high) = 2.0**-fmt.frac_width, fmt.limits
    want = torch.fake_quantize_per_tensor_affine(theirs, scale, 0, low, high)
    got = straight_through(fmt, ours)
    want.sum().backward()
    got.sum().backward()
    tame = x.abs() * 2.0**fmt.frac_width < 2**31  # torch rounds through an int
    assert torch.equal(got[tame], want[tame]) and tame.sum() > 1000
    assert theirs.grad is not None and ours.grad is not None
    assert torch.equal(ours.grad[tame], theirs.grad[tame])


@pytest.mark.parametrize("signed", [True, False])
def test_floor_is_clipped_only_beyond_its_last_step(signed: bool) -> None:
    fmt = Integer(4, 1, signed, "floor")
    low, high = (v / 2 for v in fmt.limits)
    x = np.array([low, np.nextafter(np.float32(low), np.float32(-99)), high, high + 0.49, high + 0.5], np.float32)
    assert fmt.inside(torch.from_numpy(x)).tolist() == [True, False, True, True, False]


def test_integer_stores_its_width() -> None:
    assert [Integer(w, 0).bits for w in (1, 4, 8, 32)] == [1.0, 4.0, 8.0, 32.0]
    assert (Integer(8, 4).label, Integer(4, -2, signed=False).label) == ("int 8/4", "uint 4/-2")
