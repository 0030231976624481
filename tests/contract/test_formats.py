"""Every registered number format keeps its contract: nearest of its codes, the laws, the gradient, its names.

New formats are taken up by registering; what is special about one goes into format_cases.VARIANTS.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from espalier.model.document.codec import decode_format, encode
from espalier.model.errors import FormatError
from espalier.model.formats.base import Array, Encoded, Format, make_format, parameters, parse_format
from espalier.model.formats.blocks import BlockFormat
from espalier.model.formats.straight_through import straight_through
from espalier.model.registry import FORMATS
from tests.contract.format_cases import (
    ELEMENTWISE,
    FLOAT,
    FORMS,
    VARIANTS,
    apart,
    apply,
    covered,
    floors,
    logarithmic,
    nearest,
    nearest_power,
    probes,
    single,
    underflows,
)

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
SHAPES = ((), (5,), (3, 40), (2, 0, 3), (2, 3, 0), (2, 3, 33), (1, 2, 3, 17))
each = pytest.mark.parametrize("fmt", FORMS, ids=str)
REPEATING = [f for f in FORMS if not f.name.startswith("nvfp4")]  # whose second scale is taken from rounded values


# -- the definition


@pytest.mark.slow
@pytest.mark.parametrize("fmt", [f for f in ELEMENTWISE if f.bits <= 8], ids=str)
def test_it_takes_the_nearest_code(fmt: Format) -> None:
    x = probes(fmt, 50_000)
    x = x[~underflows(fmt, x)] if floors(fmt) else x
    if logarithmic(fmt):
        powers = np.log2(fmt.codes()[fmt.codes() > 0].astype(np.float64))
        want = nearest_power(x, powers[0], powers[-1].astype(int))
    else:
        want = nearest(fmt.codes(), x, one_digit(fmt), floors(fmt))
    got = apply(fmt, x).astype(np.float64)
    wrong = got != want
    assert not wrong.any(), (x[wrong][:5], got[wrong][:5], want[wrong][:5])


def one_digit(fmt: Format) -> bool:
    """Whether the mantissa has nothing but its leading digit."""
    grid = getattr(fmt, "grid", None)
    return grid is not None and grid.mantissa == 0


# -- laws


@pytest.mark.slow
@pytest.mark.parametrize("fmt", REPEATING, ids=str)
def test_quantising_twice_changes_nothing(fmt: Format) -> None:
    once = apply(fmt, probes(fmt, 500))
    np.testing.assert_array_equal(apply(fmt, once), once)


@pytest.mark.slow
@each
def test_order_is_kept(fmt: Format) -> None:
    """Of a whole tensor, or within each block."""
    x = probes(fmt, 500)
    if not isinstance(fmt, BlockFormat):
        assert (np.diff(apply(fmt, np.sort(x)).astype(np.float64)) >= 0).all()
        return
    blocks = fmt.blocks.split(x)
    ordered = np.sort(blocks.reshape(*blocks.shape[:-2], -1)).reshape(blocks.shape)
    full = (blocks.shape[0] * blocks.shape[2], blocks.shape[1] * blocks.shape[3])
    got = fmt.blocks.split(apply(fmt, fmt.blocks.merge(ordered, full))).reshape(*blocks.shape[:-2], -1)
    assert (np.diff(got.astype(np.float64)) >= 0).all()


MIRRORING = [f for f in FORMS if not floors(f) and getattr(f, "signed", True)]


@pytest.mark.slow
@pytest.mark.parametrize("fmt", MIRRORING, ids=str)
def test_signed_formats_mirror(fmt: Format) -> None:
    """q(−x) = −q(x) wherever both stay in range (two's complement has one more code below zero)."""
    x = probes(fmt, 500)
    both = fmt.inside(torch.from_numpy(x)).numpy() & fmt.inside(torch.from_numpy(-x)).numpy()
    assert both.any()
    np.testing.assert_array_equal(apply(fmt, -x)[both], -apply(fmt, x)[both])


@each
def test_zero_and_the_extremes(fmt: Format) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, FLOAT.max, -FLOAT.max], np.float32)
    got = torch.from_numpy(single(fmt, apply(fmt, apart(fmt, x))))
    assert got[0] == 0 and not torch.signbit(got[0])
    assert got[1] == 0
    assert got[2] == got[5] and got[3] == got[6] and got[2].isfinite() and got[3].isfinite()
    assert got[4].isnan() and not got[[0, 1, 2, 3, 5, 6]].isnan().any()


# -- codes


