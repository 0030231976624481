"""Formats whose elements do not see each other: value and gate in one pass.

Each loop takes flat arrays (see words), `gate` (uint8, 1 where the gradient passes, or None) and constants of the
format. It returns as those of `blocks` do; here a span of elements stands for the block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from kernels.fake_quant.loops.blocks import all_ones, plain_pattern, rest_passes
from kernels.fake_quant.loops.compiled import loop
from kernels.fake_quant.loops.words import INFINITY, MAGNITUDE, REDO, SIGN, bits, narrow, real, widen

SPAN = 2048  # elements that stay in the first cache


@loop
def integer(x: Any, out: Any, gate: Any, up: Any, down: Any, low: Any, high: Any, first: Any, last: Any) -> Any:
    """clip(rne(x·up), low, high)·down; the gradient passes for codes first … last."""
    filled = 0
    for b in range(-(-x.size // SPAN)):
        start = b * SPAN
        own, mine = x[start : start + SPAN], out[start : start + SPAN]
        for i in range(own.size):
            code = np.rint(widen(own[i]) * up)
            code = low if code < low else code
            mine[i] = narrow((high if code > high else code) * down, own[i])
        if gate is not None:
            top = np.rint(real(plain_pattern(own, 0, own.size)) * up)
            if not (top <= last and -top >= first):
                all_ones(gate, filled, start)
                filled, passes = start + own.size, gate[start : start + SPAN]
                for i in range(own.size):
                    code = np.rint(widen(own[i]) * up)
                    inside = (code >= first) & (code <= last)
                    passes[i] = np.uint8(1) if inside else np.uint8(0)
    return rest_passes(gate, filled)


@loop
def integer_floor(x: Any, out: Any, gate: Any, up: Any, down: Any, low: Any, high: Any, first: Any, last: Any) -> Any:
    """As `integer`, rounded down."""
    filled = 0
    for b in range(-(-x.size // SPAN)):
        start = b * SPAN
        own, mine = x[start : start + SPAN], out[start : start + SPAN]
        for i in range(own.size):
            code = np.floor(widen(own[i]) * up)
            code = low if code < low else code
            mine[i] = narrow((high if code > high else code) * down, own[i])
        if gate is not None:
            top = real(plain_pattern(own, 0, own.size)) * up
            if not (np.floor(top) <= last and np.floor(-top) >= first):
                all_ones(gate, filled, start)
                filled, passes = start + own.size, gate[start : start + SPAN]
                for i in range(own.size):
                    code = np.floor(widen(own[i]) * up)
                    inside = (code >= first) & (code <= last)
                    passes[i] = np.uint8(1) if inside else np.uint8(0)
    return rest_passes(gate, filled)


@register_jitable
def _rounded(m: Any, shift: Any, half: Any, odd: Any, normal: Any, magic: Any) -> Any:
    """A magnitude's pattern at bit `shift`, or aligned by `magic`."""
    n = real((m + half + ((m >> shift) & odd)) & (np.int32(-1) << shift))
    s = (real(m) + magic) - magic
    return n if real(m) >= normal else s  # NaN takes the second way, which keeps it


@loop
def minifloat(
    x: Any, out: Any, gate: Any, shift: Any, half: Any, odd: Any, normal: Any, magic: Any, largest: Any
) -> Any:
    """Rounded at bit `shift` of the pattern; below `normal` by adding and subtracting `magic`; at most `largest`.

    `half`, one less than half a step where ties go to even, and `odd`, 1 there: the last kept bit decides.
    """
    filled = 0
    for b in range(-(-x.size // SPAN)):
        start = b * SPAN
        own, mine = x[start : start + SPAN], out[start : start + SPAN]
        for i in range(own.size):
            u = bits(widen(own[i]))
            v = _rounded(np.int32(u & MAGNITUDE), shift, half, odd, normal, magic)
            v = largest if v > largest else v
            mine[i] = narrow(real(bits(v) | (u & SIGN)), own[i])
        if gate is not None:
            top = plain_pattern(own, 0, own.size)
            if top >= INFINITY or _rounded(top, shift, half, odd, normal, magic) > largest:
                all_ones(gate, filled, start)
                filled, passes = start + own.size, gate[start : start + SPAN]
                for i in range(own.size):
                    m = np.int32(bits(widen(own[i])) & MAGNITUDE)
                    inside = _rounded(m, shift, half, odd, normal, magic) <= largest
                    passes[i] = np.uint8(1) if inside else np.uint8(0)
    return rest_passes(gate, filled)


@loop
def power_of_two(x: Any, out: Any, gate: Any, up: Any, least: Any, highest: Any, tiny: Any) -> Any:
    """The nearest power of two in the log domain: exponent bits of the pattern + `up`, which carries from √2 on.

    Patterns below `least` give 0, those above `highest` that. REDO where a pattern but 0 lies below `tiny`.
    """
    filled, redo = 0, np.int32(0)
    for b in range(-(-x.size // SPAN)):
        start = b * SPAN
        own, mine = x[start : start + SPAN], out[start : start + SPAN]
        for i in range(own.size):
            u = bits(widen(own[i]))
            m = np.int32(u & MAGNITUDE)
            p = np.int32(np.int32(m + up) & INFINITY)
            redo = max(redo, np.int32((m > 0) & (m < tiny)))
            p = highest if p > highest else p
            p = np.int32(0) if m < least else p
            p = m if m > INFINITY else p
            mine[i] = narrow(real(p | (u & SIGN)), own[i])
        if gate is not None:
            top = plain_pattern(own, 0, own.size)
            if top >= INFINITY or np.int32(np.int32(top + up) & INFINITY) > highest:
                all_ones(gate, filled, start)
                filled, passes = start + own.size, gate[start : start + SPAN]
                for i in range(own.size):
                    m = np.int32(bits(widen(own[i])) & MAGNITUDE)
                    inside = (np.int32(np.int32(m + up) & INFINITY) <= highest) & (m < INFINITY)
                    passes[i] = np.uint8(1) if inside else np.uint8(0)
    return REDO if redo else rest_passes(gate, filled)


@loop
def above(x: Any, out: Any, gate: Any, threshold: Any, low: Any, high: Any) -> Any:
    """`high` from `threshold` on, `low` below; the gradient passes for |x| ≤ 1."""
    filled, one = 0, bits(np.float32(1))
    for b in range(-(-x.size // SPAN)):
        start = b * SPAN
        own, mine = x[start : start + SPAN], out[start : start + SPAN]
        for i in range(own.size):
            v = widen(own[i])
            y = high if v >= threshold else low
            mine[i] = narrow(y if v == v else v, own[i])  # NaN stays
        if gate is not None and plain_pattern(own, 0, own.size) > one:
            all_ones(gate, filled, start)
            filled, passes = start + own.size, gate[start : start + SPAN]
            for i in range(own.size):
                inside = np.int32(bits(widen(own[i])) & MAGNITUDE) <= one
                passes[i] = np.uint8(1) if inside else np.uint8(0)
    return rest_passes(gate, filled)


@loop
def passed(grad: Any, out: Any, gate: Any) -> Any:
    """grad·gate."""
    for i in range(grad.size):
        out[i] = narrow(widen(grad[i]) * np.float32(gate[i]), grad[i])
    return np.int32(0)
