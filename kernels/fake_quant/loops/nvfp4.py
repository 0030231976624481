"""`nvfp4`: the largest magnitude of the tensor, then blocks with its scale."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from espalier.kernels.fake_quant.loops.blocks import small
from espalier.kernels.fake_quant.loops.compiled import loop
from espalier.kernels.fake_quant.loops.quotients import LARGE, SMALL, quotient
from espalier.kernels.fake_quant.loops.segment_batches import BATCHED_SIZES, batched_segment_loop
from espalier.kernels.fake_quant.loops.segments import clipped_pattern, largest_with_code, pattern_of_all, segment_loop
from espalier.kernels.fake_quant.loops.words import (
    INFINITY,
    LARGEST,
    absolute,
    bits,
    narrow_in_range,
    real,
    signed,
    stays_finite,
)

_SIX, _FINEST, _LARGEST = np.float32(6), np.float32(2.0**-6), np.float32(448)
_BEYOND, _SAFE = np.float32(8), np.float32(6.9)
_ONE = np.float32(1).view(np.int32)


@loop
def whole_largest(x: Any, infinity: Any, b: Any, row: Any) -> None:
    """Write the largest magnitude of an array into `row`; NaN is ignored, infinity counts as the pattern `infinity`."""
    m = pattern_of_all(x)
    row[0] = real(clipped_pattern(x, 0, x.size, infinity, INFINITY) if m > infinity else m)


@register_jitable
def _element(v: Any, divisor: Any) -> Any:
    """v/divisor rounded to E2M1's steps, without an upper limit."""
    v = v / divisor
    return small(_BEYOND if v > _BEYOND else v, _ONE, 22)


_furthest = largest_with_code(_element)


@register_jitable
def _last(m: Any, t: Any, inverse: Any, ordinary: Any, gated: Any) -> Any:
    """The largest magnitude whose gradient passes in a block; a cheap bound if there is no gate."""
    divisor = np.float32(1) if t == 0 else t
    all_pass = ordinary & (real(m) * (inverse if t else divisor) < _SAFE)
    if not gated:
        return LARGEST if all_pass else np.float32(0)
    return LARGEST if all_pass else _furthest(divisor, _SIX, np.float64(7) * divisor)


@register_jitable
def _block_scale(top: Any, s: Any) -> Any:
    """(t, 1/t) of a block with t = d·s; 0 instead of 1/0."""
    d = small(top / np.float32(_SIX * s), bits(_FINEST), 20)
    t = np.float32((_LARGEST if d > _LARGEST else d) * s)
    return t, np.float32(0) if t == 0 else np.float32(1) / t


@register_jitable(inline="always")  # a call would count references to its arrays
def _scale(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    t, inverse = _block_scale(real(m), shared)
    ordinary = finite & ((t == 0) | ((t >= SMALL) & (t <= LARGE) & stays_finite(_SIX * t, x[0])))
    last = _last(m, t, inverse, ordinary, gated)
    return True, -last, last, ordinary, (t, inverse, inverse, inverse)


@register_jitable
def _scale_in(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    return _scale(x, out, start, block, m, finite, b, shared[0, 0], c, gated)


@register_jitable
def _lean(v: Any, p: Any, c: Any) -> Any:
    """A magnitude in a block of finite numbers."""
    t, inverse, _, _ = p
    q = small(quotient(v, t, inverse), _ONE, 22)  # 0 if t is 0
    return (_SIX if q > _SIX else q) * t


@register_jitable
def _careful(v: Any, p: Any, c: Any) -> Any:
    """An element of a block with NaN, infinity or an extreme scale."""
    t, _, _, _ = p
    k, largest = absolute(v), real(c[0])
    k = _element(largest if k > largest else k, np.float32(1) if t == 0 else t)
    k = (_SIX if k > _SIX else k) * t
    return signed(bits(LARGEST if k > LARGEST else k), v)


_KIND: dict[str, Any] = {"into": narrow_in_range, "odd": True}
nvfp4 = {0: segment_loop(_scale_in, _lean, _careful, **_KIND)} | {
    n: batched_segment_loop(_scale, _lean, _careful, **_KIND, fixed=n) for n in BATCHED_SIZES
}