@pytest.mark.parametrize("fmt", [f for f in FORMS if f.element_bits <= 8], ids=str)
def test_codes_are_all_values(fmt: Format) -> None:
    codes = fmt.codes()
    assert codes.dtype == np.float32 and (np.diff(codes) > 0).all()
    assert 1 < len(codes) <= 2**fmt.element_bits and not np.signbit(codes[codes == 0]).any()
    if not isinstance(fmt, BlockFormat):
        np.testing.assert_array_equal(apply(fmt, codes), codes)
        np.testing.assert_array_equal(np.unique(apply(fmt, probes(fmt, 500))), codes)
    elif fmt.blocks.block > 1:
        unit = np.float32(448 if fmt.name.startswith("nvfp4") else 1)  # then the scale of the tensor is 1
        pairs = np.stack([codes, np.full_like(codes, codes[-1])], -1)[:, None] * unit
        np.testing.assert_array_equal(apply(fmt, pairs), pairs)


@each
def test_decoding_what_was_encoded_is_quantising(fmt: Format) -> None:
    x = probes(fmt, 500)
    x = np.where(underflows(fmt, x), np.float32(0), x)
    decoded = fmt.decode(fmt.encode(x))
    assert decoded.dtype == np.float32
    np.testing.assert_array_equal(decoded, apply(fmt, x))
    np.testing.assert_array_equal(fmt.rounded(x), decoded)
    doubles = torch.from_numpy(x.astype(np.float64) * 0.7)
    np.testing.assert_array_equal(fmt.rounded(doubles.numpy()), straight_through(fmt, doubles).float().numpy())


@pytest.mark.parametrize("fmt", REPEATING, ids=str)
def test_codes_and_values_are_inverse(fmt: Format) -> None:
    values = apply(fmt, probes(fmt, 500))
    found = fmt.encode(values)
    np.testing.assert_array_equal(fmt.decode(found), values)
    if fmt.element_bits <= 24:  # wider codes are not all float32 values
        again = fmt.encode(fmt.decode(found))
        np.testing.assert_array_equal(again.codes, found.codes)
        for one, other in zip(again.shared, found.shared, strict=True):
            np.testing.assert_array_equal(one.values, other.values)


@each
def test_what_is_stored_fits_its_bits(fmt: Format) -> None:
    """Codes and shared fields are whole numbers of their width; the layout, `bits` and the stored size agree."""
    rng = np.random.default_rng(3)
    most = 2**fmt.element_bits
    for shape in SHAPES:
        x = rng.normal(0, 1, shape).astype(np.float32)
        found = fmt.encode(x)
        assert found.codes.shape == shape and found.codes.dtype == np.int64
        assert (np.abs(found.codes) < most).all()
        assert len(np.unique(np.asarray(found.codes) % most)) == len(np.unique(found.codes))
        for shared in found.shared:
            assert np.issubdtype(shared.values.dtype, np.integer)
            assert (shared.values >= 0).all() and (shared.values < 2**shared.bits).all()
        stored = x.size * fmt.element_bits + sum(s.values.size * s.bits for s in found.shared)
        assert fmt.stored_bits(shape) == stored
        np.testing.assert_array_equal(fmt.decode(found), straight_through(fmt, torch.from_numpy(x)).numpy())
    shared_bits = sum(f.bits / f.per for f in fmt.layout() if f.kind == "shared" and f.per)
    assert fmt.bits == fmt.element_bits + shared_bits
    assert all(f.bits > 0 for f in fmt.layout()) and len({f.name for f in fmt.layout()}) == len(fmt.layout())


@each
def test_infinities_have_the_outermost_codes(fmt: Format) -> None:
    ends = apart(fmt, np.array([np.inf, -np.inf, FLOAT.max, -FLOAT.max], np.float32))
    np.testing.assert_array_equal(fmt.decode(fmt.encode(ends)), apply(fmt, ends))


@pytest.mark.parametrize("fmt", [f for f in FORMS if f.element_bits > 16], ids=str)
def test_endless_lists_of_codes_are_refused(fmt: Format) -> None:
    with pytest.raises(FormatError, match="16"):
        fmt.codes()


# -- tensors


@pytest.mark.sampled(0.34)
@pytest.mark.slow
@each
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtype_shape_and_strides_do_not_matter(fmt: Format, dtype: torch.dtype) -> None:
    x = (torch.randn(4, 6, 2, generator=torch.Generator().manual_seed(1)) * 3).to(dtype)
    plain = straight_through(fmt, x)
    assert plain.dtype == dtype and plain.shape == x.shape
    turned = x.permute(2, 0, 1)
    assert not turned.is_contiguous()
    assert torch.equal(straight_through(fmt, turned), straight_through(fmt, turned.contiguous()))
    if not fmt.rowwise:
        assert torch.equal(straight_through(fmt, turned), plain.permute(2, 0, 1))
    assert straight_through(fmt, x[0, 0, 0]).shape == () and straight_through(fmt, x[:0]).shape == (0, 6, 2)
    assert fmt.inside(x[0, 0, 0]).shape == () and fmt.inside(x[:0]).shape == (0, 6, 2)
    assert torch.equal(straight_through(fmt, x[0, 0]), straight_through(fmt, x[:1, :1])[0, 0])


