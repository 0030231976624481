"""`nvfp4`: the blocks' largest magnitudes, from these all scales, then the elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from kernels.fake_quant.loops.blocks import small
from kernels.fake_quant.loops.compiled import loop
from kernels.fake_quant.loops.quotients import LARGE, SMALL, quotient
from kernels.fake_quant.loops.stretches import counted_pattern, furthest, plain_pattern, stretched
from kernels.fake_quant.loops.words import INFINITY, MOST, bits, magnitude, narrow, real, signed, size, widen

_SIX, _FINEST, _LARGEST = np.float32(6), np.float32(2.0**-6), np.float32(448)
_BEYOND, _SAFE = np.float32(8), np.float32(6.9)
_ONE = np.float32(1).view(np.int32)


@loop
def block_patterns(x: Any, tops: Any, block: Any, most: Any) -> Any:
    """Patterns of the largest magnitudes of blocks, and (returned) of all."""
    highest = np.int32(0)
    for b in range(tops.size):
        m = plain_pattern(x, b * block, block)
        if m > most:
            m = np.int32(-counted_pattern(x, b * block, block, most, INFINITY))  # negative: something is not finite
        tops[b] = m
        highest = max(highest, abs(m))
    return highest


@loop
def block_scales(tops: Any, ts: Any, s: Any) -> Any:
    """t of blocks, negative where something is not finite."""
    for b in range(tops.size):
        m = tops[b]
        d = small(real(np.int32(abs(m))) / np.float32(_SIX * s), bits(_FINEST), 20)
        t = np.float32((_LARGEST if d > _LARGEST else d) * s)
        ts[b] = t if m >= 0 else -t


@register_jitable
def _element(v: Any, divisor: Any) -> Any:
    """v/divisor in E2M1's steps, as if there were no largest."""
    v = v / divisor
    return small(_BEYOND if v > _BEYOND else v, _ONE, 22)


_furthest = furthest(_element)


@register_jitable
def _scales(
    x: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, table: Any, c: Any, gated: Any
) -> Any:
    t, last = size(shared[b, 0]), MOST
    inverse = np.float32(1) / t
    ordinary = (shared[b, 0] >= SMALL) & (t <= LARGE)
    divisor = np.float32(1) if t == 0 else t
    if gated and not (ordinary and real(m) * inverse < _SAFE):
        last = _furthest(divisor, _SIX, np.float64(7) * divisor)
    return True, -last, last, ordinary, t, inverse


@register_jitable
def _lean(x: Any, p: Any, c: Any) -> Any:
    """An element of a block of finite numbers."""
    _, _, _, _, t, inverse = p
    q = small(quotient(real(magnitude(widen(x))), t, inverse), _ONE, 22)
    return narrow(signed(bits((_SIX if q > _SIX else q) * t), widen(x)), x)


@register_jitable
def _careful(x: Any, p: Any, c: Any) -> Any:
    """An element of a block with NaN, infinity or an extreme scale."""
    _, _, _, _, t, _ = p
    v, most = real(magnitude(widen(x))), real(c[0])
    v = _element(most if v > most else v, np.float32(1) if t == 0 else t)
    v = (_SIX if v > _SIX else v) * t
    return narrow(signed(bits(MOST if v > MOST else v), widen(x)), x)


nvfp4 = {n: stretched(_scales, _lean, _careful, tops=False, fixed=n) for n in (0, 16)}
