"""Formats with a float scale per segment: a row, a group, or a part of a tensor.

`shared` holds given scales; if it is empty, each segment's scale is computed first, from cached elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload, register_jitable

from espalier.kernels.fake_quant.loops.compiled import loop
from espalier.kernels.fake_quant.loops.fill import fill_beyond
from espalier.kernels.fake_quant.loops.quotients import LARGE, SMALL, quotient
from espalier.kernels.fake_quant.loops.segment_batches import BATCHED_SIZES, batched_segment_loop
from espalier.kernels.fake_quant.loops.segments import clipped_pattern, largest_with_code, pattern_of_all, segment_loop
from espalier.kernels.fake_quant.loops.sums import computed_levels, mean, mean_above
from espalier.kernels.fake_quant.loops.words import (
    INFINITY,
    LARGEST,
    bits,
    from_half,
    magnitude,
    narrow,
    narrow_in_range,
    real,
    stays_finite,
    to_half,
    unsigned,
    value_of,
    widen,
    word,
)

_ONE, _FULL = np.float32(1), np.float32(np.inf)
_MOST_BFLOAT, _MOST_HALF = np.float32((2 - 2.0**-7) * 2.0**127), np.float32(65504)
_LEAST_HALF = np.float32(2.0**-24)
_LEAST = np.finfo(np.float32).tiny  # a normal number: training flushes denormals


# -- scaled integers: constants are the replacement of infinity, the largest code, whether codes are symmetric, and the
# dtype of scales (0: float32, 1: bfloat16, 2: float16)


@register_jitable
def stored(scale: Any, kind: Any) -> Any:
    """The stored scale: positive, and rounded up to its dtype."""
    s = np.float32(scale)
    if kind == 1:
        s = min(max(s, _LEAST), _MOST_BFLOAT)
        return real((bits(s) + np.int32(0xFFFF)) & np.int32(-0x10000))
    if kind == 2:
        s = min(max(s, _LEAST_HALF), _MOST_HALF)
        nearest = to_half(s)  # pyright: ignore[reportCallIssue]
        value = from_half(nearest)  # pyright: ignore[reportCallIssue]
        return value if value >= s else from_half(np.int16(nearest + 1))  # pyright: ignore[reportCallIssue]
    return max(s, _LEAST)


@register_jitable
def extremes(x: Any, start: Any, count: Any) -> Any:
    """Minimum and maximum of the finite numbers and 0. Compared as signed integers, patterns order positive numbers;
    compared as unsigned ones, negative numbers are above all others."""
    part = x[start : start + count]
    high, low = word(part[0]), unsigned(word(part[0]))
    for i in range(part.size):
        k, u = word(part[i]), unsigned(word(part[i]))
        high, low = (k if k > high else high), (u if u > low else low)
    highest, lowest = value_of(high, x[0]), value_of(low, x[0])
    if magnitude(highest) >= INFINITY or magnitude(lowest) >= INFINITY:
        return _finite_extremes(part)
    return min(lowest, np.float32(0)), max(highest, np.float32(0))


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
    y = -LARGEST if y < -LARGEST else y
    return LARGEST if y > LARGEST else y


@register_jitable
def _code(x: Any, s: Any) -> Any:
    return np.rint(x / s)


_furthest = largest_with_code(_code)


@register_jitable
def _end(maximum: Any, s: Any, limit: Any) -> Any:
    """The largest x whose code is at most `limit`; the largest float32 if the code of `maximum` is within it."""
    return LARGEST if np.rint(maximum / s) <= limit else _furthest(s, limit, (np.float64(limit) + 0.5) * s)


@register_jitable
def _steps(minimum: Any, maximum: Any, c: Any) -> Any:
    """Scale, smallest and largest code of numbers from `minimum` to `maximum`."""
    _, top, symmetric, kind = c
    if symmetric:
        return stored(np.float64(maximum) / top, kind), np.float32(-top), np.float32(top)
    s = stored((np.float64(maximum) - np.float64(minimum)) / top, kind)
    zero = min(max(np.rint(-minimum / s), np.float32(0)), np.float32(top))
    return s, np.float32(0) - zero, np.float32(top) - zero


@register_jitable
def _ordinary(s: Any, largest: Any, like: Any) -> Any:
    """Whether quotients by s and products up to `largest` stay within the normal numbers."""
    return (s >= SMALL) & (s <= LARGE) & stays_finite(largest, like)


@register_jitable
def _computed_last(maximum: Any, s: Any, c: Any, gated: Any) -> Any:
    """The largest magnitude whose gradient passes with a scale computed from the segment; a cheap bound if there is no
    gate."""
    if not gated:
        return np.float32(0) if c[3] else LARGEST
    return _end(maximum, s, np.float32(c[1])) if c[3] else LARGEST


@register_jitable
def _numbers(s: Any, m: Any, c: Any, like: Any) -> Any:
    """(whether a scale is ordinary, (scale, reciprocal, smallest value, largest value))."""
    largest = s * np.float32(c[1])
    return _ordinary(s, largest, like) | (m == 0), (s, np.float32(1) / s, -largest, largest)


@register_jitable(inline="always")  # a call would count references to its arrays
def _computed_step(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    """`find` for symmetric codes with a scale computed from the segment."""
    s = stored(np.float64(real(m)) / c[1], c[3])
    last = _computed_last(real(m), s, c, gated)
    ordinary, numbers = _numbers(s, m, c, x[0])
    return True, -last, last, ordinary, numbers


@register_jitable
def _given_step(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    """As `_computed_step`, with a given scale."""
    s = shared[min(b, shared.shape[0] - 1), 0]
    last = _end(LARGEST, s, np.float32(c[1])) if gated else LARGEST
    ordinary, numbers = _numbers(s, INFINITY, c, x[0])  # a row of zeros may contain non-finite numbers
    return True, -last, last, ordinary, numbers


@register_jitable
def _ordinary_value(v: Any, p: Any, c: Any) -> Any:
    """An element with an ordinary scale, clipped before the division."""
    s, inverse, lowest, highest = p
    w = lowest if v < lowest else v
    return np.rint(quotient(highest if w > highest else w, s, inverse)) * s


@register_jitable
def _general_value(v: Any, p: Any, c: Any) -> Any:
    """An element with any scale."""
    s, high = p[0], np.float32(c[1])
    code = np.rint(v / s)
    code = -high if code < -high else code
    return _finite((high if code > high else code) * s)


@register_jitable
def _affine_step(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    """`find` for codes with a zero point: scale, reciprocal, smallest and largest code and value."""
    minimum, maximum = -LARGEST, LARGEST
    if shared.size:
        row = min(b, shared.shape[0] - 1)
        s, low, high = shared[row, 0], shared[row, 1], shared[row, 2]
    else:
        minimum, maximum = extremes(x, start, block)
        s, low, high = _steps(minimum, maximum, c)
    last = first = LARGEST
    if gated:
        last, first = _end(maximum, s, high), _end(-minimum, s, -low)
    ordinary = _ordinary(s, s * max(-low, high), x[0])
    return True, -first, last, ordinary, (s, np.float32(1) / s, low, high, low * s, high * s)


@register_jitable
def _affine_value(v: Any, p: Any, c: Any) -> Any:
    """An element with an ordinary scale."""
    s, inverse, _, _, lowest, highest = p
    w = lowest if v < lowest else v
    return np.rint(quotient(highest if w > highest else w, s, inverse)) * s


@register_jitable
def _affine_general_value(v: Any, p: Any, c: Any) -> Any:
    """An element with any scale."""
    s, _, low, high, _, _ = p
    code = np.rint(v / s)
    code = low if code < low else code
    return _finite((high if code > high else code) * s)


_SYMMETRIC: dict[str, Any] = {"into": narrow_in_range, "infinite": False}
scaled_integer = segment_loop(_computed_step, _ordinary_value, _general_value, **_SYMMETRIC)
scaled_given = segment_loop(
    _given_step, _ordinary_value, _general_value, **_SYMMETRIC, tops=False
)  # needs no largest magnitude
scaled_groups = {0: scaled_integer} | {
    n: batched_segment_loop(_computed_step, _ordinary_value, _general_value, **_SYMMETRIC, fixed=n)
    for n in BATCHED_SIZES
}
affine_integer = segment_loop(_affine_step, _affine_value, _affine_general_value, into=narrow_in_range, tops=False)


@loop
def whole_steps(row: Any, minimum: Any, maximum: Any, c: Any) -> None:
    """Write scale, smallest and largest code of a whole array into `row`."""
    row[0, 0], row[0, 1], row[0, 2] = _steps(np.float32(minimum), np.float32(maximum), c)


@loop
def whole_extremes(x: Any, a: Any, b: Any, row: Any) -> None:
    """Write minimum and maximum of the finite numbers and 0 of a whole array into `row`."""
    row[0], row[1] = extremes(x, 0, x.size)


@loop
def whole_largest(x: Any, infinity: Any, b: Any, row: Any) -> None:
    """Write the largest finite magnitude of a whole array into `row`."""
    m = pattern_of_all(x)
    row[0] = real(clipped_pattern(x, 0, x.size, infinity, infinity) if m > infinity else m)


# -- signs: constants are the number of levels and the initial value of the sum


@register_jitable
def _level_scales(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    levels, zero = c
    if shared.size:
        row = min(b, shared.shape[0] - 1)
        a, second = shared[row, 0], shared[row, 1]
    else:
        a, second, _ = computed_levels(x[start : start + block], levels, out, start)
    like = x[0]
    high, low = np.float32(zero + a), np.float32(zero - a)
    if levels == 1:
        return (
            True,
            -_ONE,
            _ONE,
            True,
            (a, _in_dtype(high, like), _in_dtype(high, like), _in_dtype(low, like), _in_dtype(low, like)),
        )
    above, below = _in_dtype(high + second, like), _in_dtype(high - second, like)
    return True, -_ONE, _ONE, True, (a, above, below, _in_dtype(low + second, like), _in_dtype(low - second, like))


@register_jitable
def _in_dtype(y: Any, like: Any) -> Any:
    """y rounded to the tensor's dtype."""
    return widen(narrow(_finite(y), like))