@pytest.mark.slow
@each
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_other_dtypes_give_the_float32_value(fmt: Format, dtype: torch.dtype) -> None:
    """The value of the same number, rounded once to the dtype."""
    x = torch.from_numpy(probes(fmt, 300)).to(dtype)
    x = torch.where(x.isfinite() & (x.float().double() == x.double()), x, 0)
    want = straight_through(fmt, x.double()).to(dtype)
    fits = want.isfinite() & ~torch.from_numpy(underflows(fmt, x.float().numpy()))
    assert fits.any() and torch.equal(straight_through(fmt, x)[fits], want[fits])
    assert straight_through(fmt, x).isfinite().all()


@each
def test_the_input_is_left_alone(fmt: Format) -> None:
    x = torch.from_numpy(probes(fmt, 50))
    kept = x.clone()
    assert straight_through(fmt, x).data_ptr() != x.data_ptr()
    assert torch.equal(x, kept)


# -- gradient


def gradient(fmt: Format, x: Array) -> Tensor:
    value = torch.from_numpy(np.array(x)).requires_grad_()
    straight_through(fmt, value).backward(torch.full_like(value, 3.0))
    assert value.grad is not None
    return value.grad


@pytest.mark.parametrize("fmt", ELEMENTWISE, ids=str)
def test_gradient_is_one_inside_and_zero_outside(fmt: Format) -> None:
    values = apply(fmt, np.array([-np.inf, np.inf], np.float32)).astype(np.float64)
    low, high = values
    inner = np.linspace(low, high, 101)[1:-1].astype(np.float32)
    assert (gradient(fmt, inner[(inner > low) & (inner < high)]) == 3).all()
    step = max(high - low, 1e-30)
    with np.errstate(over="ignore"):
        outer = np.array([low - step, high + step, -np.inf, np.inf]).astype(np.float32)
    assert (gradient(fmt, outer) == 0).all()


@pytest.mark.slow
@each
def test_gradient_agrees_with_inside_and_needs_no_history(fmt: Format) -> None:
    x = probes(fmt, 200)
    inside = fmt.inside(torch.from_numpy(x))
    assert inside.dtype == torch.bool and inside.shape == x.shape
    assert torch.equal(gradient(fmt, x), inside * 3.0)
    held = torch.from_numpy(x).requires_grad_()
    with torch.no_grad():
        assert not straight_through(fmt, held).requires_grad


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


def test_labels_tell_variants_apart() -> None:
    labels = [f.label for f in FORMS if not floors(f)]
    assert sorted(labels) == sorted(set(labels))


COVERED = [(name, cls) for name, cls in FORMATS.items() if covered(cls)]


@pytest.mark.parametrize("name, cls", [c for c in COVERED if c[0] != "integer"])
def test_parameters_have_help_and_bounds(name: str, cls: type[Format]) -> None:
    """What forms show; a bound that is told is the one that holds."""
    for f in fields(cls):
        assert f.metadata["help"], f.name
        for bound, beyond in (("min", -1), ("max", 1)):
            if bound in f.metadata:
                with pytest.raises(FormatError, match=name):
                    make_format(name, {f.name: f.metadata[bound] + beyond})


IMPOSSIBLE: list[tuple[str, dict[str, Any], str, int, int]] = [
    *(("integer", {"width": w}, "width", 1, 32) for w in (0, 33, 8.5, True, "8", None)),
    *(("integer", {"frac_width": f}, "frac_width", -32, 64) for f in (-33, 65)),
    *(("minifloat_ieee", {"width": w}, "width", 5, 32) for w in (4, 33, 8.0)),
    *(("minifloat_ieee", {"exponent_width": e}, "exponent_width", 1, 8) for e in (0, 9)),
    ("minifloat_ieee", {"exponent_width": 1, "reserved": "inf"}, "exponent_width", 2, 8),
    *(("minifloat_ieee", {"exponent_bias": b}, "exponent_bias", -112, 147) for b in (-113, 148)),
    ("minifloat_ieee", {"width": 16, "exponent_width": 8, "exponent_bias": 127}, "exponent_bias", 128, 143),
    *(("minifloat_denorm", {"width": w}, "width", 6, 32) for w in (5, 33)),
    *(("minifloat_denorm", {"exponent_bias": b}, "exponent_bias", -113, 146) for b in (-114, 147)),
    *(("log", {"width": w}, "width", 2, 32) for w in (1, 33)),
    *(("log", {"width": 4, "exponent_bias": b}, "exponent_bias", -126, 156) for b in (-127, 157)),
    *(("block_fp", {"width": w}, "width", 2, 32) for w in (1, 33)),
    *(("block_fp", {"exponent_width": e}, "exponent_width", 1, 8) for e in (0, 9)),
    *(("block_fp", {"block": b}, "block", 1, 65536) for b in (0, 65537, "16")),
    *(("mxint", {"block": b}, "block", 1, 65536) for b in (-1, [2, 3, 4], [1.5, 2])),
    *(("mxfp", {"rows": r}, "rows", 1, 65536) for r in (0, 2.0)),
    ("block_minifloat", {"exponent_width": 7}, "exponent_width", 1, 6),
    ("block_minifloat", {"exponent_bias_width": 9}, "exponent_bias_width", 1, 8),
    ("block_log", {"exponent_bias_width": 0}, "exponent_bias_width", 1, 8),
    ("nvfp4", {"block": 0}, "block", 1, 65536),
]


