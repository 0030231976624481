"""Formats whose blocks share a power of two: the block's largest magnitude, then its elements, while they are in cache.

The table has a row for each exponent of the block's largest magnitude: two numbers, and the largest whose gradient
passes. Constants: what infinity counts as, and what all blocks share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from kernels.fake_quant.loops.stretches import stretched
from kernels.fake_quant.loops.together import SIZES, side_by_side
from kernels.fake_quant.loops.words import INFINITY, bits, cut, magnitude, real, signed, widen

_MANTISSA = np.int32(23)


@register_jitable
def exponent_entry(m: Any) -> Any:
    """Place in a table by exponent: 0 for zero, 1 for a denormal, then one for each exponent from −126 on."""
    return np.uint32(np.uint32(m) >> np.uint32(23)) + np.uint32(1) if m else np.uint32(0)


@register_jitable
def small(v: Any, least: Any, shift: Any) -> Any:
    """A magnitude rounded to 23 − `shift` bits, its exponent at least that of the pattern `least`; NaN stays."""
    exponent = np.int32(bits(v) & INFINITY)
    exponent = exponent if exponent > least else least
    magic = real(np.int32(exponent + np.int32(shift << _MANTISSA)))
    return (v + magic) - magic


@register_jitable
def _scale(
    x: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, table: Any, c: Any, gated: Any
) -> Any:
    """Two numbers of the block's scale, the first 0 where float32 does not hold it."""
    entry = exponent_entry(m)
    first, second, last = table[entry, 0], table[entry, 1], table[entry, 2]
    return bits(first) != 0, -last, last, True, first, second


@register_jitable
def _fixed(x: Any, p: Any, c: Any) -> Any:
    """clip(rne(x·up), ±top)·down."""
    _, _, _, _, up, down = p
    top = c[1]
    code = np.rint(widen(x) * up)
    code = -top if code < -top else code
    return cut((top if code > top else code) * down, x)


@register_jitable
def _float(x: Any, p: Any, c: Any) -> Any:
    """At most `largest`, rounded to 23 − `shift` bits at an exponent of at least `least`."""
    _, _, _, _, least, largest = p
    v = real(magnitude(widen(x)))
    v = largest if v > largest else v
    return cut(signed(bits(small(v, bits(least), c[1])), widen(x)), x)


@register_jitable
def power(v: Any, up: Any, least: Any, highest: Any) -> Any:
    """The nearest power of two in the log domain: exponent bits of the pattern + `up`, which carries from √2 on; 0 for
    a pattern below `least`, at most the pattern `highest`; NaN stays."""
    k = magnitude(v)
    p = np.int32(np.int32(k + up) & INFINITY)
    p = highest if p > highest else p
    p = np.int32(0) if k < least else p
    y = signed(p, v)
    return y if v == v else v


@register_jitable
def _limits(
    x: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, table: Any, c: Any, gated: Any
) -> Any:
    """Least and highest pattern of the block, by exponent of the nearest power of its largest magnitude."""
    entry = np.uint32(np.uint32(m + c[1]) >> np.uint32(23)) + np.uint32(1) if m else np.uint32(127)
    highest, last = bits(table[entry, 1]), table[entry, 2]
    return highest != 0, -last, last, True, bits(table[entry, 0]), highest


@register_jitable
def _power(x: Any, p: Any, c: Any) -> Any:
    _, _, _, _, least, highest = p
    return cut(power(widen(x), c[1], least, highest), x)


def _by_size(find: Any, value: Any, *, tiny: bool = False) -> dict[int, Any]:
    return {0: stretched(find, value, tiny=tiny)} | {n: side_by_side(find, value, tiny=tiny, fixed=n) for n in SIZES}


fixed_blocks = _by_size(_scale, _fixed)
float_blocks = _by_size(_scale, _float)
power_blocks = _by_size(_limits, _power, tiny=True)
