"""Formats whose blocks share a power of two: the block's largest magnitude, then its elements, while they are in cache.
Constants: what infinity counts as, what all blocks share, the largest number over the scale whose gradient passes; what
turns the largest magnitude's pattern into the scale's (a summand, two limits), and from where to where this holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from espalier.kernels.fake_quant.loops.stretches import stretched
from espalier.kernels.fake_quant.loops.together import SIZES, side_by_side
from espalier.kernels.fake_quant.loops.words import INFINITY, bits, cut_size, real

_MANTISSA = np.int32(23)
_ABOVE_ROOT, _LEAST_DENORMAL, _NORMAL = np.int32(0x3504F4), np.int32(0x5A827A), np.int32(1 << 23)
_HIGHEST = np.int32(254)
_ALIGN, _COARSEST = np.float32(2.0**23), np.float32(2.0**104)


@register_jitable
def small(v: Any, least: Any, shift: Any) -> Any:
    """A magnitude rounded to 23 − `shift` bits, its exponent at least that of the pattern `least`; NaN stays."""
    exponent = np.int32(bits(v) & INFINITY)
    exponent = exponent if exponent > least else least
    magic = real(np.int32(exponent + np.int32(shift << _MANTISSA)))
    return (v + magic) - magic


@register_jitable
def _shared(m: Any, c: Any) -> Any:
    """Whether float32 holds the block's scale; it."""
    _, _, _, add, low, high, first, last = c[:8]
    e = np.int32(np.int32(m & INFINITY) + add)
    e = low if e < low else e
    return (m == 0) | ((m >= first) & (m <= last)), real(high if e > high else e)


@register_jitable(inline="always")  # a call would count references to its arrays
def _step(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    """The largest value, what aligns a number to steps, a step; not ordinary where float32 has no such number."""
    held, step = _shared(m, c)
    last = c[2] * step
    return held, -last, last, step <= _COARSEST, (c[1] * step, _ALIGN * step, step, step)


@register_jitable
def _fixed(v: Any, p: Any, c: Any) -> Any:
    """rne(|x|/step)·step, at most `largest`; NaN stays."""
    largest, magic, _, _ = p
    return ((largest if v > largest else v) + magic) - magic


@register_jitable
def _fixed_coarse(v: Any, p: Any, c: Any) -> Any:
    """As `_fixed`, of any element and any step."""
    largest, _, down, _ = p
    y = np.rint(v / down) * down
    y = -largest if y < -largest else y
    return largest if y > largest else y


@register_jitable(inline="always")
def _scale(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    """The least exponent, and the largest value."""
    held, scale = _shared(m, c)
    last = c[2] * scale
    return held, -last, last, True, (c[8] * scale, c[9] * scale, scale, scale)


@register_jitable
def _float(v: Any, p: Any, c: Any) -> Any:
    """|x|, at most `largest`, rounded to 23 − `shift` bits at an exponent of at least `least`."""
    least, largest, _, _ = p
    return small(largest if v > largest else v, bits(least), c[1])


@register_jitable
def power(v: Any, up: Any, least: Any, highest: Any) -> Any:
    """The power of two nearest to a magnitude in the log domain: exponent bits of the pattern + `up`, which carries
    from √2 on; 0 for a pattern below `least`, at most the pattern `highest`; NaN stays."""
    k = bits(v)
    p = np.int32(np.int32(k + up) & INFINITY)
    p = highest if p > highest else p
    p = np.int32(0) if k < least else p
    return real(p) if v == v else v


@register_jitable(inline="always")
def _limits(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    """Least and highest pattern of the block, by the power nearest to its largest magnitude: that is the highest, as
    far as the shared bias allows. Powers that are no normal numbers are left to the definition."""
    _, up, code, reach, _ = c
    top = np.int32(np.uint32(m + up) >> np.uint32(23))
    bias = np.int32(code - top)
    bias = np.int32(0) if bias < 0 else bias
    bias = reach if bias > reach else bias
    high, zero = np.int32(code - bias), np.int32(np.int32(127) - bias)
    highest = np.int32((_HIGHEST if high > _HIGHEST else high) << _MANTISSA)
    least = np.int32((zero << _MANTISSA) | _ABOVE_ROOT)
    least = _LEAST_DENORMAL if zero == 0 else least
    least = _NORMAL if zero < 0 else least
    last = real(np.int32((highest | _ABOVE_ROOT) - np.int32(1)))
    held = (m == 0) | ((top != 0) & (highest != 0))
    return held, -last, last, True, (real(least), real(highest), last, last)


@register_jitable
def _power(v: Any, p: Any, c: Any) -> Any:
    least, highest, _, _ = p
    return power(v, c[1], bits(least), bits(highest))


def _by_size(find: Any, value: Any, careful: Any = None, *, tiny: bool = False) -> dict[int, Any]:
    kind: dict[str, Any] = {"into": cut_size, "odd": True, "tiny": tiny}
    together = {n: side_by_side(find, value, careful, **kind, fixed=n) for n in SIZES}
    return {0: stretched(find, value, careful, **kind)} | together


fixed_blocks = _by_size(_step, _fixed, _fixed_coarse)
float_blocks = _by_size(_scale, _float)
power_blocks = _by_size(_limits, _power, tiny=True)
