"""Means of magnitudes, summed in float64 in any order: they are rounded to float32, where the order does not show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload, register_jitable

from espalier.kernels.fake_quant.loops.compiled import any_order, loop
from espalier.kernels.fake_quant.loops.fill import PIECE, fetch_room, four
from espalier.kernels.fake_quant.loops.words import INFINITY, MOST, bits, real, size, widen

_NONE = np.float32(0)


def _summed(term: Callable[..., Any]) -> Any:
    """(x, a, b) → Σ term(element, a, b), not finite where a term is not. Four sums at a time: each waits for its last
    addition."""

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
    return size(v)


@register_jitable
def _left(v: Any, a: Any, b: Any) -> Any:
    """Magnitude of what one scaled sign leaves over."""
    return size(size(v) - a)


@register_jitable
def _left_of_two(v: Any, a: Any, b: Any) -> Any:
    return size(size(size(v) - a) - b)


_FIELD, _SCALE, _TOO_LARGE = np.int64(0x7FFF << 45), np.float64(2.0**896), np.float64(2.0**128)


@any_order
def _sum_of_words(x: Any, a: Any, b: Any) -> Any:
    """As `_summed` of the magnitudes of bfloat16: their patterns are those of float64 numbers, all smaller by 2^896.
    What is not finite comes out large."""
    s0 = s1 = s2 = s3 = np.float64(0)
    for i in range(x.size >> 2):
        w = four(x, 4 * i)  # pyright: ignore[reportCallIssue]
        s0 += np.int64(np.int64(w << np.int64(45)) & _FIELD).view(np.float64)
        s1 += np.int64(np.int64(w << np.int64(29)) & _FIELD).view(np.float64)
        s2 += np.int64(np.int64(w << np.int64(13)) & _FIELD).view(np.float64)
        s3 += np.int64(np.int64(w >> np.int64(3)) & _FIELD).view(np.float64)
    total = ((s0 + s1) + (s2 + s3)) * _SCALE
    for i in range(x.size & -4, x.size):
        total += np.float64(size(widen(x[i])))
    return total if total < _TOO_LARGE else np.float64(np.inf), x.size


_sum_of_floats = _summed(_magnitude)


def _sum_sizes(x: Any, a: Any, b: Any) -> Any:
    """Σ |element|, not finite where one is not, and how many there are."""
    raise NotImplementedError


@overload(_sum_sizes, strict=False)
def _sum_of_sizes(x: Any, a: Any, b: Any) -> Any:
    if x.dtype == types.uint16:
        return lambda x, a, b: _sum_of_words(x, a, b)
    return lambda x, a, b: _sum_of_floats(x, a, b)


@any_order
def _sum_kept(x: Any, delta: Any, b: Any) -> Any:
    """Sum and number of the magnitudes above `delta`."""
    q = x.size // 2
    s0 = s1 = np.float64(0)
    count = np.int32(0)
    for i in range(q):
        v, w = size(widen(x[i])), size(widen(x[q + i]))
        s0 += np.float64(v if v > delta else np.float32(0))
        s1 += np.float64(w if w > delta else np.float32(0))
        count = np.int32(count + np.int32(v > delta) + np.int32(w > delta))  # int64 would have half the lanes
    for i in range(2 * q, x.size):
        v = size(widen(x[i]))
        s0 += np.float64(v if v > delta else np.float32(0))
        count = np.int32(count + np.int32(v > delta))
    return s0 + s1, np.int64(count)


@any_order
def _sum_kept_short(x: Any, delta: Any) -> Any:
    """As `_sum_kept` of 16 bits, in float32."""
    total, count = np.float32(0), np.int32(0)
    for i in range(x.size):
        v = size(widen(x[i]))
        total += v if v > delta else np.float32(0)
        count = np.int32(count + np.int32(v > delta))
    return total, count


@register_jitable
def _sum_kept_of_16(x: Any, delta: Any, spare: Any, out: Any, start: Any, last: Any) -> Any:
    """By pieces in float32. What lies above `delta` is a multiple of the last place of delta, and `spare` bits hold
    sums of that exactly: a total that needs no more was exact all the way."""
    limit = real(np.int32(np.int32(bits(delta) & INFINITY) + np.int32(spare << 23)))
    found, count = np.float64(0), 0
    for piece in range((x.size + PIECE - 1) // PIECE):
        own = x[piece * PIECE : (piece + 1) * PIECE]
        if last:
            fetch_room(out, start + piece * PIECE, own.size)
        s, n = _sum_kept_short(own, delta)
        if s < limit:
            found, count = found + np.float64(s), count + np.int64(n)
        else:
            t, n = _sum_kept(own, delta, _NONE)
            found, count = found + t, count + n
    return found, count


def _by_pieces(total: Callable[..., Any]) -> Any:
    """(x, a, b, out, start, last) → `total` of x; the `last` one asks for the memory of the result meanwhile."""

    @register_jitable
    def run(x: Any, a: Any, b: Any, out: Any, start: Any, last: Any) -> Any:
        if not last:
            return total(x, a, b)
        found, count = np.float64(0), 0
        for piece in range((x.size + PIECE - 1) // PIECE):
            own = x[piece * PIECE : (piece + 1) * PIECE]
            fetch_room(out, start + piece * PIECE, own.size)
            s, n = total(own, a, b)
            found, count = found + s, count + n
        return found, count

    return run


_SUMS = tuple(_by_pieces(_summed(term)) for term in (_left, _left_of_two))
_sum_left, _sum_left_of_two = _SUMS
_sum, _sum_kept_of_32 = _by_pieces(_sum_sizes), _by_pieces(_sum_kept)


def _sum_over(x: Any, delta: Any, out: Any, start: Any, last: Any) -> Any:
    """Sum and number of the magnitudes above `delta`; with `last` the memory of the result is asked for."""
    raise NotImplementedError


@overload(_sum_over, strict=False)
def _sum_all_over(x: Any, delta: Any, out: Any, start: Any, last: Any) -> Any:
    if x.dtype == types.float32:
        return lambda x, delta, out, start, last: _sum_kept_of_32(x, delta, _NONE, out, start, last)
    spare = 17 if x.dtype == types.uint16 else 14  # 24 bits, less those after an element's first
    return lambda x, delta, out, start, last: _sum_kept_of_16(x, delta, spare, out, start, last)


@register_jitable
def _count(x: Any, least: Any, a: Any, b: Any) -> Any:
    """How many finite magnitudes are left over above `least`."""
    count = np.int32(0)
    for i in range(x.size):
        v = _left_of_two(widen(x[i]), a, b)
        count = np.int32(count + np.int32((v > least) & (v <= MOST)))
    return count


@any_order
def _finite_sum(x: Any, least: Any, a: Any, b: Any) -> Any:
    """Sum of the finite magnitudes above `least` that two scaled signs leave over."""
    total = np.float64(0)
    for i in range(x.size):
        v = _left_of_two(widen(x[i]), a, b)
        total += np.float64(v if (v > least) & (v <= MOST) else np.float32(0))
    return total


@register_jitable
def _total(x: Any, a: Any, b: Any, out: Any, start: Any, last: Any) -> Any:
    """Sum and number of the finite magnitudes that two scaled signs leave over, and whether all are finite."""
    if b:
        total, count = _sum_left_of_two(x, a, b, out, start, last)
    elif a:
        total, count = _sum_left(x, a, b, out, start, last)
    else:
        total, count = _sum(x, a, b, out, start, last)
    if total < np.inf:
        return total, count, True
    least = np.float32(-1)
    return _finite_sum(x, least, a, b), np.int64(_count(x, least, a, b)), False


@register_jitable
def _total_kept(x: Any, delta: Any, finite: Any, out: Any, start: Any, last: Any) -> Any:
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
def mean_kept(x: Any, delta: Any, finite: Any, out: Any, start: Any) -> Any:
    """Mean of the finite magnitudes above `delta`, float64; the result's memory is asked for meanwhile."""
    total, count = _total_kept(x, delta, finite, out, start, True)
    return total / max(count, 1)


@register_jitable
def _mean_left(x: Any, a: Any, b: Any, out: Any, start: Any, last: Any) -> Any:
    total, count, _ = _total(x, a, b, out, start, last)
    return np.float32(total / max(count, 1))


@register_jitable
def own_levels(x: Any, levels: Any, out: Any, start: Any) -> Any:
    """Scales of one to three signs, float32: each the mean of what those before it leave over. While the last of
    several is found, the result's memory is asked for."""
    a = _mean_left(x, _NONE, _NONE, out, start, False)
    b = _mean_left(x, a, _NONE, out, start, levels == 2) if levels > 1 else _NONE
    return a, b, _mean_left(x, a, b, out, start, True) if levels > 2 else _NONE


@loop
def whole_left(x: Any, a: Any, b: Any, row: Any) -> None:
    """Of a whole array, into `row`: sum and number of the finite magnitudes that two scaled signs leave over."""
    row[0], row[1], _ = _total(x, a, b, x, 0, False)


@loop
def whole_kept(x: Any, delta: Any, finite: Any, row: Any) -> None:
    """Of a whole array, into `row`: sum and number of the finite magnitudes above `delta`."""
    row[0], row[1] = _total_kept(x, delta, finite, x, 0, False)
