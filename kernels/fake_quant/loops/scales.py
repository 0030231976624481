"""Formats with a float scale for each stretch: a row, a group, or pieces of a tensor.

`shared` holds the given scales; where its arrays are empty, a stretch's own is found first, from elements in cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload, register_jitable

from espalier.kernels.fake_quant.loops.compiled import loop
from espalier.kernels.fake_quant.loops.fill import fill_beyond
from espalier.kernels.fake_quant.loops.quotients import LARGE, SMALL, quotient
from espalier.kernels.fake_quant.loops.stretches import counted_pattern, furthest, pattern_of_all, stretched
from espalier.kernels.fake_quant.loops.sums import mean, mean_kept, own_levels
from espalier.kernels.fake_quant.loops.together import SIZES, side_by_side
from espalier.kernels.fake_quant.loops.words import (
    INFINITY,
    MOST,
    bits,
    from_half,
    holds,
    magnitude,
    narrow,
    nearest,
    real,
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
def _finite(y: Any) -> Any:
    y = -MOST if y < -MOST else y
    return MOST if y > MOST else y


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
def _ordinary(s: Any, most: Any, like: Any) -> Any:
    """Whether quotients by s and products up to `most` lose nothing."""
    return (s >= SMALL) & (s <= LARGE) & holds(most, like)


@register_jitable
def _own_last(reach: Any, s: Any, c: Any, gated: Any) -> Any:
    """The largest magnitude whose gradient passes where the scale is the largest's own; without a gate one that is
    easily found."""
    if not gated:
        return np.float32(0) if c[3] else MOST
    return _end(reach, s, np.float32(c[1])) if c[3] else MOST


@register_jitable
def _numbers(s: Any, m: Any, c: Any, like: Any) -> Any:
    """Whether a scale is ordinary; it, its reciprocal, the least and the largest value."""
    most = s * np.float32(c[1])
    return _ordinary(s, most, like) | (m == 0), (s, np.float32(1) / s, -most, most)


@register_jitable(inline="always")  # a call would count references to its arrays
def _own_step(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    """Of symmetric codes, under the stretch's own scale."""
    s = stored(np.float64(real(m)) / c[1], c[3])
    last = _own_last(real(m), s, c, gated)
    ordinary, numbers = _numbers(s, m, c, x[0])
    return True, -last, last, ordinary, numbers


