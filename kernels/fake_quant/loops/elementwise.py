"""Formats whose elements do not see each other; stretches are spans that stay in the first cache.

Constants begin with the least and the largest x whose gradient passes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from espalier.kernels.fake_quant.loops.blocks import power, small
from espalier.kernels.fake_quant.loops.compiled import loop
from espalier.kernels.fake_quant.loops.stretches import stretched
from espalier.kernels.fake_quant.loops.words import bits, cut_size, narrow, real, widen


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
    """|x|, at most `largest`, rounded to 23 − `shift` bits at an exponent of at least `least`."""
    _, _, largest, least, shift = c
    return small(largest if v > largest else v, least, shift)


@register_jitable
def _minifloat_wide(v: Any, p: Any, c: Any) -> Any:
    """As `_minifloat`, where 2^`shift` times the largest is beyond float32: normal numbers are rounded in the pattern.
    `half`: one less than half a step where ties go to even, and `odd`, 1 there: the last kept bit decides."""
    _, _, largest, shift, half, odd, normal, magic = c
    m = bits(v)
    n = real((m + half + ((m >> shift) & odd)) & (np.int32(-1) << shift))
    s = (v + magic) - magic
    y = n if v >= normal else s  # NaN takes the second way, which keeps it
    return largest if y > largest else y


@register_jitable
def _power(v: Any, p: Any, c: Any) -> Any:
    """The nearest power of two in the log domain."""
    _, _, up, least, highest, _ = c
    return power(v, up, least, highest)


@register_jitable
def _above(v: Any, p: Any, c: Any) -> Any:
    """`high` from `threshold` on, `low` below; NaN stays."""
    _, _, threshold, low, high = c
    y = high if v >= threshold else low
    return y if v == v else v


@register_jitable
def _beyond(v: Any, p: Any, c: Any) -> Any:
    """`high` above `threshold`, `low` up to it; NaN stays. The number next to 0 counts as 0 where denormals do."""
    _, _, threshold, low, high = c
    y = high if v > threshold else low
    return y if v == v else v


integer = stretched(_ends, _nearest, tops=False)
integer_floor = stretched(_ends, _floor, tops=False)
minifloat = stretched(_ends, _minifloat, into=cut_size, odd=True, tops=False)
minifloat_wide = stretched(_ends, _minifloat_wide, into=cut_size, odd=True, tops=False)
power_of_two = stretched(_ends, _power, into=cut_size, odd=True, tops=False, tiny=True)
above = stretched(_ends, _above, tops=False)
beyond = stretched(_ends, _beyond, tops=False)


@register_jitable
def _through(g: Any, gate: Any) -> Any:
    """g, infinite or not, or 0·g."""
    none = narrow(widen(g) * np.float32(0), g)
    return g if gate else none


_ALL_PASS = np.uint64(0x0101010101010101)


@loop
def stop(grad: Any, out: Any, gate: Any, block: Any, shared: Any, c: Any) -> Any:
    """`passed` over grad itself: most gates are ones, eight of which are looked at together."""
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
    """grad·gate, with the arguments of all loops."""
    for i in range(grad.size):
        out[i] = _through(grad[i], gate[i])
    return np.int64(0)
