"""Formats with a float scale for each stretch: a row, a group, or pieces of a tensor.

`shared` holds the given scales; where its arrays are empty, a stretch's own is found first, from elements in cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from kernels.fake_quant.loops.compiled import loop
from kernels.fake_quant.loops.quotients import LARGE, SMALL, quotient
from kernels.fake_quant.loops.stretches import counted_pattern, furthest, plain_pattern, stretched
from kernels.fake_quant.loops.sums import mean, mean_kept, own_levels
from kernels.fake_quant.loops.together import SIZES, side_by_side
from kernels.fake_quant.loops.words import (
    INFINITY,
    MAGNITUDE,
    MOST,
    bits,
    cut,
    from_half,
    holds,
    magnitude,
    narrow,
    nearest,
    real,
    signed,
    to_half,
    unsigned,
    value_of,
    widen,
    word,
)

_ONE, _FULL = np.float32(1), np.float32(np.inf)
_MOST_BFLOAT, _MOST_HALF = np.float32((2 - 2.0**-7) * 2.0**127), np.float32(65504)
_LEAST_HALF = np.float32(2.0**-24)
_LEAST = np.finfo(np.float32).tiny  # a normal number: training counts denormals as 0


# -- scaled integers: constants are what infinity counts as, the largest code, whether codes are symmetric, and how a
# scale is stored (0: float32, 1: bfloat16, 2: float16)


@register_jitable
def stored(scale: Any, kind: Any) -> Any:
    """A scale as it is stored: positive, and rounded up."""
    s = np.float32(scale)
    if kind == 1:
        s = min(max(s, _LEAST), _MOST_BFLOAT)
        return real((bits(s) + np.int32(0xFFFF)) & np.int32(-0x10000))
    if kind == 2:
        s = min(max(s, _LEAST_HALF), _MOST_HALF)
        near = to_half(s)  # pyright: ignore[reportCallIssue]
        value = from_half(near)  # pyright: ignore[reportCallIssue]
        return value if value >= s else from_half(np.int16(near + 1))  # pyright: ignore[reportCallIssue]
    return max(s, _LEAST)


@register_jitable
def extremes(x: Any, start: Any, count: Any) -> Any:
    """The least and the largest finite number, and 0: as signed integers patterns of positive numbers rise with them,
    as unsigned ones negative numbers lie above all others."""
    own = x[start : start + count]
    high, low = word(own[0]), unsigned(word(own[0]))
    for i in range(own.size):
        k, u = word(own[i]), unsigned(word(own[i]))
        high, low = (k if k > high else high), (u if u > low else low)
    most, least = value_of(high, x[0]), value_of(low, x[0])
    if magnitude(most) >= INFINITY or magnitude(least) >= INFINITY:
        return _finite_extremes(own)
    return min(least, np.float32(0)), max(most, np.float32(0))


@register_jitable
def _finite_extremes(x: Any) -> Any:
    low = high = np.float32(0)
    for i in range(x.size):
        v = widen(x[i])
        if magnitude(v) < INFINITY:
            low, high = min(v, low), max(v, high)
    return low, high


@register_jitable
def _code(x: Any, s: Any) -> Any:
    return np.rint(x / s)


_furthest = furthest(_code)


@register_jitable
def _end(reach: Any, s: Any, limit: Any) -> Any:
    """The largest x whose code is at most `limit`; all that is finite where that of `reach`, the furthest, is."""
    return MOST if np.rint(reach / s) <= limit else _furthest(s, limit, (np.float64(limit) + 0.5) * s)


@register_jitable
def _steps(least: Any, reach: Any, c: Any) -> Any:
    """Scale, least and largest code of numbers from `least` to `reach`."""
    _, top, symmetric, kind = c
    if symmetric:
        return stored(np.float64(reach) / top, kind), np.float32(-top), np.float32(top)
    s = stored((np.float64(reach) - np.float64(least)) / top, kind)
    zero = min(max(np.rint(-least / s), np.float32(0)), np.float32(top))
    return s, np.float32(0) - zero, np.float32(top) - zero


@register_jitable
def _integer_scale(
    x: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, table: Any, c: Any, gated: Any
) -> Any:
    _, _, symmetric, kind = c
    own, least, reach = False, -MOST, MOST
    if shared.size:
        row = min(b, shared.shape[0] - 1)
        s, low, high = shared[row, 0], shared[row, 1], shared[row, 2]
    elif symmetric:
        reach = real(m)
        least, own = -reach, kind == 0
        s, low, high = _steps(least, reach, c)
    else:
        least, reach = extremes(x, start, block)
        s, low, high = _steps(least, reach, c)
    last = first = MOST
    if gated and not own:
        last, first = _end(reach, s, high), _end(-least, s, -low)
    ordinary = (s >= SMALL) & (s <= LARGE) & holds(s * max(-low, high), x[0])
    return True, -first, last, ordinary, s, np.float32(1) / s, low, high, low * s, high * s


@register_jitable
def _lean(x: Any, p: Any, c: Any) -> Any:
    """Any element under an ordinary scale: what is clipped beforehand has the last code."""
    _, _, _, _, s, inverse, _, _, least, most = p
    v = widen(x)
    v = least if v < least else v
    y = np.rint(quotient(most if v > most else v, s, inverse)) * s
    return nearest(signed(bits(y) & MAGNITUDE, v), x)  # a quotient of −0 is 0


@register_jitable
def _divided(x: Any, p: Any, c: Any) -> Any:
    """Any element under any scale."""
    _, _, _, _, s, _, low, high, _, _ = p
    code = np.rint(widen(x) / s)
    code = low if code < low else code
    v = (high if code > high else code) * s
    v = -MOST if v < -MOST else v
    return narrow(MOST if v > MOST else v, x)


@register_jitable(inline="always")  # a call would count references to its arrays
def _group_scale(
    x: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, table: Any, c: Any, gated: Any
) -> Any:
    """As `_integer_scale`, of symmetric codes under the group's own scale."""
    reach, kind = real(m), c[3]
    s = stored(np.float64(reach) / c[1], kind)
    high = np.float32(c[1])
    last = _end(reach, s, high) if gated and kind else MOST
    most = s * high
    ordinary = (s >= SMALL) & (s <= LARGE) & holds(most, x[0])
    return True, -last, last, ordinary, s, np.float32(1) / s, -high, high, -most, most