@pytest.mark.parametrize("name, values, field, low, high", IMPOSSIBLE, ids=str)
def test_impossible_numbers_name_field_and_range(
    name: str, values: dict[str, Any], field: str, low: int, high: int
) -> None:
    with pytest.raises(FormatError) as caught:
        make_format(name, values)
    assert caught.value.message.startswith(f"{name}: {field} is ")
    assert field not in values or repr(values[field]) in caught.value.message
    assert caught.value.hint == f"{field} must be a whole number from {low} to {high}."


def test_an_exponent_beyond_float32_says_what_helps() -> None:
    with pytest.raises(FormatError, match="beyond float32") as caught:
        parse_format("minifloat_ieee(width=16, exponent_width=8)")
    assert "reserved" in caught.value.hint and "exponent_bias" in caught.value.hint
    assert parse_format("minifloat_ieee(width=16, exponent_width=8, exponent_bias=128)").bits == 16


@pytest.mark.parametrize(
    "name, values, field",
    [
        ("integer", {"signed": 1}, "signed"),
        ("integer", {"rounding": "up"}, "rounding"),
        ("minifloat_ieee", {"reserved": "some"}, "reserved"),
        ("mxfp", {"element": "e1m6"}, "element"),
        ("mxfp", {"element": 4}, "element"),
    ],
)
def test_impossible_words_name_field_and_choices(name: str, values: dict[str, Any], field: str) -> None:
    with pytest.raises(FormatError, match=field) as caught:
        make_format(name, values)
    assert caught.value.hint.startswith(f"{field} must be")


@pytest.mark.parametrize("name", [name for name, _ in COVERED])
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
    yield "integer(width=8, width=4)", "width is given twice"
    yield "mxint(block=[2, 3, 4])", "block"


@pytest.mark.parametrize("text, part", list(bad_texts()))
def test_bad_texts_say_what_is_wrong(text: str, part: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_format(text)
    assert part in str(caught.value)


def test_words_may_stand_quoted_or_not() -> None:
    fmt = make_format("integer", {"width": 8, "frac_width": 4, "signed": False, "rounding": "floor"})
    assert parse_format("integer(width=8,frac_width=4,signed=false,rounding=floor)") == fmt
    assert parse_format(" integer ( rounding='floor', signed=False ) ") == fmt
    assert parse_format("integer") == parse_format("integer()") == make_format("integer", {})
    assert parse_format("minifloat_ieee(reserved=nan)") == parse_format("minifloat_ieee(reserved='nan')")


@pytest.mark.parametrize(
    "text, same",
    [
        ("block_fp(block_size=32)", "block_fp(block=32)"),
        ("block_fp(block_size=[32])", "block_fp(block=32)"),
        ("mxint(block_size=[1, 16])", "mxint(block=16)"),
        ("mxint(block=[4, 16])", "mxint(rows=4, block=16)"),
        ("mxint(width=8, exponent_width=8, block_size=32)", "mxint(width=8, block=32)"),
        ("mxfp(element=E4M3)", "mxfp(element=e4m3)"),
        ("mxfp(element=float8_e4m3fn)", "mxfp(element=e4m3)"),
        ("mxfp(element=fp4_e2m1)", "mxfp(element=e2m1)"),
    ],
)
def test_other_spellings_of_parameters(text: str, same: str) -> None:
    assert parse_format(text) == parse_format(same)


def test_spelling_leaves_the_callers_values_alone() -> None:
    values = {"block_size": [2, 8]}
    make_format("mxint", values)
    assert values == {"block_size": [2, 8]}


def test_foreign_codes_decode_to_the_values_they_have() -> None:
    """All bit patterns of a small float, reserved ones too, and back."""
    fmt = make_format("minifloat_ieee", {"width": 6, "exponent_width": 3, "reserved": "inf"})
    every = np.arange(64)
    values = fmt.decode(Encoded(every))
    assert np.isinf(values).sum() == 2 and np.isnan(values).sum() == 6
    fine = np.isfinite(values)
    np.testing.assert_array_equal(fmt.encode(values[fine]).codes, every[fine])
