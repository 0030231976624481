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
from kernels.fake_quant.loops.words import (
    INFINITY,
    MAGNITUDE,
    MOST,
    bits,
    cut,
    from_half,
    magnitude,
    narrow,
    real,
    to_half,
    widen,
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
def _key(v: Any) -> Any:
    """An integer that orders floats: patterns of negative ones are turned round."""
    u = bits(v)
    return np.int32(u ^ np.int32((u >> np.int32(31)) & MAGNITUDE))


@register_jitable
def extremes(x: Any, start: Any, count: Any) -> Any:
    """The least and the largest finite number, and 0."""
    low = high = np.int32(0)
    for i in range(count):
        v = widen(x[start + i])
        k = _key(v) if magnitude(v) < INFINITY else np.int32(0)
        low, high = (k if k < low else low), (k if k > high else high)
    return real(low ^ np.int32((low >> np.int32(31)) & MAGNITUDE)), real(high)


@register_jitable
def _code(x: Any, s: Any) -> Any:
    return np.rint(x / s)


_furthest = furthest(_code)


@register_jitable
def _end(reach: Any, s: Any, limit: Any) -> Any:
    """The largest x whose code is at most `limit`; all that is finite where that of `reach`, the furthest, is."""
    return MOST if np.rint(reach / s) <= limit else _furthest(s, limit, (np.float64(limit) + 0.5) * s)


@register_jitable
def _integer_scale(
    x: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, table: Any, c: Any, gated: Any
) -> Any:
    _, top, symmetric, kind = c
    if shared.size:
        s, low, high, own, finite = shared[b, 0], shared[b, 1], shared[b, 2], False, False
        least, reach = -MOST, MOST
    elif symmetric:
        reach = real(m)
        least, own = -reach, kind == 0
        s, high = stored(np.float64(reach) / top, kind), np.float32(top)
        low = -high
    else:
        least, reach = extremes(x, start, block)
        s, own = stored((np.float64(reach) - np.float64(least)) / top, kind), False
        zero = min(max(np.rint(-least / s), np.float32(0)), np.float32(top))
        low, high = np.float32(0) - zero, np.float32(top) - zero
    last = first = MOST
    if gated and not own:
        last, first = _end(reach, s, high), _end(-least, s, -low)
    ordinary = (s >= SMALL) & (s <= LARGE) & finite
    return True, -first, last, ordinary, s, np.float32(1) / s, low, high


@register_jitable
def _lean(x: Any, p: Any, c: Any) -> Any:
    """An element of a finite stretch, under its own scale."""
    _, _, _, _, s, inverse, low, high = p
    code = np.rint(quotient(widen(x), s, inverse))
    code = low if code < low else code
    return narrow((high if code > high else code) * s, x)


@register_jitable
def _divided(x: Any, p: Any, c: Any) -> Any:
    """Any element under any scale."""
    _, _, _, _, s, _, low, high = p
    code = np.rint(widen(x) / s)
    code = low if code < low else code
    v = (high if code > high else code) * s
    v = -MOST if v < -MOST else v
    return narrow(MOST if v > MOST else v, x)


scaled_integer = stretched(_integer_scale, _lean, _divided, infinite=False)


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
        a, second, third = shared[b, 0], shared[b, 1], shared[b, 2]
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
        a, second, third = shared[b, 0], shared[b, 1], shared[b, 2]
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
    own = x[start : start + block]
    if shared.shape[1] > 1:
        delta, finite = shared[b, 1], False
    else:
        average, finite = mean(own)
        delta = np.float32(average * c[0])
    alpha = shared[b, 0] if shared.size else np.float32(mean_kept(own, delta, finite))
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
