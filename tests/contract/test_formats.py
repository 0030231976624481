"""Every registered number format keeps its contract: nearest of its codes, the laws, the gradient, its names.

New formats are taken up by registering; what is special about one goes into VARIANTS.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from model.codec import decode_format, encode
from model.errors import FormatError
from model.formats.base import Array, Format, make_format, parameters, parse_format
from model.formats.integer import Integer
from model.registry import FORMATS

VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "integer": (
        {"width": 8, "frac_width": 4},
        {"width": 8, "frac_width": 4, "rounding": "floor"},
        {"width": 8, "frac_width": 4, "signed": False},
        {"width": 8, "frac_width": 4, "signed": False, "rounding": "floor"},
        {"width": 1, "frac_width": 0},
        {"width": 1, "frac_width": 0, "signed": False},
        {"width": 2, "frac_width": 1},
        {"width": 4, "frac_width": -2},
        {"width": 4, "frac_width": -32},
        {"width": 4, "frac_width": -32, "rounding": "floor"},
        {"width": 7, "frac_width": 12},
        {"width": 8, "frac_width": 64},
        {"width": 8, "frac_width": 64, "rounding": "floor"},
        {"width": 16, "frac_width": 8},
        {"width": 24, "frac_width": 20},
        {"width": 25, "frac_width": 20},
        {"width": 32, "frac_width": 16},
        {"width": 32, "frac_width": -32},
        {"width": 32, "frac_width": 64, "signed": False},
    )
}
FLOAT = np.finfo(np.float32)
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def every() -> list[Format]:
    """All variants of all registered formats, the plain default where no variant is listed."""
    return [make_format(name, values) for name, _ in FORMATS.items() for values in VARIANTS.get(name, ({},))]


FORMS = every()
SMALL = [f for f in FORMS if f.bits <= 8]
each = pytest.mark.parametrize("fmt", FORMS, ids=str)
each_small = pytest.mark.parametrize("fmt", SMALL, ids=str)


def floors(fmt: Format) -> bool:
    return getattr(fmt, "rounding", "") == "floor"


def probes(fmt: Format, count: int = 20_000) -> Array:
    """Random values at the format's scale and at every scale, all midpoints ±1 ulp, the extremes; float32."""
    rng = np.random.default_rng(7)
    codes = fmt.codes() if fmt.bits <= 8 else fmt.decode(rng.integers(-(2**30), 2**30, 400))
    span = max(float(np.abs(codes).max()), float(FLOAT.tiny))
    middles = ((codes[1:].astype(np.float64) + codes[:-1]) / 2).astype(np.float32)
    around = np.concatenate([codes, middles])
    beside = np.concatenate([np.nextafter(around, np.float32(s)) for s in (-np.inf, np.inf)])
    scales = np.ldexp(rng.uniform(-1, 1, 2000), rng.integers(-149, 128, 2000))
    edges = [0.0, FLOAT.tiny, FLOAT.smallest_subnormal, 1e-40, FLOAT.max, FLOAT.eps, 1.0, 0.1]
    parts = [around, beside, rng.uniform(-2, 2, count) * span, rng.normal(0, span / 3, count), scales, edges]
    found = np.concatenate([np.asarray(p, np.float32) for p in parts])
    return np.concatenate([found, -found])


def apply(fmt: Format, x: Array) -> Array:
    return fmt.quantize(torch.from_numpy(np.array(x))).numpy()


def underflows(fmt: Format, x: Array) -> Array:
    """Where x·2^f falls to zero in float32, in which all maths is done (golden integer.json: floor of it is 0)."""
    shift = getattr(fmt, "frac_width", 0)
    with np.errstate(all="ignore"):
        return (x != 0) & (np.ldexp(x, shift).astype(np.float32) == 0)


# -- the definition


def expected(fmt: Format, x: Array) -> Array:
    """Nearest of all codes, the even one in a tie; or the largest code that is not above x. By brute force."""
    codes = fmt.codes().astype(np.float64)
    even = fmt.encode(fmt.codes()) % 2 == 0
    value = np.clip(x.astype(np.float64), codes[0], codes[-1])
    right = np.clip(np.searchsorted(codes, value, "left"), 0, len(codes) - 1)
    left = np.clip(right - 1, 0, len(codes) - 1)
    if floors(fmt):
        return np.where(codes[right] <= value, codes[right], codes[left]).astype(np.float32)
    # The distances are exact where it matters: all terms are float32 values, held in float64.
    below, above = np.abs(value - codes[left]), np.abs(codes[right] - value)
    take_left = (below < above) | ((below == above) & even[left])
    return np.where(take_left, codes[left], codes[right]).astype(np.float32)