@register_jitable
def _given_step(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    """As `_own_step`, under a given scale."""
    s = shared[min(b, shared.shape[0] - 1), 0]
    last = _end(MOST, s, np.float32(c[1])) if gated else MOST
    ordinary, numbers = _numbers(s, INFINITY, c, x[0])  # a row of zeros may hold what is not finite
    return True, -last, last, ordinary, numbers


@register_jitable
def _lean(v: Any, p: Any, c: Any) -> Any:
    """Any element under an ordinary scale: what is clipped beforehand has the last code."""
    s, inverse, least, most = p
    w = least if v < least else v
    return np.rint(quotient(most if w > most else w, s, inverse)) * s


@register_jitable
def _divided(v: Any, p: Any, c: Any) -> Any:
    """Any element under any scale."""
    s, high = p[0], np.float32(c[1])
    code = np.rint(v / s)
    code = -high if code < -high else code
    return _finite((high if code > high else code) * s)


@register_jitable
def _affine_step(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    """Of codes with a zero point: the scale, its reciprocal, least and largest code and value."""
    least, reach = -MOST, MOST
    if shared.size:
        row = min(b, shared.shape[0] - 1)
        s, low, high = shared[row, 0], shared[row, 1], shared[row, 2]
    else:
        least, reach = extremes(x, start, block)
        s, low, high = _steps(least, reach, c)
    last = first = MOST
    if gated:
        last, first = _end(reach, s, high), _end(-least, s, -low)
    ordinary = _ordinary(s, s * max(-low, high), x[0])
    return True, -first, last, ordinary, (s, np.float32(1) / s, low, high, low * s, high * s)


@register_jitable
def _affine(v: Any, p: Any, c: Any) -> Any:
    """Any element under an ordinary scale."""
    s, inverse, _, _, least, most = p
    w = least if v < least else v
    return np.rint(quotient(most if w > most else w, s, inverse)) * s


@register_jitable
def _affine_divided(v: Any, p: Any, c: Any) -> Any:
    """Any element under any scale."""
    s, _, low, high, _, _ = p
    code = np.rint(v / s)
    code = low if code < low else code
    return _finite((high if code > high else code) * s)


_SYMMETRIC: dict[str, Any] = {"into": nearest, "infinite": False}
scaled_integer = stretched(_own_step, _lean, _divided, **_SYMMETRIC)
scaled_given = stretched(_given_step, _lean, _divided, **_SYMMETRIC, tops=False)  # finds no largest magnitude
scaled_groups = {0: scaled_integer} | {
    n: side_by_side(_own_step, _lean, _divided, **_SYMMETRIC, fixed=n) for n in SIZES
}
affine_integer = stretched(_affine_step, _affine, _affine_divided, into=nearest, tops=False)


@loop
def whole_steps(row: Any, least: Any, reach: Any, c: Any) -> None:
    """Scale, least and largest code of a whole array."""
    row[0, 0], row[0, 1], row[0, 2] = _steps(np.float32(least), np.float32(reach), c)


@loop
def whole_extremes(x: Any, a: Any, b: Any, row: Any) -> None:
    """Of a whole array, into `row`: the least and the largest finite number, and 0."""
    row[0], row[1] = extremes(x, 0, x.size)


@loop
def whole_largest(x: Any, most: Any, b: Any, row: Any) -> None:
    """Of a whole array, into `row`: the largest magnitude of its finite numbers."""
    m = pattern_of_all(x)
    row[0] = real(counted_pattern(x, 0, x.size, most, most) if m > most else m)


# -- signs: constants are how many there are, and what they are added to


@register_jitable
def _levels(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    levels, zero = c
    if shared.size:
        row = min(b, shared.shape[0] - 1)
        a, second = shared[row, 0], shared[row, 1]
    else:
        a, second, _ = own_levels(x[start : start + block], levels, out, start)
    like = x[0]
    high, low = np.float32(zero + a), np.float32(zero - a)
    if levels == 1:
        return True, -_ONE, _ONE, True, (a, _kept(high, like), _kept(high, like), _kept(low, like), _kept(low, like))
    above, below = _kept(high + second, like), _kept(high - second, like)
    return True, -_ONE, _ONE, True, (a, above, below, _kept(low + second, like), _kept(low - second, like))


@register_jitable
def _kept(y: Any, like: Any) -> Any:
    """y as the tensor's type holds it."""
    return widen(narrow(_finite(y), like))


@register_jitable
def _one_sign(v: Any, p: Any, c: Any) -> Any:
    y = p[1] if v >= 0 else p[4]
    return y if v == v else v


@register_jitable
def _two_signs(v: Any, p: Any, c: Any) -> Any:
    """One of four values; what the first sign leaves over is negative below the first scale."""
    a, first, second, third, fourth = p
    positive = v >= 0
    upper = v >= (a if positive else -a)
    y = (first if upper else second) if positive else (third if upper else fourth)
    return y if v == v else v


@register_jitable
def _sign(v: Any) -> Any:
    return np.float32(1) if v >= 0 else np.float32(-1)


@register_jitable
def _given(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    if shared.size:
        row = min(b, shared.shape[0] - 1)
        a, second, third = shared[row, 0], shared[row, 1], shared[row, 2]
    else:
        a, second, third = own_levels(x[start : start + block], c[0], out, start)
    return True, -_ONE, _ONE, True, (a, second, third)


@register_jitable
def _three_signs(v: Any, p: Any, c: Any) -> Any:
    first, second, third = p
    r = v - first * _sign(v)
    y = _finite(((c[1] + first * _sign(v)) + second * _sign(r)) + third * _sign(r - second * _sign(r)))
    return y if v == v else v


one_sign = stretched(_levels, _one_sign, tops=False, ahead=512)
two_signs = stretched(_levels, _two_signs, tops=False, sums=True)
three_signs = stretched(_given, _three_signs, into=narrow, tops=False, sums=True)


# -- ternary: the constant is the threshold


def short_pattern(y: Any, like: Any) -> Any:
    """The largest pattern of 16 bits up to a magnitude; whether it parts elements as y does. In float32 of no use."""
    raise NotImplementedError


@overload(short_pattern, strict=False)
def _short_pattern(y: Any, like: Any) -> Any:
    if like == types.uint16:
        # Where denormals count as 0, their patterns would still lie above one.
        return lambda y, like: (np.int16(bits(y) >> np.int32(16)), (y >= _LEAST) & (y <= MOST))

    def of_half(y: Any, like: Any) -> Any:
        near = to_half(y)  # pyright: ignore[reportCallIssue]
        down = from_half(near) > y  # pyright: ignore[reportCallIssue]
        return np.int16(near - np.int16(down)), (y >= _LEAST) & (y <= MOST)

    return of_half if like == types.int16 else lambda y, like: (np.int16(0), True)


@register_jitable
def _threshold(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    own, row = x[start : start + block], min(b, shared.shape[0] - 1)
    if shared.shape[1] > 1:
        delta, finite = shared[row, 1], shared[row, 2] != 0
    else:
        average, finite = mean(own)
        delta = np.float32(average * c[0])
    alpha = shared[row, 0] if shared.size else np.float32(mean_kept(own, delta, finite, out, start))
    limit, exact = short_pattern(delta, x[0])
    kept = widen(narrow(alpha, x[0]))
    return True, -_FULL, _FULL, finite & exact, (delta, kept, limit, np.int16(narrow(alpha, x[0])))


@register_jitable
def _three_values(v: Any, p: Any, c: Any) -> Any:
    """0 up to Δ, ±α above."""
    delta, alpha, _, _ = p
    y = alpha if v > delta else np.float32(0)
    return -alpha if v < -delta else y


@register_jitable
def _three_values_or_none(v: Any, p: Any, c: Any) -> Any:
    return _three_values(v, p, c) if v == v else v


ternary = stretched(
    _threshold, _three_values, _three_values_or_none, tops=False, gates=False, sums=True, filler=fill_beyond
)
