"""Formats whose elements do not see each other; stretches are spans that stay in the first cache.

Constants begin with the least and the largest x whose gradient passes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from kernels.fake_quant.loops.blocks import power, small
from kernels.fake_quant.loops.compiled import loop
from kernels.fake_quant.loops.stretches import stretched
from kernels.fake_quant.loops.words import bits, cut, magnitude, narrow, real, signed, widen


@register_jitable
def _ends(
    x: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, table: Any, c: Any, gated: Any
) -> Any:
    return True, c[0], c[1], True


@register_jitable
def _nearest(x: Any, p: Any, c: Any) -> Any:
    """clip(rne(x·up), low, high)·down."""
    _, _, up, down, low, high = c
    code = np.rint(widen(x) * up)
    code = low if code < low else code
    return cut((high if code > high else code) * down, x)


@register_jitable
def _floor(x: Any, p: Any, c: Any) -> Any:
    """As `_nearest`, rounded down."""
    _, _, up, down, low, high = c
    code = np.floor(widen(x) * up)
    code = low if code < low else code
    return cut((high if code > high else code) * down, x)


@register_jitable
def _minifloat(x: Any, p: Any, c: Any) -> Any:
    """At most `largest`, rounded to 23 − `shift` bits at an exponent of at least `least`."""
    _, _, largest, least, shift = c
    v = real(magnitude(widen(x)))
    v = largest if v > largest else v
    return cut(signed(bits(small(v, least, shift)), widen(x)), x)


@register_jitable
def _minifloat_wide(x: Any, p: Any, c: Any) -> Any:
    """As `_minifloat`, where 2^`shift` times the largest is beyond float32: normal numbers are rounded in the pattern.
    `half`: one less than half a step where ties go to even, and `odd`, 1 there: the last kept bit decides."""
    _, _, largest, shift, half, odd, normal, magic = c
    m = magnitude(widen(x))
    n = real((m + half + ((m >> shift) & odd)) & (np.int32(-1) << shift))
    s = (real(m) + magic) - magic
    v = n if real(m) >= normal else s  # NaN takes the second way, which keeps it
    return cut(signed(bits(largest if v > largest else v), widen(x)), x)


@register_jitable
def _power(x: Any, p: Any, c: Any) -> Any:
    """The nearest power of two in the log domain."""
    _, _, up, least, highest, _ = c
    return cut(power(widen(x), up, least, highest), x)


@register_jitable
def _above(x: Any, p: Any, c: Any) -> Any:
    """`high` from `threshold` on, `low` below; NaN stays."""
    _, _, threshold, low, high = c
    v = widen(x)
    y = high if v >= threshold else low
    return cut(y if v == v else v, x)


integer = stretched(_ends, _nearest, tops=False)
integer_floor = stretched(_ends, _floor, tops=False)
minifloat = stretched(_ends, _minifloat, tops=False)
minifloat_wide = stretched(_ends, _minifloat_wide, tops=False)
power_of_two = stretched(_ends, _power, tops=False, tiny=True)
above = stretched(_ends, _above, tops=False)


@loop
def passed(grad: Any, out: Any, gate: Any) -> Any:
    """grad·gate."""
    for i in range(grad.size):
        out[i] = narrow(widen(grad[i]) * np.float32(gate[i]), grad[i])
    return np.int32(0)