@each_small
def test_it_takes_the_nearest_code(fmt: Format) -> None:
    x = probes(fmt)
    x = x[~underflows(fmt, x)] if floors(fmt) else x
    got, want = apply(fmt, x), expected(fmt, x)
    wrong = got != want
    assert not wrong.any(), (x[wrong][:5], got[wrong][:5], want[wrong][:5])


def exact(fmt: Integer, x: float) -> Fraction:
    """The definition of `integer` in exact arithmetic."""
    scaled = Fraction(x) * Fraction(2) ** fmt.frac_width
    code = scaled.__floor__() if fmt.rounding == "floor" else round(scaled)
    lo, hi = fmt.limits
    return Fraction(min(max(code, lo), hi)) / Fraction(2) ** fmt.frac_width


integers = st.builds(
    Integer,
    st.integers(1, 32),
    st.integers(-32, 64),
    st.booleans(),
    st.sampled_from(("nearest_even", "floor")),
)


@given(integers, st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
@settings(max_examples=300, derandomize=True)
def test_integer_of_any_width_is_exact(fmt: Integer, values: list[float]) -> None:
    """Exactly the definition, rounded once to float32 where 25 bits and more do not fit it."""
    x = np.array(values, np.float32)
    got = apply(fmt, x)
    for value, result, lost in zip(x, got, underflows(fmt, x), strict=True):
        if not (lost and floors(fmt)):
            assert float(result) == float(np.float32(float(exact(fmt, float(value))))), (fmt, value)


@given(integers, st.lists(st.floats(width=16, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
@settings(max_examples=200, derandomize=True)
def test_finite_half_floats_stay_finite(fmt: Integer, values: list[float]) -> None:
    """A code that float16 cannot hold is not given: the largest that it can is."""
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.tensor(values, dtype=dtype)
        x = x[x.isfinite()]
        assert fmt.quantize(x).isfinite().all()


@pytest.mark.parametrize("width", [24, 25, 31, 32])
@pytest.mark.parametrize("signed", [True, False])
def test_wide_integers_saturate_at_their_limits(width: int, signed: bool) -> None:
    fmt = Integer(width, 16, signed)
    lo, hi = fmt.limits
    x = torch.tensor([-3e38, 3e38, -np.inf, np.inf], dtype=torch.float64)
    assert fmt.quantize(x).tolist() == [lo / 2**16, hi / 2**16, lo / 2**16, hi / 2**16]
    assert fmt.quantize(x.float()).tolist() == [np.float32(v) for v in (lo / 2**16, hi / 2**16) * 2]
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


# -- laws


@each
def test_quantising_twice_changes_nothing(fmt: Format) -> None:
    once = apply(fmt, probes(fmt, 500))
    np.testing.assert_array_equal(apply(fmt, once), once)


@each
def test_order_is_kept(fmt: Format) -> None:
    x = np.sort(probes(fmt, 500))
    assert (np.diff(apply(fmt, x).astype(np.float64)) >= 0).all()


MIRRORING = [f for f in FORMS if not floors(f) and getattr(f, "signed", True)]


@pytest.mark.parametrize("fmt", MIRRORING, ids=str)
def test_signed_formats_mirror(fmt: Format) -> None:
    """q(−x) = −q(x) wherever both stay in range (two's complement has one more code below zero)."""
    x = probes(fmt, 500)
    both = fmt.inside(torch.from_numpy(x)).numpy() & fmt.inside(torch.from_numpy(-x)).numpy()
    assert both.any()
    np.testing.assert_array_equal(apply(fmt, -x[both]), -apply(fmt, x[both]))


@each
def test_zero_and_the_extremes(fmt: Format) -> None:
    x = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, FLOAT.max, -FLOAT.max])
    got = fmt.quantize(x)
    assert got[0] == 0 and not torch.signbit(got[0])
    assert got[1] == 0
    assert got[2] == got[5] and got[3] == got[6] and got[2].isfinite() and got[3].isfinite()
    assert got[4].isnan() and not got[[0, 1, 2, 3, 5, 6]].isnan().any()


# -- codes


@each_small
def test_codes_are_all_values(fmt: Format) -> None:
    codes = fmt.codes()
    assert codes.dtype == np.float32 and (np.diff(codes) > 0).all()
    assert 1 < len(codes) <= 2 ** round(fmt.bits)
    np.testing.assert_array_equal(apply(fmt, codes), codes)
    np.testing.assert_array_equal(np.unique(apply(fmt, probes(fmt, 500))), codes)


@each
def test_codes_and_values_are_inverse(fmt: Format) -> None:
    values = apply(fmt, probes(fmt, 500))
    codes = fmt.encode(values)
    assert np.issubdtype(codes.dtype, np.integer) and codes.shape == values.shape
    np.testing.assert_array_equal(fmt.decode(codes), values)
    if fmt.bits <= 24:  # wider codes are not all float32 values
        np.testing.assert_array_equal(fmt.encode(fmt.decode(codes)), codes)


@each
def test_decoding_what_was_encoded_is_quantising(fmt: Format) -> None:
    x = probes(fmt, 500)
    x = x[~underflows(fmt, x)]
    decoded = fmt.decode(fmt.encode(x))
    assert decoded.dtype == np.float32
    np.testing.assert_array_equal(decoded, apply(fmt, x))
    assert fmt.decode(fmt.encode(np.zeros((2, 0, 3), np.float32))).shape == (2, 0, 3)


@each
def test_infinities_have_the_outermost_codes(fmt: Format) -> None:
    ends = np.array([np.inf, -np.inf, FLOAT.max, -FLOAT.max], np.float32)
    np.testing.assert_array_equal(fmt.decode(fmt.encode(ends)), apply(fmt, ends))


@pytest.mark.parametrize("fmt", [f for f in FORMS if f.bits > 16], ids=str)
def test_endless_lists_of_codes_are_refused(fmt: Format) -> None:
    with pytest.raises(FormatError, match="16"):
        fmt.codes()


# -- tensors


@each
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtype_shape_and_strides_do_not_matter(fmt: Format, dtype: torch.dtype) -> None:
    x = (torch.randn(4, 6, 2, generator=torch.Generator().manual_seed(1)) * 3).to(dtype)
    plain = fmt.quantize(x)
    assert plain.dtype == dtype and plain.shape == x.shape
    turned = x.permute(2, 0, 1)
    assert not turned.is_contiguous()
    assert torch.equal(fmt.quantize(turned), plain.permute(2, 0, 1))
    assert fmt.quantize(x[0, 0, 0]).shape == () and fmt.quantize(x[:0]).shape == (0, 6, 2)


@each
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_other_dtypes_give_the_float32_value(fmt: Format, dtype: torch.dtype) -> None:
    """The value of the same number, rounded once to the dtype."""
    x = torch.from_numpy(probes(fmt, 300)).to(dtype)
    x = x[x.isfinite() & (x.float().double() == x.double())]
    want = fmt.quantize(x.double()).to(dtype)
    fits = want.isfinite() & ~torch.from_numpy(underflows(fmt, x.float().numpy()))
    assert fits.any() and torch.equal(fmt.quantize(x)[fits], want[fits])


@each
def test_the_input_is_left_alone(fmt: Format) -> None:
    x = torch.from_numpy(probes(fmt, 50))
    kept = x.clone()
    assert fmt.quantize(x).data_ptr() != x.data_ptr()
    assert torch.equal(x, kept)


# -- gradient


def gradient(fmt: Format, x: Array) -> Tensor:
    value = torch.from_numpy(np.array(x)).requires_grad_()
    fmt.quantize(value).backward(torch.full_like(value, 3.0))
    assert value.grad is not None
    return value.grad


@each
def test_gradient_is_one_inside_and_zero_outside(fmt: Format) -> None:
    values = apply(fmt, np.array([-np.inf, np.inf], np.float32)).astype(np.float64)
    low, high = values
    inner = np.linspace(low, high, 101)[1:-1].astype(np.float32)
    assert (gradient(fmt, inner[(inner > low) & (inner < high)]) == 3).all()
    step = max(high - low, 1e-30)
    outer = np.array([low - step, high + step, -np.inf, np.inf], np.float32)
    assert (gradient(fmt, outer) == 0).all()


@each
def test_gradient_agrees_with_inside_and_needs_no_history(fmt: Format) -> None:
    x = probes(fmt, 200)
    inside = fmt.inside(torch.from_numpy(x))
    assert inside.dtype == torch.bool and inside.shape == x.shape
    assert torch.equal(gradient(fmt, x), inside * 3.0)
    held = torch.from_numpy(x).requires_grad_()
    with torch.no_grad():
        assert not fmt.quantize(held).requires_grad


NEAREST = [f for f in SMALL if isinstance(f, Integer) and not floors(f)]


@pytest.mark.parametrize("fmt", NEAREST, ids=str)
def test_integer_is_torchs_fake_quantisation(fmt: Integer) -> None:
    """Values and gradient of torch.fake_quantize, ties and limits included."""
    x = torch.from_numpy(probes(fmt, 2000))
    theirs, ours = x.clone().requires_grad_(), x.clone().requires_grad_()
    scale, (low, high) = 2.0**-fmt.frac_width, fmt.limits
    want = torch.fake_quantize_per_tensor_affine(theirs, scale, 0, low, high)
    got = fmt.quantize(ours)
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
    assert gradient(fmt, x).tolist() == [3, 0, 3, 3, 0]


# -- names, bits, text


@each
def test_bits_and_words(fmt: Format) -> None:
    assert isinstance(fmt.bits, float) and fmt.bits > 0
    told = fmt.describe()
    assert told["name"] == fmt.name and told["bits"] == fmt.bits and told["parameters"] == parameters(fmt)
    assert told["formula"] and told["source"] and told["title"]
    assert 0 < len(fmt.label) <= 24
    json.dumps(told, allow_nan=False)


@each
def test_text_and_json_round_trip(fmt: Format) -> None:
    assert parse_format(str(fmt)) == fmt
    assert parse_format(str(fmt).replace(" ", "").replace("=", " = ")) == fmt
    assert decode_format(json.loads(json.dumps(encode(fmt)))) == fmt
    assert hash(fmt) == hash(parse_format(str(fmt)))


def test_integer_stores_its_width() -> None:
    assert [Integer(w, 0).bits for w in (1, 4, 8, 32)] == [1.0, 4.0, 8.0, 32.0]
    assert (Integer(8, 4).label, Integer(4, -2, signed=False).label) == ("int 8/4", "uint 4/-2")


@pytest.mark.parametrize(
    "values, field, low, high",
    [
        ({"width": 0}, "width", 1, 32),
        ({"width": 33}, "width", 1, 32),
        ({"width": 8.5}, "width", 1, 32),
        ({"width": True}, "width", 1, 32),
        ({"width": "8"}, "width", 1, 32),
        ({"width": None}, "width", 1, 32),
        ({"frac_width": -33}, "frac_width", -32, 64),
        ({"frac_width": 65}, "frac_width", -32, 64),
    ],
)
def test_impossible_numbers_name_field_and_range(values: dict[str, Any], field: str, low: int, high: int) -> None:
    with pytest.raises(FormatError) as caught:
        make_format("integer", values)
    assert field in caught.value.message and repr(next(iter(values.values()))) in caught.value.message
    assert caught.value.hint == f"{field} must be a whole number from {low} to {high}."


@pytest.mark.parametrize("values, field", [({"signed": 1}, "signed"), ({"rounding": "up"}, "rounding")])
def test_impossible_words_name_field_and_choices(values: dict[str, Any], field: str) -> None:
    with pytest.raises(FormatError, match=field) as caught:
        make_format("integer", values)
    assert caught.value.hint.startswith(f"{field} must be")


@pytest.mark.parametrize("name", list(FORMATS))
def test_unknown_parameters_name_the_nearest(name: str) -> None:
    known = list(parameters(make_format(name, dict(VARIANTS.get(name, ({},))[0]))))
    typo = known[0][:-1] + "x"
    with pytest.raises(FormatError, match=typo) as caught:
        make_format(name, {typo: 8})
    assert known[0] in caught.value.hint


def bad_texts() -> Iterator[tuple[str, str]]:
    yield "interger(width=8)", "integer"
    yield "integer(widht=8)", "width"
    yield "integer(8, 4)", "key=value"
    yield "integer(width=8", "integer(width=8"
    yield "", "name(key=value"
    yield "integer(width=eight)", "width"
    yield "integer(width=8, width=)", "width"


@pytest.mark.parametrize("text, part", list(bad_texts()))
def test_bad_texts_say_what_is_wrong(text: str, part: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_format(text)
    assert part in str(caught.value)


def test_words_may_stand_quoted_or_not() -> None:
    fmt = Integer(8, 4, signed=False, rounding="floor")
    assert parse_format("integer(width=8,frac_width=4,signed=false,rounding=floor)") == fmt
    assert parse_format(" integer ( rounding='floor', signed=False ) ") == fmt
    assert parse_format("integer") == parse_format("integer()") == Integer()