@register_jitable
def _one_sign(v: Any, p: Any, c: Any) -> Any:
    y = p[1] if v >= 0 else p[4]
    return y if v == v else v


@register_jitable
def _two_signs(v: Any, p: Any, c: Any) -> Any:
    """One of four values; the residual of the first sign is negative below the first scale."""
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
        a, second, third = computed_levels(x[start : start + block], c[0], out, start)
    return True, -_ONE, _ONE, True, (a, second, third)


@register_jitable
def _three_signs(v: Any, p: Any, c: Any) -> Any:
    first, second, third = p
    r = v - first * _sign(v)
    y = _finite(((c[1] + first * _sign(v)) + second * _sign(r)) + third * _sign(r - second * _sign(r)))
    return y if v == v else v


one_sign = segment_loop(_level_scales, _one_sign, tops=False, ahead=512)
two_signs = segment_loop(_level_scales, _two_signs, tops=False, sums=True)
three_signs = segment_loop(_given, _three_signs, into=narrow, tops=False, sums=True)


# -- ternary: the constant is the threshold


def short_pattern(y: Any, like: Any) -> Any:
    """(the largest 16-bit pattern up to a magnitude, whether comparing with it equals comparing with y)."""
    raise NotImplementedError


@overload(short_pattern, strict=False)
def _short_pattern(y: Any, like: Any) -> Any:
    if like == types.uint16:
        # If denormals are flushed, their patterns would still exceed it.
        return lambda y, like: (np.int16(bits(y) >> np.int32(16)), (y >= _LEAST) & (y <= LARGEST))

    def of_half(y: Any, like: Any) -> Any:
        near = to_half(y)  # pyright: ignore[reportCallIssue]
        down = from_half(near) > y  # pyright: ignore[reportCallIssue]
        return np.int16(near - np.int16(down)), (y >= _LEAST) & (y <= LARGEST)

    return of_half if like == types.int16 else lambda y, like: (np.int16(0), True)


@register_jitable
def _threshold(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    part, row = x[start : start + block], min(b, shared.shape[0] - 1)
    if shared.shape[1] > 1:
        delta, finite = shared[row, 1], shared[row, 2] != 0
    else:
        average, finite = mean(part)
        delta = np.float32(average * c[0])
    alpha = shared[row, 0] if shared.size else np.float32(mean_above(part, delta, finite, out, start))
    limit, exact = short_pattern(delta, x[0])
    stored = widen(narrow(alpha, x[0]))
    return True, -_FULL, _FULL, finite & exact, (delta, stored, limit, np.int16(narrow(alpha, x[0])))


@register_jitable
def _three_values(v: Any, p: Any, c: Any) -> Any:
    """0 up to Δ, ±α above."""
    delta, alpha, _, _ = p
    y = alpha if v > delta else np.float32(0)
    return -alpha if v < -delta else y


@register_jitable
def _three_values_or_none(v: Any, p: Any, c: Any) -> Any:
    return _three_values(v, p, c) if v == v else v


ternary = segment_loop(
    _threshold, _three_values, _three_values_or_none, tops=False, gates=False, sums=True, filler=fill_beyond
)
