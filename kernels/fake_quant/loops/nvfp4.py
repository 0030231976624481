"""`nvfp4`: the tensor's largest magnitude, then blocks under E4M3 scales; returns and gates as in `blocks`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from kernels.fake_quant.loops.blocks import all_ones, counted_pattern, plain_pattern, rest_passes, small
from kernels.fake_quant.loops.compiled import loop
from kernels.fake_quant.loops.words import INFINITY, MAGNITUDE, SIGN, bits, fused, narrow, real, widen

BATCH = 64  # blocks whose scales are found together: one block's would wait for its own divisions
_FLOAT_MOST = np.finfo(np.float32).max
_SIX, _FINEST, _LARGEST = np.float32(6), np.float32(2.0**-6), np.float32(448)
_BEYOND, _SAFE = np.float32(8), np.float32(6.9)
_ONE = np.float32(1).view(np.int32)
_SMALL, _LARGE = np.float32(2.0**-60), np.float32(2.0**60)  # divisors whose reciprocals lose nothing


@loop
def tensor_pattern(x: Any, out: Any, gate: Any, most: Any) -> Any:
    """Pattern of the largest magnitude of all; `out` and `gate` are not used."""
    m = plain_pattern(x, 0, x.size)
    return m if m <= most else counted_pattern(x, 0, x.size, most)


@register_jitable
def _element(v: Any, divisor: Any) -> Any:
    """v/divisor in E2M1's steps, as if there were no largest."""
    v = v / divisor
    return small(_BEYOND if v > _BEYOND else v, _ONE, 22)


@register_jitable
def _tops(x: Any, tops: Any, inverses: Any, block: Any, most: Any) -> Any:
    """Patterns of the largest magnitudes of blocks; inverse 1, 0 where something is not finite."""
    for j in range(tops.size):
        start = j * block
        m = plain_pattern(x, start, block)
        inverses[j] = np.float32(1)
        if m > most:
            m, inverses[j] = counted_pattern(x, start, block, most), np.float32(0)
        tops[j] = m


@register_jitable
def _scales(tops: Any, ts: Any, inverses: Any, s: Any) -> Any:
    """t of blocks, and its reciprocal; 0 where that was 0, or t is extreme."""
    for j in range(tops.size):
        d = small(real(tops[j]) / np.float32(_SIX * s), bits(_FINEST), 20)
        t = np.float32((_LARGEST if d > _LARGEST else d) * s)
        ordinary = (t >= _SMALL) & (t <= _LARGE)
        ts[j] = t
        inverses[j] = inverses[j] / t if ordinary else np.float32(0)


@register_jitable(inline="always")
def _lean(x: Any, out: Any, start: Any, block: Any, t: Any, inverse: Any) -> Any:
    """A block of finite numbers: the quotient from the reciprocal and one step of Newton. E2M1 rounds it as it does
    the quotient (tried for all significands of t, four steps around each of E2M1's ties)."""
    for i in range(block):
        u = bits(widen(x[start + i]))
        v = real(u & MAGNITUDE)
        q = v * inverse
        q = fused(fused(-q, t, v), inverse, q)  # pyright: ignore[reportCallIssue]
        q = small(q, _ONE, 22)
        v = (_SIX if q > _SIX else q) * t
        out[start + i] = narrow(real(bits(v) | (u & SIGN)), x[start + i])


@register_jitable(inline="always")
def _careful(x: Any, out: Any, start: Any, block: Any, t: Any, furthest: Any) -> Any:
    """A block with NaN, infinity or an extreme scale."""
    divisor = np.float32(1) if t == 0 else t
    for i in range(block):
        u = bits(widen(x[start + i]))
        v = real(u & MAGNITUDE)
        v = _element(furthest if v > furthest else v, divisor)
        v = (_SIX if v > _SIX else v) * t
        v = _FLOAT_MOST if v > _FLOAT_MOST else v
        out[start + i] = narrow(real(bits(v) | (u & SIGN)), x[start + i])


@register_jitable
def _gated(x: Any, gate: Any, filled: Any, start: Any, block: Any, t: Any) -> Any:
    """Write a block's gate; the end of what is filled."""
    all_ones(gate, filled, start)
    divisor = np.float32(1) if t == 0 else t
    for i in range(block):
        k = np.int32(bits(widen(x[start + i])) & MAGNITUDE)
        inside = (_element(real(k), divisor) <= _SIX) & (k < INFINITY)
        gate[start + i] = np.uint8(1) if inside else np.uint8(0)
    return start + block


@loop
def nvfp4(x: Any, out: Any, gate: Any, block: Any, most: Any, s: Any) -> Any:
    """E2M1(x/t)·t with t = E4M3(max|x|/(6·s))·s of the block; `s` is the tensor's scale."""
    filled = 0
    tops, ts, inverses = np.empty(BATCH, np.int32), np.empty(BATCH, np.float32), np.empty(BATCH, np.float32)
    for b in range(x.size // block):
        start, j = b * block, b & (BATCH - 1)
        if j == 0:
            batch = x[start : start + BATCH * block]
            size = batch.size // block
            _tops(batch, tops[:size], inverses[:size], block, most)
            _scales(tops[:size], ts[:size], inverses[:size], s)
        t, inverse = ts[j], inverses[j]
        if inverse:
            _lean(x, out, start, block, t, inverse)
        else:
            _careful(x, out, start, block, t, real(most))
        # Up to 6.9 the largest element rounds to 6, so that the rest need not be asked.
        if gate is not None and not (inverse and real(tops[j]) * inverse < _SAFE):
            filled = _gated(x, gate, filled, start, block, t)
    return rest_passes(gate, filled)
