"""Fast codes are those of the definitions, and so are the values they come back as."""

from __future__ import annotations

import numpy as np
import pytest

from espalier.model.formats.base import FAST, parse_format

pytest.importorskip("espalier.kernels.fake_quant.codes", reason="numba is not installed")

import espalier.passes  # noqa: F401  (registers the fast versions)

FORMATS = (
    "mxint", "mxint(width=4)", "mxint(width=2, block=2)", "mxint(width=16, block=16)", "block_fp", "block_fp(width=4)",
    "block_fp(width=8, exponent_width=3, block=8)", "block_fp(width=16)", "scaled_integer", "scaled_integer(width=4)",
    "scaled_integer(width=16)", "scaled_integer(granularity=tensor)", "scaled_integer(width=4, granularity=group(32))",
    "scaled_integer(scale_dtype=bfloat16)", "scaled_integer(scale_dtype=float16, granularity=group(16))",
)  # fmt: skip
DECLINED = ("scaled_integer(symmetric=False)", "scaled_integer(granularity=group(7))", "mxint(block=5)", "nvfp4",
            "block_fp(rows=2)", "mxint(width=32)")  # fmt: skip


def rows(seed: int = 0, shape: tuple[int, ...] = (6, 5, 96)) -> np.ndarray:
    """Rows of many scales, one of zeros, with negative zeros, ties and powers of two among them."""
    random = np.random.default_rng(seed)
    x = random.normal(size=shape) * np.exp2(random.integers(-30, 30, (*shape[:-1], 1)))
    x[0, 0], x[1, 1, ::3], x[2, 2, ::4] = 0, -0.0, 0.5
    x[3] = np.round(x[3] / np.abs(x[3]).max(-1, keepdims=True) * 254) / 2
    return x.astype(np.float32)


@pytest.mark.parametrize("text", FORMATS)
def test_codes_and_values_of_the_definition(text: str) -> None:
    fmt = parse_format(text)
    fast, x = FAST[type(fmt), "cpu"], rows()
    found, want = fast.encode(fmt, x), fmt.encode(x)
    assert found is not None and found.codes.shape == x.shape and np.array_equal(found.codes, want.codes)
    for mine, theirs in zip(found.shared, want.shared, strict=True):
        assert (mine.name, mine.bits) == (theirs.name, theirs.bits) and np.array_equal(mine.values, theirs.values)
    value = fast.decode(fmt, found)
    if value is not None:
        assert np.array_equal(value, fmt.decode(want))
    assert (value is not None) == fmt.name.startswith(("mxint", "block_fp"))


@pytest.mark.parametrize("text", DECLINED)
def test_what_is_left_to_the_definition(text: str) -> None:
    fmt = parse_format(text)
    assert FAST[type(fmt), "cpu"].encode(fmt, rows()) is None


def test_extremes_are_left_to_the_definition() -> None:
    for text in ("mxint", "scaled_integer"):
        fmt, x = parse_format(text), rows()
        x[4, 4, 4] = np.inf
        assert FAST[type(fmt), "cpu"].encode(fmt, x) is None
    fmt = parse_format("mxint")
    assert FAST[type(fmt), "cpu"].encode(fmt, np.full((2, 32), 1e-40, np.float32)) is None
