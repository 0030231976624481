"""Elementwise formats; segments are spans that fit the L1 cache.

Constants begin with the smallest and the largest x whose gradient passes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from espalier.kernels.fake_quant.loops.blocks import power, small
from espalier.kernels.fake_quant.loops.compiled import loop
from espalier.kernels.fake_quant.loops.segments import segment_loop
from espalier.kernels.fake_quant.loops.words import bits, narrow, narrow_exact_magnitude, real, widen


@register_jitable
def _ends(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    return True, c[0], c[1], True, c


@register_jitable
def _nearest(v: Any, p: Any, c: Any) -> Any:
    """clip(rne(x·up), low, high)·down."""
    _, _, up, down, low, high = c
    code = np.rint(v * up)
    code = low if code < low else code
    return (high if code > high else code) * down


@register_jitable
def _floor(v: Any, p: Any, c: Any) -> Any:
    """As `_nearest`, rounded down."""
    _, _, up, down, low, high = c
    code = np.floor(v * up)
    code = low if code < low else code
    return (high if code > high else code) * down


@register_jitable
def _minifloat(v: Any, p: Any, c: Any) -> Any:
    """|x|, at most `largest`, rounded to 23 − `shift` bits with an exponent of at least `lowest`."""
    _, _, largest, lowest, shift = c
    return small(largest if v > largest else v, lowest, shift)


@register_jitable
def _minifloat_wide(v: Any, p: Any, c: Any) -> Any:
    """As `_minifloat`, if 2^`shift` times the largest exceeds float32: normal numbers are rounded in the bit pattern.
    `half`: one less than half a step for ties to even, with `odd` = 1, so that the last kept bit decides."""
    _, _, largest, shift, half, odd, normal, magic = c
    m = bits(v)
    n = real((m + half + ((m >> shift) & odd)) & (np.int32(-1) << shift))
    s = (v + magic) - magic
    y = n if v >= normal else s  # NaN takes the second branch, which keeps it
    return largest if y > largest else y


@register_jitable
def _power(v: Any, p: Any, c: Any) -> Any:
    """The nearest power of two in the log domain."""
    _, _, up, lowest, highest, _ = c
    return power(v, up, lowest, highest)


@register_jitable
def _above(v: Any, p: Any, c: Any) -> Any:
    """`high` from `threshold` on, `low` below; NaN stays."""
    _, _, threshold, low, high = c
    y = high if v >= threshold else low
    return y if v == v else v


@register_jitable
def _beyond(v: Any, p: Any, c: Any) -> Any:
    """`high` above `threshold`, `low` up to it; NaN stays. Denormals count as 0 if they are flushed."""
    _, _, threshold, low, high = c
    y = high if v > threshold else low
    return y if v == v else v


integer = segment_loop(_ends, _nearest, tops=False)
integer_floor = segment_loop(_ends, _floor, tops=False)
minifloat = segment_loop(_ends, _minifloat, into=narrow_exact_magnitude, odd=True, tops=False)
minifloat_wide = segment_loop(_ends, _minifloat_wide, into=narrow_exact_magnitude, odd=True, tops=False)
power_of_two = segment_loop(_ends, _power, into=narrow_exact_magnitude, odd=True, tops=False, tiny=True)
above = segment_loop(_ends, _above, tops=False)
beyond = segment_loop(_ends, _beyond, tops=False)


@register_jitable
def _through(g: Any, gate: Any) -> Any:
    """g where the gate is 1 (infinite g too), otherwise 0·g."""
    zero = narrow(widen(g) * np.float32(0), g)
    return g if gate else zero


_ALL_PASS = np.uint64(0x0101010101010101)


@loop
def stop(grad: Any, out: Any, gate: Any, block: Any, shared: Any, c: Any) -> Any:
    """`passed` in place on grad; gates are mostly ones and are tested eight at a time."""
    eights = gate[: gate.size // 8 * 8].view(np.uint64)
    for k in range(eights.size):
        if eights[k] != _ALL_PASS:
            for i in range(8 * k, 8 * k + 8):
                grad[i] = _through(grad[i], gate[i])
    for i in range(8 * eights.size, grad.size):
        grad[i] = _through(grad[i], gate[i])
    return np.int64(0)


@loop
def passed(grad: Any, out: Any, gate: Any, block: Any, shared: Any, c: Any) -> Any:
    """grad·gate, with the signature of all loops."""
    for i in range(grad.size):
        out[i] = _through(grad[i], gate[i])
    return np.int64(0)
