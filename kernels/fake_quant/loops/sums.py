"""Means of magnitudes, summed in float64 in any order: they are rounded to float32, where the order does not show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import register_jitable

from kernels.fake_quant.loops.compiled import any_order, loop
from kernels.fake_quant.loops.words import MOST, size, widen

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
        return (s0 + s1) + (s2 + s3)

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


_SUMS = _summed(_magnitude), _summed(_left), _summed(_left_of_two)
_sum, _sum_left, _sum_left_of_two = _SUMS


@any_order
def _sum_kept(x: Any, delta: Any) -> Any:
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
    return s0 + s1, count


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
def _total(x: Any, a: Any, b: Any) -> Any:
    """Sum and number of the finite magnitudes that two scaled signs leave over, and whether all are finite."""
    if b:
        total = _sum_left_of_two(x, a, b)
    else:
        total = _sum_left(x, a, b) if a else _sum(x, a, b)
    if total < np.inf:
        return total, x.size, True
    least = np.float32(-1)
    return _finite_sum(x, least, a, b), _count(x, least, a, b), False


@register_jitable
def _total_kept(x: Any, delta: Any, finite: Any) -> Any:
    """Sum and number of the finite magnitudes above `delta`."""
    if finite:
        return _sum_kept(x, delta)
    return _finite_sum(x, delta, _NONE, _NONE), _count(x, delta, _NONE, _NONE)


@register_jitable
def mean(x: Any) -> Any:
    """Mean magnitude of the finite elements, float64, and whether all are."""
    total, count, finite = _total(x, _NONE, _NONE)
    return total / max(count, 1), finite


@register_jitable
def mean_kept(x: Any, delta: Any, finite: Any) -> Any:
    """Mean of the finite magnitudes above `delta`, float64."""
    total, count = _total_kept(x, delta, finite)
    return total / max(count, 1)


@register_jitable
def _mean_left(x: Any, a: Any, b: Any) -> Any:
    total, count, _ = _total(x, a, b)
    return np.float32(total / max(count, 1))


@register_jitable
def own_levels(x: Any, levels: Any) -> Any:
    """Scales of one to three signs, float32: each the mean of what those before it leave over."""
    a = _mean_left(x, _NONE, _NONE)
    b = _mean_left(x, a, _NONE) if levels > 1 else _NONE
    return a, b, _mean_left(x, a, b) if levels > 2 else _NONE


@loop
def whole_left(x: Any, a: Any, b: Any) -> Any:
    """Of a whole array: sum and number of the finite magnitudes that two scaled signs leave over."""
    total, count, _ = _total(x, a, b)
    return total, count


@loop
def whole_kept(x: Any, delta: Any, finite: Any) -> Any:
    """Of a whole array: sum and number of the finite magnitudes above `delta`."""
    return _total_kept(x, delta, finite)
