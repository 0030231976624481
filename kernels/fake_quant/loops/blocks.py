"""Formats whose blocks share a power of two: the block's largest magnitude, then its elements while they are cached.
Constants: the pattern that replaces infinity, values shared by all blocks, the largest x/scale whose gradient passes,
and the map from the largest magnitude's pattern to the scale's (a summand and two limits) with its domain."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from espalier.kernels.fake_quant.loops.segment_batches import BATCHED_SIZES, batched_segment_loop
from espalier.kernels.fake_quant.loops.segments import segment_loop
from espalier.kernels.fake_quant.loops.words import INFINITY, bits, narrow_exact_magnitude, real

_MANTISSA = np.int32(23)
_ABOVE_ROOT, _LEAST_DENORMAL, _NORMAL = np.int32(0x3504F4), np.int32(0x5A827A), np.int32(1 << 23)
_HIGHEST = np.int32(254)
_ALIGN, _COARSEST = np.float32(2.0**23), np.float32(2.0**104)


@register_jitable
def small(v: Any, lowest: Any, shift: Any) -> Any:
    """A magnitude rounded to 23 − `shift` bits, with an exponent of at least that of the pattern `lowest`; NaN
    stays."""
    exponent = np.int32(bits(v) & INFINITY)
    exponent = exponent if exponent > lowest else lowest
    magic = real(np.int32(exponent + np.int32(shift << _MANTISSA)))
    return (v + magic) - magic


@register_jitable
def _shared(m: Any, c: Any) -> Any:
    """(whether float32 represents the block's scale, the scale)."""
    _, _, _, add, low, high, first, last = c[:8]
    e = np.int32(np.int32(m & INFINITY) + add)
    e = low if e < low else e
    return (m == 0) | ((m >= first) & (m <= last)), real(high if e > high else e)


@register_jitable(inline="always")  # a call would count references of its arrays
def _step(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    """The largest value, the summand that rounds to steps, and the step; not ordinary if float32 lacks such a
    summand."""
    exact, step = _shared(m, c)
    last = c[2] * step
    return exact, -last, last, step <= _COARSEST, (c[1] * step, _ALIGN * step, step, step)


@register_jitable
def _fixed(v: Any, p: Any, c: Any) -> Any:
    """rne(|x|/step)·step, at most `largest`; NaN stays."""
    largest, magic, _, _ = p
    return ((largest if v > largest else v) + magic) - magic


@register_jitable
def _fixed_coarse(v: Any, p: Any, c: Any) -> Any:
    """As `_fixed`, for any element and any step."""
    largest, _, down, _ = p
    y = np.rint(v / down) * down
    y = -largest if y < -largest else y
    return largest if y > largest else y


@register_jitable(inline="always")
def _scale(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    """The lowest exponent and the largest value."""
    exact, scale = _shared(m, c)
    last = c[2] * scale
    return exact, -last, last, True, (c[8] * scale, c[9] * scale, scale, scale)


@register_jitable
def _float(v: Any, p: Any, c: Any) -> Any:
    """|x|, at most `largest`, rounded to 23 − `shift` bits with an exponent of at least `lowest`."""
    lowest, largest, _, _ = p
    return small(largest if v > largest else v, bits(lowest), c[1])


@register_jitable
def power(v: Any, up: Any, lowest: Any, highest: Any) -> Any:
    """The power of two nearest to a magnitude in the log domain: the exponent bits of pattern + `up`, which carries
    from √2 on; 0 for a pattern below `lowest`, at most the pattern `highest`; NaN stays."""
    k = bits(v)
    p = np.int32(np.int32(k + up) & INFINITY)
    p = highest if p > highest else p
    p = np.int32(0) if k < lowest else p
    return real(p) if v == v else v


@register_jitable(inline="always")
def _limits(
    x: Any, out: Any, start: Any, block: Any, m: Any, finite: Any, b: Any, shared: Any, c: Any, gated: Any
) -> Any:
    """Lowest and highest pattern of the block: the highest is the power nearest to its largest magnitude, within the
    range of the shared bias. Powers that are not normal numbers are left to the definition."""
    _, up, code, max_bias, _ = c
    top = np.int32(np.uint32(m + up) >> np.uint32(23))
    bias = np.int32(code - top)
    bias = np.int32(0) if bias < 0 else bias
    bias = max_bias if bias > max_bias else bias
    high, zero = np.int32(code - bias), np.int32(np.int32(127) - bias)
    highest = np.int32((_HIGHEST if high > _HIGHEST else high) << _MANTISSA)
    lowest = np.int32((zero << _MANTISSA) | _ABOVE_ROOT)
    lowest = _LEAST_DENORMAL if zero == 0 else lowest
    lowest = _NORMAL if zero < 0 else lowest
    last = real(np.int32((highest | _ABOVE_ROOT) - np.int32(1)))
    exact = (m == 0) | ((top != 0) & (highest != 0))
    return exact, -last, last, True, (real(lowest), real(highest), last, last)


@register_jitable
def _power(v: Any, p: Any, c: Any) -> Any:
    lowest, highest, _, _ = p
    return power(v, c[1], bits(lowest), bits(highest))


def _by_size(find: Any, value: Any, careful: Any = None, *, tiny: bool = False) -> dict[int, Any]:
    kind: dict[str, Any] = {"into": narrow_exact_magnitude, "odd": True, "tiny": tiny}
    together = {n: batched_segment_loop(find, value, careful, **kind, fixed=n) for n in BATCHED_SIZES}
    return {0: segment_loop(find, value, careful, **kind)} | together


fixed_blocks = _by_size(_step, _fixed, _fixed_coarse)
float_blocks = _by_size(_scale, _float)
power_blocks = _by_size(_limits, _power, tiny=True)