scaled_integer = stretched(_integer_scale, _lean, _divided, infinite=False)
scaled_groups = {0: scaled_integer} | {
    n: side_by_side(_group_scale, _lean, _divided, infinite=False, fixed=n) for n in SIZES
}


@loop
def whole_steps(row: Any, least: Any, reach: Any, c: Any) -> None:
    """Scale, least and largest code of a whole array."""
    row[0, 0], row[0, 1], row[0, 2] = _steps(np.float32(least), np.float32(reach), c)


@loop
def whole_extremes(x: Any, most: Any) -> Any:
    """Of a whole array: the least and the largest finite number, and 0."""
    return extremes(x, 0, x.size)


@loop
def whole_largest(x: Any, most: Any) -> Any:
    """Of a whole array: the largest magnitude of its finite numbers."""
    m = plain_pattern(x, 0, x.size)
    return real(counted_pattern(x, 0, x.size, most, most) if m > most else m)


# -- signs: constants are how many there are, and what they are added to


@register_jitable
def _finite(y: Any) -> Any:
    y = -MOST if y < -MOST else y
    return MOST if y > MOST else y


@register_jitable
def _levels(
    x: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, table: Any, c: Any, gated: Any
) -> Any:
    levels, zero = c
    if shared.size:
        row = min(b, shared.shape[0] - 1)
        a, second, third = shared[row, 0], shared[row, 1], shared[row, 2]
    else:
        a, second, third = own_levels(x[start : start + block], levels)
    like = x[0]
    high, low = np.float32(zero + a), np.float32(zero - a)
    if levels == 1:
        return (
            True,
            -_ONE,
            _ONE,
            True,
            a,
            _kept(high, like),
            _kept(high, like),
            _kept(low, like),
            _kept(low, like),
            third,
        )
    above, below = _kept(high + second, like), _kept(high - second, like)
    return True, -_ONE, _ONE, True, a, above, below, _kept(low + second, like), _kept(low - second, like), third


@register_jitable
def _kept(y: Any, like: Any) -> Any:
    """y as the tensor's type holds it."""
    return widen(narrow(_finite(y), like))


@register_jitable
def _one_sign(x: Any, p: Any, c: Any) -> Any:
    v = widen(x)
    y = p[5] if v >= 0 else p[8]
    return cut(y if v == v else v, x)


@register_jitable
def _two_signs(x: Any, p: Any, c: Any) -> Any:
    """One of four values; what the first sign leaves over is negative below the first scale."""
    _, _, _, _, a, first, second, third, fourth, _ = p
    v = widen(x)
    positive = v >= 0
    upper = v >= (a if positive else -a)
    y = (first if upper else second) if positive else (third if upper else fourth)
    return cut(y if v == v else v, x)


@register_jitable
def _sign(v: Any) -> Any:
    return np.float32(1) if v >= 0 else np.float32(-1)


@register_jitable
def _given(
    x: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, table: Any, c: Any, gated: Any
) -> Any:
    if shared.size:
        row = min(b, shared.shape[0] - 1)
        a, second, third = shared[row, 0], shared[row, 1], shared[row, 2]
    else:
        a, second, third = own_levels(x[start : start + block], c[0])
    return True, -_ONE, _ONE, True, a, second, third


@register_jitable
def _three_signs(x: Any, p: Any, c: Any) -> Any:
    _, _, _, _, first, second, third = p
    v = widen(x)
    r = v - first * _sign(v)
    y = ((c[1] + first * _sign(v)) + second * _sign(r)) + third * _sign(r - second * _sign(r))
    y = _finite(y)
    return narrow(y if v == v else v, x)


one_sign = stretched(_levels, _one_sign, tops=False)
two_signs = stretched(_levels, _two_signs, tops=False)
three_signs = stretched(_given, _three_signs, tops=False)


# -- ternary: the constant is the threshold


@register_jitable
def _threshold(
    x: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, table: Any, c: Any, gated: Any
) -> Any:
    own, row = x[start : start + block], min(b, shared.shape[0] - 1)
    if shared.shape[1] > 1:
        delta, finite = shared[row, 1], False
    else:
        average, finite = mean(own)
        delta = np.float32(average * c[0])
    alpha = shared[row, 0] if shared.size else np.float32(mean_kept(own, delta, finite))
    return True, -_FULL, _FULL, finite, delta, widen(narrow(alpha, x[0]))


@register_jitable
def _three_values(x: Any, p: Any, c: Any) -> Any:
    """0 up to Δ, ±α above."""
    _, _, _, _, delta, alpha = p
    v = widen(x)
    y = alpha if v > delta else np.float32(0)
    return cut(-alpha if v < -delta else y, x)


@register_jitable
def _three_values_or_none(x: Any, p: Any, c: Any) -> Any:
    v = widen(x)
    return _three_values(x, p, c) if v == v else x


ternary = stretched(_threshold, _three_values, _three_values_or_none, tops=False, gates=False)
