"""Triton kernels of fake quantisation; a program takes ROWS blocks of BLOCK elements, WIDTH the next power of two.

All maths in float32, powers of two from their bits, as in model.formats.small_float. `most`: the largest number of
the tensor's dtype, what infinity counts as and beyond which nothing is written.
"""

# pyright: reportInvalidTypeForm=false, reportMissingParameterType=false
from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any

triton: Any = None
tl: Any = None
with suppress(ImportError):  # the module stays importable; the registry asks for triton before it comes here
    triton, tl = importlib.import_module("triton"), importlib.import_module("triton.language")

jit: Any = triton.jit if triton else lambda function: function


def next_power_of_2(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << (n - 1).bit_length()


@jit
def _bits(v):
    return v.to(tl.int32, bitcast=True)


@jit
def _power(e):
    return ((e + 127) << 23).to(tl.float32, bitcast=True)


@jit
def _times(v, k):
    half = k >> 1
    return v * _power(half) * _power(k - half)


@jit
def _signed(v, like):
    return (_bits(v) | (_bits(like) & -2147483648)).to(tl.float32, bitcast=True)


@jit
def _rint(v):
    m = tl.abs(v)
    return _signed(tl.where(m < 8388608.0, (m + 8388608.0) - 8388608.0, m), v)


@jit
def _lifted(v):
    """|v|, times 2^64 where it is small, so that denormals have an exponent; and that exponent's excess."""
    m = tl.abs(v)
    small = m < 8.673617379884035e-19  # 2^-60
    return tl.where(small, m * 18446744073709551616.0, m), tl.where(small, 64, 0)


@jit
def _exponent(v):
    lifted, excess = _lifted(v)
    return tl.where(v == 0, -1, (_bits(lifted) >> 23) - 127 - excess)


@jit
def _nearest_power(v):
    """round(log2|v|): the significand carries from the first float above the root of 2 on."""
    lifted, excess = _lifted(v)
    return tl.where(v == 0, -1, ((_bits(lifted) + 4913932) >> 23) - 127 - excess)


@jit
def _nearest(v, e_min, mantissa):
    step = tl.maximum(_exponent(v), e_min) - mantissa
    return _times(_rint(_times(v, -step)), step)


@jit
def _clipped(v, low, high):
    v = tl.where(v < low, low, v)
    return tl.where(v > high, high, v)


@jit
def _places(count, BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    return row.to(tl.int64) * BLOCK + column, (row < count) & (column < BLOCK)


@jit
def _load(x, at, valid):
    """float32 values; bfloat16 comes as int16 patterns, since Triton's interpreter flushes its denormals."""
    raw = tl.load(x + at, mask=valid, other=0)
    if x.dtype.element_ty == tl.int16:
        return (raw.to(tl.int32) << 16).to(tl.float32, bitcast=True)
    else:
        return raw.to(tl.float32)


@jit
def _rounded(v, KIND: tl.constexpr):
    """`v` as it is stored: bfloat16 as its pattern, nearest, ties to even."""
    if KIND == tl.int16:  # noqa: SIM300
        u = _bits(v)
        return tl.where(v == v, (u + 0x7FFF + ((u >> 16) & 1)) >> 16, 0x7FC0).to(tl.int16)
    else:
        return v.to(KIND)


@jit
def _read(x, at, valid, most):
    """The elements in float32, with infinity as `most`, and whether they are finite."""
    raw = _load(x, at, valid)
    return _clipped(raw, -most, most), tl.abs(raw) <= most


@jit
def _top(v):
    """Largest magnitude of each block; NaN does not count."""
    return tl.max(tl.where(v == v, tl.abs(v), 0.0), 1)[:, None]


@jit
def _write(out, gate, at, valid, value, inside, most, GATED: tl.constexpr):
    tl.store(out + at, _rounded(_clipped(value, -most, most), out.dtype.element_ty), mask=valid)
    if GATED:
        tl.store(gate + at, inside.to(tl.uint8), mask=valid)


@jit
def _coded(code, finite, most, down, low, high, low16, high16):
    """Value of a code, and whether it was not clipped; float16 has limits of its own."""
    half = most == 65504.0
    value = _clipped(code, tl.where(half, low16, low), tl.where(half, high16, high)) * down
    return value, (code >= low) & (code <= high) & finite


@jit
def _integer(
    x, out, gate, count, most,
    up, down, low, high, low16, high16,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """clip(rne(x·up), low, high)·down."""
    at, valid = _places(count, BLOCK, WIDTH, ROWS)
    v = _load(x, at, valid)
    value, inside = _coded(_rint(v * up), tl.abs(v) <= most, most, down, low, high, low16, high16)
    _write(out, gate, at, valid, value, inside, most, GATED)


@jit
def _integer_floor(
    x, out, gate, count, most,
    up, down, low, high, low16, high16,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """As `integer`, rounded down."""
    at, valid = _places(count, BLOCK, WIDTH, ROWS)
    v = _load(x, at, valid)
    value, inside = _coded(tl.floor(v * up), tl.abs(v) <= most, most, down, low, high, low16, high16)
    _write(out, gate, at, valid, value, inside, most, GATED)


@jit
def _small_float(
    x, out, gate, count, most, e_min, mantissa, largest,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """Rounded to `mantissa` bits at an exponent of at least e_min, at most `largest`."""
    at, valid = _places(count, BLOCK, WIDTH, ROWS)
    v, finite = _read(x, at, valid, most)
    r = _nearest(v, e_min, mantissa)
    _write(out, gate, at, valid, _clipped(r, -largest, largest), (tl.abs(r) <= largest) & finite, most, GATED)


@jit
def _small_float_blocks(
    x, out, gate, count, most,
    shift, least, highest, e_min, mantissa, largest,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """As `small_float` under 2^e, e = clip(exponent of the largest + shift, least, highest)."""
    at, valid = _places(count, BLOCK, WIDTH, ROWS)
    v, finite = _read(x, at, valid, most)
    e = tl.minimum(tl.maximum(_exponent(_top(v)) + shift, least), highest)
    r = _nearest(_times(v, -e), e_min, mantissa)
    value = _times(_clipped(r, -largest, largest), e)
    _write(out, gate, at, valid, value, (tl.abs(r) <= largest) & finite, most, GATED)


@jit
def _powers(v, low, high):
    """The nearest power of two, 0 below 2^low, at most 2^high; and where that did not bind."""
    e = _nearest_power(v)
    power = _times(tl.full(v.shape, 1.0, tl.float32), tl.minimum(tl.maximum(e, low), high))
    value = _signed(tl.where((e < low) | (v == 0), 0.0, power), v)
    return tl.where(v == v, value, v), (e <= high) | (v == 0)


@jit
def _power_of_two(
    x, out, gate, count, most, low, high,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """Exponents low … high."""
    at, valid = _places(count, BLOCK, WIDTH, ROWS)
    v, finite = _read(x, at, valid, most)
    value, inside = _powers(v, low, high)
    _write(out, gate, at, valid, value, inside & finite, most, GATED)


@jit
def _power_of_two_blocks(
    x, out, gate, count, most, top_code, biases,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """As `power_of_two`, exponents 1 − b … top_code − b with the block's bias b."""
    at, valid = _places(count, BLOCK, WIDTH, ROWS)
    v, finite = _read(x, at, valid, most)
    bias = tl.minimum(tl.maximum(top_code - _nearest_power(_top(v)).to(tl.int64), 0), biases)
    low = tl.maximum(1 - bias, -149).to(tl.int32)
    high = tl.minimum(top_code - bias, 127).to(tl.int32)
    value, inside = _powers(v, low, high)
    _write(out, gate, at, valid, value, inside & finite, most, GATED)


@jit
def _above(
    x, out, gate, count, most, threshold, low, high,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """`high` from the threshold on, `low` below; the gradient passes for |x| ≤ 1."""
    at, valid = _places(count, BLOCK, WIDTH, ROWS)
    v, finite = _read(x, at, valid, most)
    value = tl.where(v == v, tl.where(v >= threshold, high, low), v)
    _write(out, gate, at, valid, value, (tl.abs(v) <= 1) & finite, most, GATED)


@jit
def _nvfp4(
    x, out, gate, count, most, scale,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """E2M1(x/t)·t, t = E4M3(top/(6·s))·s; `scale` points to s."""
    at, valid = _places(count, BLOCK, WIDTH, ROWS)
    v, finite = _read(x, at, valid, most)
    s = tl.load(scale)
    d = _nearest(tl.div_rn(_top(v), 6.0 * s), -6, 3)
    t = tl.where(d > 448.0, 448.0, d) * s
    r = _nearest(tl.div_rn(v, tl.where(t == 0, 1.0, t) + tl.zeros_like(v)), 0, 1)
    _write(out, gate, at, valid, _clipped(r, -6.0, 6.0) * t, (tl.abs(r) <= 6.0) & finite, most, GATED)


@jit
def _stretch(at, columns, groups, per):
    """Which scale an element has: rows of `columns` elements, in each `groups` stretches of `per`."""
    return at // columns * groups + at % columns // per


@jit
def _steps(
    x, out, gate, count, most, scale, low, high, columns, groups, per,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """clip(rne(x/s), low, high)·s; a scale and two limits a stretch."""
    at, valid = _places(count, BLOCK, WIDTH, ROWS)
    v = _load(x, at, valid)
    stretch = _stretch(at, columns, groups, per)
    s = tl.load(scale + stretch, mask=valid, other=1.0)
    least = tl.load(low + stretch, mask=valid, other=0.0)
    largest = tl.load(high + stretch, mask=valid, other=0.0)
    code = _rint(tl.div_rn(v, s))
    _write(out, gate, at, valid, _clipped(code, least, largest) * s, (code >= least) & (code <= largest), most, GATED)


@jit
def _signs(
    x, out, gate, count, most, first, second, third, start, columns, groups, per,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr, LEVELS: tl.constexpr,
):  # fmt: skip
    """Σ α·sign of what is left, one to three levels, from `start` on; the gradient passes for |x| ≤ 1."""
    at, valid = _places(count, BLOCK, WIDTH, ROWS)
    v = _load(x, at, valid)
    stretch = _stretch(at, columns, groups, per)
    alpha = tl.load(first + stretch, mask=valid, other=0.0)
    term = tl.where(v >= 0, alpha, -alpha)
    value, left = start + term, v - term
    if LEVELS > 1:
        alpha = tl.load(second + stretch, mask=valid, other=0.0)
        term = tl.where(left >= 0, alpha, -alpha)
        value, left = value + term, left - term
    if LEVELS > 2:
        alpha = tl.load(third + stretch, mask=valid, other=0.0)
        value += tl.where(left >= 0, alpha, -alpha)
    _write(out, gate, at, valid, tl.where(v == v, value, v), tl.abs(v) <= 1, most, GATED)


@jit
def _three(
    x, out, gate, count, most, delta, scale, columns, groups, per,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """0 up to the threshold, ±α beyond; the gradient passes everywhere."""
    at, valid = _places(count, BLOCK, WIDTH, ROWS)
    v = _load(x, at, valid)
    stretch = _stretch(at, columns, groups, per)
    alpha = tl.load(scale + stretch, mask=valid, other=0.0)
    kept = tl.abs(v) > tl.load(delta + stretch, mask=valid, other=0.0)
    sign = tl.where(kept, tl.where(v > 0, 1.0, -1.0), 0.0)
    value = tl.where(v == v, sign * alpha, v)
    _write(out, gate, at, valid, value, tl.full(v.shape, 1, tl.int1), most, GATED)


# Triton reads annotations as code, so the kernels themselves have none.
integer = _integer
integer_floor = _integer_floor
small_float = _small_float
small_float_blocks = _small_float_blocks
power_of_two = _power_of_two
power_of_two_blocks = _power_of_two_blocks
above = _above
nvfp4 = _nvfp4
steps = _steps
signs = _signs
three = _three
