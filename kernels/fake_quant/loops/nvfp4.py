"""`nvfp4`: the largest magnitude of all, then blocks under its scale."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from espalier.kernels.fake_quant.loops.blocks import small
from espalier.kernels.fake_quant.loops.compiled import loop
from espalier.kernels.fake_quant.loops.quotients import LARGE, SMALL, quotient
from espalier.kernels.fake_quant.loops.stretches import counted_pattern, furthest, pattern_of_all, stretched
from espalier.kernels.fake_quant.loops.together import SIZES, side_by_side
from espalier.kernels.fake_quant.loops.words import INFINITY, MOST, bits, holds, nearest, real, signed, size

_SIX, _FINEST, _LARGEST = np.float32(6), np.float32(2.0**-6), np.float32(448)
_BEYOND, _SAFE = np.float32(8), np.float32(6.9)
_ONE = np.float32(1).view(np.int32)


@loop
def whole_largest(x: Any, most: Any, b: Any, row: Any) -> None:
    """The largest magnitude of an array, into `row`: NaN does not count, infinity counts as the pattern `most`."""
    m = pattern_of_all(x)
    row[0] = real(counted_pattern(x, 0, x.size, most, INFINITY) if m > most else m)


@register_jitable
def _element(v: Any, divisor: Any) -> Any:
    """v/divisor in E2M1's steps, as if there were no largest."""
    v = v / divisor
    return small(_BEYOND if v > _BEYOND else v, _ONE, 22)


_furthest = furthest(_element)


@register_jitable
def _last(m: Any, t: Any, inverse: Any, ordinary: Any, gated: Any) -> Any:
    """The largest magnitude whose gradient passes in a block; without a gate one that is easily found."""
    divisor = np.float32(1) if t == 0 else t
    all_pass = ordinary & (real(m) * (inverse if t else divisor) < _SAFE)
    if not gated:
        return MOST if all_pass else np.float32(0)
    return MOST if all_pass else _furthest(divisor, _SIX, np.float64(7) * divisor)


@register_jitable
def _block_scale(top: Any, s: Any) -> Any:
    """t = d·s of a block, and 1/t, or 0 where t is."""
    d = small(top / np.float32(_SIX * s), bits(_FINEST), 20)
    t = np.float32((_LARGEST if d > _LARGEST else d) * s)
    return t, np.float32(0) if t == 0 else np.float32(1) / t


@register_jitable(inline="always")  # a call would count references to its arrays
def _scale(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    t, inverse = _block_scale(real(m), shared)
    ordinary = finite & ((t == 0) | ((t >= SMALL) & (t <= LARGE) & holds(_SIX * t, x[0])))
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
    q = small(quotient(v, t, inverse), _ONE, 22)  # 0 where t is
    return (_SIX if q > _SIX else q) * t


@register_jitable
def _careful(v: Any, p: Any, c: Any) -> Any:
    """An element of a block with NaN, infinity or an extreme scale."""
    t, _, _, _ = p
    k, most = size(v), real(c[0])
    k = _element(most if k > most else k, np.float32(1) if t == 0 else t)
    k = (_SIX if k > _SIX else k) * t
    return signed(bits(MOST if k > MOST else k), v)


_KIND: dict[str, Any] = {"into": nearest, "odd": True}
nvfp4 = {0: stretched(_scale_in, _lean, _careful, **_KIND)} | {
    n: side_by_side(_scale, _lean, _careful, **_KIND, fixed=n) for n in SIZES
}
