"""Formats with a float scale for each stretch of `block` elements: a row, a group or the whole tensor.

`scales` holds the given ones; where it is empty, a stretch's own is found first, while its elements are in cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from kernels.fake_quant.loops.blocks import all_ones, counted_pattern, plain_pattern, rest_passes
from kernels.fake_quant.loops.compiled import any_order, loop
from kernels.fake_quant.loops.words import MAGNITUDE, bits, narrow, real, widen

_MOST = np.finfo(np.float32).max
_LEAST = np.finfo(np.float32).tiny  # a normal number: training counts denormals as 0
_ONE = np.float32(1).view(np.int32)


@loop
def scaled_integer(
    x: Any, out: Any, gate: Any, block: Any, scales: Any, lows: Any, highs: Any, most: Any, top: Any
) -> Any:
    """clip(rne(x/s), low, high)·s; a stretch's own s is max|x|/top, and its limits are ±top."""
    filled = 0
    for b in range(x.size // block):
        start, m, wild = b * block, np.int32(0), False
        if gate is not None or not scales.size:
            m = plain_pattern(x, start, block)
            wild = m > most
            if wild:
                m = counted_pattern(x, start, block, most, most)
        if scales.size:
            s, low, high = scales[b], lows[b], highs[b]
        else:
            own = np.float32(np.float64(real(m)) / top)
            s, low, high = max(own, _LEAST), np.float32(-top), np.float32(top)
        for i in range(block):
            code = np.rint(widen(x[start + i]) / s)
            code = low if code < low else code
            v = (high if code > high else code) * s
            v = -_MOST if v < -_MOST else v
            out[start + i] = narrow(_MOST if v > _MOST else v, x[start + i])
        if gate is not None:
            furthest = np.rint(real(m) / s)
            if wild or not (furthest <= high and -furthest >= low):
                all_ones(gate, filled, start)
                filled = start + block
                for i in range(block):
                    code = np.rint(widen(x[start + i]) / s)
                    inside = (code >= low) & (code <= high)
                    gate[start + i] = np.uint8(1) if inside else np.uint8(0)
    return rest_passes(gate, filled)


@register_jitable
def _sign(v: Any) -> Any:
    return np.float32(1) if v >= 0 else np.float32(-1)


@register_jitable
def _left(v: Any, a: Any, b: Any) -> Any:
    """Magnitude of what two scaled signs leave over; a scale of 0 leaves all."""
    first = v - a * _sign(v)
    return real(np.int32(bits(first - b * _sign(first)) & MAGNITUDE))


@register_jitable
def _magnitude(v: Any) -> Any:
    return real(np.int32(bits(v) & MAGNITUDE))


@any_order
def _sum(x: Any) -> Any:
    """Σ|x| in float64, not finite where an element is not. Four sums at a time: each waits for its last addition."""
    q = x.size // 4
    s0 = s1 = s2 = s3 = np.float64(0)
    for i in range(q):
        s0 += np.float64(_magnitude(widen(x[i])))
        s1 += np.float64(_magnitude(widen(x[q + i])))
        s2 += np.float64(_magnitude(widen(x[2 * q + i])))
        s3 += np.float64(_magnitude(widen(x[3 * q + i])))
    for i in range(4 * q, x.size):
        s0 += np.float64(_magnitude(widen(x[i])))
    return (s0 + s1) + (s2 + s3)


@any_order
def _sum_left(x: Any, a: Any, b: Any) -> Any:
    """As `_sum`, of what two scaled signs leave over."""
    q = x.size // 4
    s0 = s1 = s2 = s3 = np.float64(0)
    for i in range(q):
        s0 += np.float64(_left(widen(x[i]), a, b))
        s1 += np.float64(_left(widen(x[q + i]), a, b))
        s2 += np.float64(_left(widen(x[2 * q + i]), a, b))
        s3 += np.float64(_left(widen(x[3 * q + i]), a, b))
    for i in range(4 * q, x.size):
        s0 += np.float64(_left(widen(x[i]), a, b))
    return (s0 + s1) + (s2 + s3)


@register_jitable
def _above(v: Any, least: Any) -> Any:
    m = _magnitude(v)
    return np.float64(m if m > least else np.float32(0))


@any_order
def _mean_above(x: Any, least: Any) -> Any:
    """Mean, in float64, of the magnitudes above `least`, all finite; 0 where none is."""
    q = x.size // 4
    s0 = s1 = s2 = s3 = np.float64(0)
    count = np.int32(0)
    for i in range(q):
        s0 += _above(widen(x[i]), least)
        s1 += _above(widen(x[q + i]), least)
        s2 += _above(widen(x[2 * q + i]), least)
        s3 += _above(widen(x[3 * q + i]), least)
    for i in range(4 * q, x.size):
        s0 += _above(widen(x[i]), least)
    for i in range(x.size):
        count = np.int32(count + np.int32(_magnitude(widen(x[i])) > least))  # int64 would have half the lanes
    return ((s0 + s1) + (s2 + s3)) / max(count, 1)


@any_order
def _mean_finite(x: Any, least: Any, a: Any, b: Any) -> Any:
    """Mean, in float64, of the finite magnitudes above `least` that two scaled signs leave over; 0 where none is."""
    total, count = np.float64(0), np.int32(0)
    for i in range(x.size):
        v = _left(widen(x[i]), a, b)
        used = (v > least) & (v <= _MOST)
        total += np.float64(v if used else np.float32(0))
        count = np.int32(count + np.int32(used))
    return total / max(count, 1)


@register_jitable
def _mean(x: Any, a: Any, b: Any) -> Any:
    """Mean of what is left over, float32; elements that are not finite do not count."""
    total = _sum_left(x, a, b) if a else _sum(x)
    if total < np.inf:
        return np.float32(total / max(x.size, 1))
    return np.float32(_mean_finite(x, np.float32(-1), a, b))


@register_jitable
def _own_levels(x: Any, levels: Any) -> Any:
    none = np.float32(0)
    a = _mean(x, none, none)
    b = _mean(x, a, none) if levels > 1 else none
    return a, b, _mean(x, a, b) if levels > 2 else none


@register_jitable
def _finite(y: Any) -> Any:
    y = -_MOST if y < -_MOST else y
    return _MOST if y > _MOST else y


@loop
def signs(x: Any, out: Any, gate: Any, block: Any, first: Any, second: Any, third: Any, levels: Any, zero: Any) -> Any:
    """zero + Σ α_l·sign(r_l) over one to three levels; α_l = mean|r_l|. The gradient passes for |x| ≤ 1."""
    filled = 0
    for k in range(x.size // block):
        start = k * block
        if first.size:
            a, b, c = first[k], second[k], third[k]
        else:
            a, b, c = _own_levels(x[start : start + block], levels)
        if levels == 1:
            high, low = _finite(zero + a), _finite(zero - a)
            for i in range(block):
                v = widen(x[start + i])
                y = high if v >= 0 else low
                out[start + i] = narrow(y if v == v else v, x[start + i])
        else:
            for i in range(block):
                v = widen(x[start + i])
                r = v - a * _sign(v)
                y = ((zero + a * _sign(v)) + b * _sign(r)) + c * _sign(r - b * _sign(r))
                y = _finite(y)
                out[start + i] = narrow(y if v == v else v, x[start + i])
        if gate is not None and plain_pattern(x, start, block) > _ONE:
            all_ones(gate, filled, start)
            filled = start + block
            for i in range(block):
                inside = _magnitude(widen(x[start + i])) <= np.float32(1)
                gate[start + i] = np.uint8(1) if inside else np.uint8(0)
    return rest_passes(gate, filled)


@loop
def ternary(x: Any, out: Any, gate: Any, block: Any, scales: Any, threshold: Any) -> Any:
    """0 up to Δ = threshold·mean|x|, ±α above; a stretch's own α is the mean of what is above. All gradients pass."""
    none = np.float32(0)
    for b in range(x.size // block):
        start = b * block
        row = x[start : start + block]
        total = _sum(row)
        finite = total < np.inf
        mean = total / max(block, 1) if finite else _mean_finite(row, np.float32(-1), none, none)
        delta = np.float32(mean * threshold)
        if scales.size:
            alpha = scales[b]
        elif finite:
            alpha = np.float32(_mean_above(row, delta))
        else:
            alpha = np.float32(_mean_finite(row, delta, none, none))
        for i in range(block):
            v = widen(x[start + i])
            y = alpha if v >= 0 else -alpha
            y = none if _magnitude(v) <= delta else y
            out[start + i] = narrow(y if v == v else v, x[start + i])
    return np.int32(1)
