"""Triton kernels of fake quantisation; a program takes ROWS blocks of BLOCK elements, WIDTH the next power of two.

All arithmetic in float32. `infinity`: the dtype's largest number, which replaces infinity. BOUND: a value may exceed
it; QUICK: adding a large number rounds; CHIP: on a GPU, where over 13 integer steps per element are the bottleneck.
"""

# pyright: reportInvalidTypeForm=false, reportMissingParameterType=false
from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any

triton: Any = None
tl: Any = None
with suppress(ImportError):  # the module stays importable; the registry checks for triton first
    triton, tl = importlib.import_module("triton"), importlib.import_module("triton.language")

jit: Any = triton.jit if triton else lambda function: function


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least n."""
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
    """(|v|, times 2^64 if it is small, so that denormals have an exponent; the excess of that exponent)."""
    m = tl.abs(v)
    small = m < 8.673617379884035e-19  # 2^-60
    return tl.where(small, m * 18446744073709551616.0, m), tl.where(small, 64, 0)


@jit
def _exponent(v):
    lifted, excess = _lifted(v)
    return tl.where(v == 0, -1, (_bits(lifted) >> 23) - 127 - excess)


@jit
def _nearest_power(v):
    """round(log2|v|): the significand carries from the first float above √2 on."""
    lifted, excess = _lifted(v)
    return tl.where(v == 0, -1, ((_bits(lifted) + 4913932) >> 23) - 127 - excess)


@jit
def _nearest(v, e_min, mantissa):
    step = tl.maximum(_exponent(v), e_min) - mantissa
    return _times(_rint(_times(v, -step)), step)


@jit
def _summed(v, e_min, mantissa, FIXED: tl.constexpr):
    """As `_nearest` for QUICK formats: add and subtract a number whose last place is the step."""
    lead = (e_min + 127) << 23
    if not FIXED:
        lead = tl.maximum(_bits(v) & 0x7F800000, lead)
    large = (lead + (((23 - mantissa) << 23) | 0x00400000)).to(tl.float32, bitcast=True)
    return _signed((v + large) - large, v)


@jit
def _clipped(v, low, high):
    """Clip v; NaN stays."""
    v = tl.maximum(v, low, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(v, high, propagate_nan=tl.PropagateNan.ALL)


@jit
def _positions(count, BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    return row.to(tl.int64) * BLOCK + column, (row < count) & (column < BLOCK)


@jit
def _load(x, at, valid):
    """float32 values; bfloat16 comes as int16 patterns, since Triton's interpreter flushes its denormals."""
    raw = tl.load(x + at, mask=valid, other=0)
    if x.dtype.element_ty == tl.int16:
        return (raw.to(tl.uint16, bitcast=True).to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    else:
        return raw.to(tl.float32)


@jit
def _rounded(v, KIND: tl.constexpr, CHIP: tl.constexpr):
    """`v` in the stored dtype: bfloat16 as its pattern, nearest, ties to even; a GPU rounds two per instruction."""
    if KIND == tl.int16 and CHIP:  # noqa: SIM300
        return v.to(tl.bfloat16).to(tl.int16, bitcast=True)
    elif KIND == tl.int16:  # noqa: SIM300
        u = _bits(v)
        return tl.where(v == v, (u + 0x7FFF + ((u >> 16) & 1)) >> 16, 0x7FC0).to(tl.int16)
    else:
        return v.to(KIND)


@jit
def _read(x, at, valid, infinity):
    """(the elements in float32, with infinity replaced by `infinity`; whether they are finite)."""
    raw = _load(x, at, valid)
    return _clipped(raw, -infinity, infinity), tl.abs(raw) <= infinity


@jit
def _top(v):
    """Largest magnitude of each block; NaN is ignored."""
    return tl.max(tl.where(v == v, tl.abs(v), 0.0), 1)[:, None]


@jit
def _write(out, gate, at, valid, value, inside, infinity, GATED: tl.constexpr, BOUND: tl.constexpr, CHIP: tl.constexpr):
    if BOUND:
        value = _clipped(value, -infinity, infinity)
    tl.store(out + at, _rounded(value, out.dtype.element_ty, CHIP), mask=valid)
    if GATED:
        tl.store(gate + at, inside.to(tl.uint8), mask=valid)


@jit
def _coded(code, finite, infinity, down, low, high, low16, high16):
    """(value of a code, whether it is unclipped); float16 has separate limits. Zeros keep their signs."""
    half = infinity == 65504.0
    lowest, largest = tl.where(half, low16, low), tl.where(half, high16, high)
    value = tl.where(code < lowest, lowest, code)
    value = tl.where(value > largest, largest, value) * down
    return value, (code >= low) & (code <= high) & finite


@jit
def _integer(
    x, out, gate, count, infinity,
    up, down, low, high, low16, high16,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr, BOUND: tl.constexpr,
    CHIP: tl.constexpr, QUICK: tl.constexpr,
):  # fmt: skip
    """clip(rne(x·up), low, high)·down."""
    at, valid = _positions(count, BLOCK, WIDTH, ROWS)
    v = _load(x, at, valid)
    finite = tl.abs(v) <= infinity
    if QUICK and not GATED:  # limits first: they are integers on both sides of 0
        half = infinity == 65504.0
        code = _clipped(v * up, tl.where(half, low16, low), tl.where(half, high16, high))
        value, inside = _signed((code + 12582912.0) - 12582912.0, code) * down, finite
    else:
        value, inside = _coded(_rint(v * up), finite, infinity, down, low, high, low16, high16)
    _write(out, gate, at, valid, value, inside, infinity, GATED, BOUND, CHIP)


@jit
def _integer_floor(
    x, out, gate, count, infinity,
    up, down, low, high, low16, high16,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr, BOUND: tl.constexpr,
    CHIP: tl.constexpr,
):  # fmt: skip
    """As `integer`, rounded down."""
    at, valid = _positions(count, BLOCK, WIDTH, ROWS)
    v = _load(x, at, valid)
    value, inside = _coded(tl.floor(v * up), tl.abs(v) <= infinity, infinity, down, low, high, low16, high16)
    _write(out, gate, at, valid, value, inside, infinity, GATED, BOUND, CHIP)


@jit
def _small(v, e_min, mantissa, largest, bound, GATED: tl.constexpr, QUICK: tl.constexpr, FIXED: tl.constexpr):
    """(v rounded to `mantissa` bits with an exponent of at least e_min, at most `largest`; whether it is unclipped).

    QUICK: clipped first, as `largest` is a value of the format; with a gate at the next power of two, `bound`.
    """
    largest, bound = tl.full((1, 1), largest, tl.float32), tl.full((1, 1), bound, tl.float32)
    if QUICK and not GATED:
        value = _summed(_clipped(v, -largest, largest), e_min, mantissa, FIXED)
        return value, value == value
    else:
        if QUICK:
            r = _summed(_clipped(v, -bound, bound), e_min, mantissa, FIXED)
        else:
            r = _nearest(v, e_min, mantissa)
        return _clipped(r, -largest, largest), tl.abs(r) <= largest


@jit
def _small_float(
    x, out, gate, count, infinity, e_min, mantissa, largest, bound,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr, BOUND: tl.constexpr,
    CHIP: tl.constexpr, QUICK: tl.constexpr, FIXED: tl.constexpr,
):  # fmt: skip
    """Elementwise minifloat."""
    at, valid = _positions(count, BLOCK, WIDTH, ROWS)
    v = _load(x, at, valid)
    finite = tl.abs(v) <= infinity
    if BOUND or not QUICK:
        v = _clipped(v, -infinity, infinity)
    value, inside = _small(v, e_min, mantissa, largest, bound, GATED, QUICK, FIXED)
    _write(out, gate, at, valid, value, inside & finite, infinity, GATED, BOUND, CHIP)


@jit
def _small_float_blocks(
    x, out, gate, count, infinity,
    shift, lowest, highest, e_min, mantissa, largest, bound,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr, BOUND: tl.constexpr,
    CHIP: tl.constexpr, QUICK: tl.constexpr, FIXED: tl.constexpr,
):  # fmt: skip
    """As `small_float` with the scale 2^e, e = clip(exponent of the largest + shift, lowest, highest)."""
    at, valid = _positions(count, BLOCK, WIDTH, ROWS)
    v, finite = _read(x, at, valid, infinity)
    e = tl.minimum(tl.maximum(_exponent(_top(v)) + shift, lowest), highest)
    value, inside = _small(_times(v, -e), e_min, mantissa, largest, bound, GATED, QUICK, FIXED)
    _write(out, gate, at, valid, _times(value, e), inside & finite, infinity, GATED, BOUND, CHIP)


@jit
def _powers(v, low, high, LIFT: tl.constexpr):
    """(the nearest power of two, 0 below 2^low, at most 2^high; whether the upper limit did not apply).

    The significand carries as in `_nearest_power`. LIFT: `low` may be so small that denormals count.
    """
    one = tl.full((1, 1), 1.0, tl.float32)
    lowest, largest = _times(one, low), _times(one, high)
    lifted, small = tl.abs(v), v == v
    if LIFT:
        small = lifted < 8.673617379884035e-19  # 2^-60
        lifted = tl.where(small, lifted * 18446744073709551616.0, lifted)
    power = ((_bits(lifted) + 4913932) & 0x7F800000).to(tl.float32, bitcast=True)
    if LIFT:
        power = tl.where(small, power * 5.421010862427522e-20, power)
    value = _signed(tl.where(power < lowest, 0.0, tl.minimum(power, largest)), v)
    return tl.where(v == v, value, v), power <= largest


@jit
def _power_of_two(
    x, out, gate, count, infinity, low, high,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr, BOUND: tl.constexpr,
    CHIP: tl.constexpr, LIFT: tl.constexpr,
):  # fmt: skip
    """Elementwise powers of two; infinity counts as `infinity` if no power exceeds it."""
    at, valid = _positions(count, BLOCK, WIDTH, ROWS)
    v = _load(x, at, valid)
    finite = tl.abs(v) <= infinity
    if BOUND:
        v = _clipped(v, -infinity, infinity)
    value, inside = _powers(v, low, high, LIFT)
    _write(out, gate, at, valid, value, inside & finite, infinity, GATED, BOUND, CHIP)


@jit
def _power_of_two_blocks(
    x, out, gate, count, infinity, top_code, biases,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr, BOUND: tl.constexpr,
    CHIP: tl.constexpr,
):  # fmt: skip
    """As `power_of_two`, exponents 1 − b … top_code − b with the block's bias b."""
    at, valid = _positions(count, BLOCK, WIDTH, ROWS)
    v = _load(x, at, valid)
    top = tl.minimum(_top(v), infinity)
    bias = tl.minimum(tl.maximum(top_code - _nearest_power(top), 0), biases)
    value, inside = _powers(v, tl.maximum(1 - bias, -149), tl.minimum(top_code - bias, 127), True)
    _write(out, gate, at, valid, value, inside & (tl.abs(v) <= infinity), infinity, GATED, BOUND, CHIP)


@jit
def _above(
    x, out, gate, count, infinity, threshold, low, high,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr, BOUND: tl.constexpr,
    CHIP: tl.constexpr,
):  # fmt: skip
    """`high` from the threshold on, `low` below; the gradient passes for |x| ≤ 1."""
    at, valid = _positions(count, BLOCK, WIDTH, ROWS)
    v = _load(x, at, valid)
    value = tl.where(v == v, tl.where(v >= threshold, high, low), v)
    _write(out, gate, at, valid, value, tl.abs(v) <= 1, infinity, GATED, BOUND, CHIP)


@jit
def _nvfp4(
    x, out, gate, count, infinity, scale,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr, BOUND: tl.constexpr,
    CHIP: tl.constexpr,
):  # fmt: skip
    """E2M1(x/t)·t, t = E4M3(top/(6·s))·s; `scale` points to s."""
    at, valid = _positions(count, BLOCK, WIDTH, ROWS)
    v, finite = _read(x, at, valid, infinity)
    s = tl.load(scale)
    d = _nearest(tl.div_rn(_top(v), 6.0 * s), -6, 3)
    t = tl.where(d > 448.0, 448.0, d) * s
    r = tl.div_rn(v, tl.where(t == 0, 1.0, t) + tl.zeros_like(v))
    value, inside = _small(r, 0, 1, 6.0, 8.0, GATED, True, False)
    _write(out, gate, at, valid, value * t, inside & finite, infinity, GATED, BOUND, CHIP)


@jit
def _largest(x, out, count, infinity, WIDTH: tl.constexpr, STEPS: tl.constexpr):
    """The largest magnitude as a float32 bit pattern, which orders as an integer; NaN is ignored."""
    at = tl.program_id(0).to(tl.int64) * (WIDTH * STEPS) + tl.arange(0, WIDTH)
    maxima = tl.zeros((WIDTH,), tl.float32)
    for _ in range(STEPS):
        v = tl.abs(_load(x, at, at < count))
        maxima = tl.maximum(maxima, tl.where(v == v, v, 0.0))
        at += WIDTH
    tl.atomic_max(out, _bits(tl.minimum(tl.max(maxima, 0), infinity)))


@jit
def _segments(
    count, columns, groups, per, BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, CUT: tl.constexpr
):
    """(positions, their mask, the number of their scale, the mask of scales) for rows of `columns`
    elements with `groups` segments of `per` each.

    CUT 0: ROWS whole segments; 1: WIDTH elements of a row that is one segment; 2: any, with a division per element.
    """
    column = tl.arange(0, WIDTH)[None, :]
    if CUT == 0:
        row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]).to(tl.int64)
        in_range = row * BLOCK < count
        return row * BLOCK + column, in_range & (column < BLOCK), row, in_range
    elif CUT == 1:
        parts = tl.cdiv(columns, WIDTH)
        row = (tl.program_id(0) // parts + tl.zeros((1, 1), tl.int32)).to(tl.int64)
        inner = (tl.program_id(0) % parts).to(tl.int64) * WIDTH + column
        return row * columns + inner, inner < columns, row, row * columns < count
    else:
        at = tl.program_id(0).to(tl.int64) * WIDTH + column
        return at, at < count, at // columns * groups + at % columns // per, at < count


@jit
def _steps(
    x, out, gate, count, infinity, scale, low, high, columns, groups, per,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr, BOUND: tl.constexpr,
    CHIP: tl.constexpr, CUT: tl.constexpr,
):  # fmt: skip
    """clip(rne(x/s), low, high)·s, with a scale and two limits per segment."""
    at, valid, segment, in_range = _segments(count, columns, groups, per, BLOCK, WIDTH, ROWS, CUT)
    v = _load(x, at, valid)
    s = tl.load(scale + segment, mask=in_range, other=1.0)
    lowest = tl.load(low + segment, mask=in_range, other=0.0)
    largest = tl.load(high + segment, mask=in_range, other=0.0)
    code = _rint(tl.div_rn(v, s + tl.zeros_like(v)))
    inside = (code >= lowest) & (code <= largest)
    _write(out, gate, at, valid, _clipped(code, lowest, largest) * s, inside, infinity, GATED, BOUND, CHIP)


@jit
def _signs(
    x, out, gate, count, infinity, first, second, third, start, columns, groups, per,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr, BOUND: tl.constexpr,
    CHIP: tl.constexpr, CUT: tl.constexpr, LEVELS: tl.constexpr,
):  # fmt: skip
    """`start` + Σ α·sign(residual) over one to three levels; the gradient passes for |x| ≤ 1."""
    at, valid, segment, in_range = _segments(count, columns, groups, per, BLOCK, WIDTH, ROWS, CUT)
    v = _load(x, at, valid)
    alpha = tl.load(first + segment, mask=in_range, other=0.0)
    term = tl.where(v >= 0, alpha, -alpha)
    value, residual = start + term, v - term
    if LEVELS > 1:
        alpha = tl.load(second + segment, mask=in_range, other=0.0)
        term = tl.where(residual >= 0, alpha, -alpha)
        value, residual = value + term, residual - term
    if LEVELS > 2:
        alpha = tl.load(third + segment, mask=in_range, other=0.0)
        value += tl.where(residual >= 0, alpha, -alpha)
    value = tl.where(v == v, value, v)
    _write(out, gate, at, valid, value, tl.abs(v) <= 1, infinity, GATED, BOUND, CHIP)


@jit
def _ternary(
    x, out, gate, count, infinity, delta, scale, columns, groups, per,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr, BOUND: tl.constexpr,
    CHIP: tl.constexpr, CUT: tl.constexpr,
):  # fmt: skip
    """0 up to the threshold, ±α beyond; the gradient passes everywhere."""
    at, valid, segment, in_range = _segments(count, columns, groups, per, BLOCK, WIDTH, ROWS, CUT)
    v = _load(x, at, valid)
    alpha = tl.load(scale + segment, mask=in_range, other=0.0)
    nonzero = tl.abs(v) > tl.load(delta + segment, mask=in_range, other=0.0)
    sign = tl.where(nonzero, tl.where(v > 0, 1.0, -1.0), 0.0)
    value = tl.where(v == v, sign * alpha, v)
    _write(out, gate, at, valid, value, tl.full(v.shape, 1, tl.int1), infinity, GATED, BOUND, CHIP)


# Triton evaluates annotations, so the kernels have none.
integer = _integer
integer_floor = _integer_floor
small_float = _small_float
small_float_blocks = _small_float_blocks
power_of_two = _power_of_two
power_of_two_blocks = _power_of_two_blocks
above = _above
nvfp4 = _nvfp4
largest = _largest
steps = _steps
signs = _signs
ternary = _ternary
