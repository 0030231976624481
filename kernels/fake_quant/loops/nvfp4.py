"""`nvfp4`: the largest magnitude of all, then blocks under its scale."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from kernels.fake_quant.loops.blocks import small
from kernels.fake_quant.loops.compiled import loop
from kernels.fake_quant.loops.quotients import LARGE, SMALL, quotient
from kernels.fake_quant.loops.stretches import counted_pattern, furthest, plain_pattern, stretched
from kernels.fake_quant.loops.together import SIZES, side_by_side
from kernels.fake_quant.loops.tops import SIDE
from kernels.fake_quant.loops.words import INFINITY, MOST, bits, magnitude, narrow, real, signed, widen

_SIX, _FINEST, _LARGEST = np.float32(6), np.float32(2.0**-6), np.float32(448)
_BEYOND, _SAFE = np.float32(8), np.float32(6.9)
_ONE = np.float32(1).view(np.int32)


@loop
def largest(x: Any, most: Any) -> Any:
    """The largest magnitude of a whole array: NaN does not count, infinity counts as the pattern `most`."""
    m = plain_pattern(x, 0, x.size)
    return real(counted_pattern(x, 0, x.size, most, INFINITY) if m > most else m)


@register_jitable
def _block_scale(m: Any, s: Any) -> Any:
    """t = d·s of a block, and 1/t, or 0 where t is."""
    d = small(real(m) / np.float32(_SIX * s), bits(_FINEST), 20)
    t = np.float32((_LARGEST if d > _LARGEST else d) * s)
    return t, np.float32(0) if t == 0 else np.float32(1) / t


@register_jitable
def _block_scales(found: Any, kept: Any, shared: Any) -> Any:
    """`_block_scale` of sixteen, all t first."""
    s = shared[0, 0]
    for j in range(SIDE):
        kept[j], kept[SIDE + j] = _block_scale(found[j], s)
    return kept


@register_jitable
def _element(v: Any, divisor: Any) -> Any:
    """v/divisor in E2M1's steps, as if there were no largest."""
    v = v / divisor
    return small(_BEYOND if v > _BEYOND else v, _ONE, 22)


_furthest = furthest(_element)


@register_jitable
def _last(m: Any, t: Any, inverse: Any, ordinary: Any) -> Any:
    """The largest magnitude whose gradient passes in a block."""
    divisor = np.float32(1) if t == 0 else t
    if ordinary and real(m) * (inverse if t else divisor) < _SAFE:
        return MOST
    return _furthest(divisor, _SIX, np.float64(7) * divisor)


@register_jitable(inline="always")  # a call would count references to its arrays
def _scales(
    x: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, table: Any, c: Any, gated: Any
) -> Any:
    t, inverse = shared[b % SIDE], shared[SIDE + b % SIDE]
    ordinary = finite & ((t == 0) | ((t >= SMALL) & (t <= LARGE)))
    last = _last(m, t, inverse, ordinary) if gated else MOST
    return True, -last, last, ordinary, t, inverse


@register_jitable
def _own_scale(
    x: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, table: Any, c: Any, gated: Any
) -> Any:
    t, inverse = _block_scale(m, shared[0, 0])
    ordinary = finite & ((t == 0) | ((t >= SMALL) & (t <= LARGE)))
    last = _last(m, t, inverse, ordinary) if gated else MOST
    return True, -last, last, ordinary, t, inverse


@register_jitable
def _lean(x: Any, p: Any, c: Any) -> Any:
    """An element of a block of finite numbers."""
    _, _, _, _, t, inverse = p
    q = small(quotient(real(magnitude(widen(x))), t, inverse), _ONE, 22)  # 0 where t is
    return narrow(signed(bits((_SIX if q > _SIX else q) * t), widen(x)), x)


@register_jitable
def _careful(x: Any, p: Any, c: Any) -> Any:
    """An element of a block with NaN, infinity or an extreme scale."""
    _, _, _, _, t, _ = p
    v, most = real(magnitude(widen(x))), real(c[0])
    v = _element(most if v > most else v, np.float32(1) if t == 0 else t)
    v = (_SIX if v > _SIX else v) * t
    return narrow(signed(bits(MOST if v > MOST else v), widen(x)), x)


nvfp4 = {0: stretched(_own_scale, _lean, _careful)} | {
    n: side_by_side(_scales, _lean, _careful, scales=_block_scales, fixed=n) for n in SIZES
}
