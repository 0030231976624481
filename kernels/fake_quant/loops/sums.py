"""Means of magnitudes, summed in float64 in any order: rounded to float32, they do not depend on the order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload, register_jitable

from espalier.kernels.fake_quant.loops.compiled import any_order, loop
from espalier.kernels.fake_quant.loops.fill import PIECE, fetch_for_write, four
from espalier.kernels.fake_quant.loops.words import INFINITY, LARGEST, absolute, bits, real, widen

_NONE = np.float32(0)


def _summed(term: Callable[..., Any]) -> Any:
    """(x, a, b) → Σ term(element, a, b), not finite if a term is not. Four partial sums hide the latency of
    additions."""

    @any_order
    def total(x: Any, a: Any, b: Any) -> Any:
        q = x.size // 4
        s0 = s1 = s2 = s3 = np.float64(0)
        for i in range(q):
            s0 += np.float64(term(widen(x[i]), a, b))
            s1 += np.float64(term(widen(x[q + i]), a, b))
            s2 += np.float64(term(widen(x[2 * q + i]), a, b))
            s3 += np.float64(term(widen(x[3 * q + i]), a, b))
        for i in range(4 * q, x.size):
            s0 += np.float64(term(widen(x[i]), a, b))
        return (s0 + s1) + (s2 + s3), x.size

    return total


@register_jitable
def _magnitude(v: Any, a: Any, b: Any) -> Any:
    return absolute(v)


@register_jitable
def _residual(v: Any, a: Any, b: Any) -> Any:
    """Magnitude of the residual of a scaled sign."""
    return absolute(absolute(v) - a)


@register_jitable
def _left_of_two(v: Any, a: Any, b: Any) -> Any:
    return absolute(absolute(absolute(v) - a) - b)


_FIELD, _SCALE, _TOO_LARGE = np.int64(0x7FFF << 45), np.float64(2.0**896), np.float64(2.0**128)


@any_order
def _sum_of_words(x: Any, a: Any, b: Any) -> Any:
    """As `_summed`, of bfloat16 magnitudes: their patterns are read as float64 numbers, smaller by a factor of 2^896.
    Non-finite elements give a large sum."""
    s0 = s1 = s2 = s3 = np.float64(0)
    for i in range(x.size >> 2):
        w = four(x, 4 * i)  # pyright: ignore[reportCallIssue]
        s0 += np.int64(np.int64(w << np.int64(45)) & _FIELD).view(np.float64)
        s1 += np.int64(np.int64(w << np.int64(29)) & _FIELD).view(np.float64)
        s2 += np.int64(np.int64(w << np.int64(13)) & _FIELD).view(np.float64)
        s3 += np.int64(np.int64(w >> np.int64(3)) & _FIELD).view(np.float64)
    total = ((s0 + s1) + (s2 + s3)) * _SCALE
    for i in range(x.size & -4, x.size):
        total += np.float64(absolute(widen(x[i])))
    return total if total < _TOO_LARGE else np.float64(np.inf), x.size


_sum_of_floats = _summed(_magnitude)


def _sum_sizes(x: Any, a: Any, b: Any) -> Any:
    """(Σ |element|, not finite if an element is not; the number of elements)."""
    raise NotImplementedError


@overload(_sum_sizes, strict=False)
def _sum_of_sizes(x: Any, a: Any, b: Any) -> Any:
    if x.dtype == types.uint16:
        return lambda x, a, b: _sum_of_words(x, a, b)
    return lambda x, a, b: _sum_of_floats(x, a, b)


@any_order
def _sum_above(x: Any, delta: Any, b: Any) -> Any:
    """Sum and number of the magnitudes above `delta`."""
    q = x.size // 2
    s0 = s1 = np.float64(0)
    count = np.int32(0)
    for i in range(q):
        v, w = absolute(widen(x[i])), absolute(widen(x[q + i]))
        s0 += np.float64(v if v > delta else np.float32(0))
        s1 += np.float64(w if w > delta else np.float32(0))
        count = np.int32(count + np.int32(v > delta) + np.int32(w > delta))  # int64 has half the lanes
    for i in range(2 * q, x.size):
        v = absolute(widen(x[i]))
        s0 += np.float64(v if v > delta else np.float32(0))
        count = np.int32(count + np.int32(v > delta))
    return s0 + s1, np.int64(count)


@any_order
def _sum_above_short(x: Any, delta: Any) -> Any:
    """As `_sum_above` for 16-bit elements, in float32."""
    total, count = np.float32(0), np.int32(0)
    for i in range(x.size):
        v = absolute(widen(x[i]))
        total += v if v > delta else np.float32(0)
        count = np.int32(count + np.int32(v > delta))
    return total, count


@register_jitable
def _sum_above_16(x: Any, delta: Any, spare_bits: Any, out: Any, start: Any, last: Any) -> Any:
    """Sum piecewise in float32. Magnitudes above `delta` are multiples of delta's last place, and `spare_bits`
    represent sums of them exactly: a total within them was exact throughout."""
    limit = real(np.int32(np.int32(bits(delta) & INFINITY) + np.int32(spare_bits << 23)))
    total, count = np.float64(0), 0
    for piece in range((x.size + PIECE - 1) // PIECE):
        part = x[piece * PIECE : (piece + 1) * PIECE]
        if last:
            fetch_for_write(out, start + piece * PIECE, part.size)
        s, n = _sum_above_short(part, delta)
        if s < limit:
            total, count = total + np.float64(s), count + np.int64(n)
        else:
            t, n = _sum_above(part, delta, _NONE)
            total, count = total + t, count + n
    return total, count


def _by_pieces(total: Callable[..., Any]) -> Any:
    """(x, a, b, out, start, last) → `total` of x; the `last` one prefetches the result memory."""

    @register_jitable
    def run(x: Any, a: Any, b: Any, out: Any, start: Any, last: Any) -> Any:
        if not last:
            return total(x, a, b)
        total_sum, count = np.float64(0), 0
        for piece in range((x.size + PIECE - 1) // PIECE):
            part = x[piece * PIECE : (piece + 1) * PIECE]
            fetch_for_write(out, start + piece * PIECE, part.size)
            s, n = total(part, a, b)
            total_sum, count = total_sum + s, count + n
        return total_sum, count

    return run


_SUMS = tuple(_by_pieces(_summed(term)) for term in (_residual, _left_of_two))
_sum_left, _sum_left_of_two = _SUMS
_sum, _sum_above_32 = _by_pieces(_sum_sizes), _by_pieces(_sum_above)


def _sum_over(x: Any, delta: Any, out: Any, start: Any, last: Any) -> Any:
    """Sum and number of the magnitudes above `delta`; with `last` the result memory is prefetched."""
    raise NotImplementedError


@overload(_sum_over, strict=False)
def _sum_all_over(x: Any, delta: Any, out: Any, start: Any, last: Any) -> Any:
    if x.dtype == types.float32:
        return lambda x, delta, out, start, last: _sum_above_32(x, delta, _NONE, out, start, last)
    spare_bits = 17 if x.dtype == types.uint16 else 14  # 24 bits less the fraction bits of an element
    return lambda x, delta, out, start, last: _sum_above_16(x, delta, spare_bits, out, start, last)


@register_jitable
def _count(x: Any, threshold: Any, a: Any, b: Any) -> Any:
    """Number of finite residual magnitudes above `threshold`."""
    count = np.int32(0)
    for i in range(x.size):
        v = _left_of_two(widen(x[i]), a, b)
        count = np.int32(count + np.int32((v > threshold) & (v <= LARGEST)))
    return count


@any_order
def _finite_sum(x: Any, threshold: Any, a: Any, b: Any) -> Any:
    """Sum of the finite residual magnitudes of two scaled signs above `threshold`."""
    total = np.float64(0)
    for i in range(x.size):
        v = _left_of_two(widen(x[i]), a, b)
        total += np.float64(v if (v > threshold) & (v <= LARGEST) else np.float32(0))
    return total


@register_jitable
def _total(x: Any, a: Any, b: Any, out: Any, start: Any, last: Any) -> Any:
    """(sum, number) of the finite residual magnitudes of two scaled signs, and whether all are finite."""
    if b:
        total, count = _sum_left_of_two(x, a, b, out, start, last)
    elif a:
        total, count = _sum_left(x, a, b, out, start, last)
    else:
        total, count = _sum(x, a, b, out, start, last)
    if total < np.inf:
        return total, count, True
    threshold = np.float32(-1)
    return _finite_sum(x, threshold, a, b), np.int64(_count(x, threshold, a, b)), False


@register_jitable
def _total_above(x: Any, delta: Any, finite: Any, out: Any, start: Any, last: Any) -> Any:
    """Sum and number of the finite magnitudes above `delta`."""
    if finite:
        return _sum_over(x, delta, out, start, last)
    return _finite_sum(x, delta, _NONE, _NONE), np.int64(_count(x, delta, _NONE, _NONE))


@register_jitable
def mean(x: Any) -> Any:
    """Mean magnitude of the finite elements, float64, and whether all are."""
    total, count, finite = _total(x, _NONE, _NONE, x, 0, False)
    return total / max(count, 1), finite


@register_jitable
def mean_above(x: Any, delta: Any, finite: Any, out: Any, start: Any) -> Any:
    """Mean of the finite magnitudes above `delta`, float64; prefetches the result memory."""
    total, count = _total_above(x, delta, finite, out, start, True)
    return total / max(count, 1)


@register_jitable
def _mean_left(x: Any, a: Any, b: Any, out: Any, start: Any, last: Any) -> Any:
    total, count, _ = _total(x, a, b, out, start, last)
    return np.float32(total / max(count, 1))


@register_jitable
def computed_levels(x: Any, levels: Any, out: Any, start: Any) -> Any:
    """Scales of one to three signs, float32: each the mean residual magnitude of those before it. The last of
    several also prefetches the result memory."""
    a = _mean_left(x, _NONE, _NONE, out, start, False)
    b = _mean_left(x, a, _NONE, out, start, levels == 2) if levels > 1 else _NONE
    return a, b, _mean_left(x, a, b, out, start, True) if levels > 2 else _NONE


@loop
def whole_residual(x: Any, a: Any, b: Any, row: Any) -> None:
    """Write sum and number of the finite residual magnitudes of two scaled signs of a whole array into `row`."""
    row[0], row[1], _ = _total(x, a, b, x, 0, False)


@loop
def whole_above(x: Any, delta: Any, finite: Any, row: Any) -> None:
    """Write sum and number of the finite magnitudes above `delta` of a whole array into `row`."""
    row[0], row[1] = _total_above(x, delta, finite, x, 0, False)
