"""Formats whose blocks share a power of two: the block's largest magnitude, then its elements, while they are in cache.

Loops return 1 when all gradients pass (no gate was written), 0 when not, REDO where a scale is too extreme for float32.
Gates are looked at where a block's largest magnitude is clipped; the rest is filled with ones up to there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from kernels.fake_quant.loops.compiled import loop
from kernels.fake_quant.loops.words import INFINITY, MAGNITUDE, REDO, SIGN, bits, narrow, real, widen

_MANTISSA = np.int32(23)


@register_jitable(inline="always")
def plain_pattern(x: Any, start: Any, block: Any) -> Any:
    """Pattern of the block's largest magnitude, NaN above all."""
    m = np.int32(0)
    for i in range(block):
        k = np.int32(bits(widen(x[start + i])) & MAGNITUDE)  # numba's own int32 arithmetic is int64: half the lanes
        m = k if k > m else m
    return m


@register_jitable
def counted_pattern(x: Any, start: Any, block: Any, most: Any, last: Any = INFINITY) -> Any:
    """As `plain_pattern`: what lies above the pattern `last` does not count (NaN), what lies above `most` counts as
    that (infinity)."""
    own, m = x[start : start + block], np.int32(0)
    for i in range(own.size):
        k = np.int32(bits(widen(own[i])) & MAGNITUDE)
        k = k if k <= last else np.int32(0)
        m = k if k > m else m
    return m if m < most else most


@register_jitable
def exponent_entry(m: Any) -> Any:
    """Place in a table by exponent: 0 for zero, 1 for a denormal, then one for each exponent from −126 on."""
    return np.uint32(np.uint32(m) >> np.uint32(23)) + np.uint32(1) if m else np.uint32(0)


@register_jitable
def all_ones(gate: Any, start: Any, stop: Any) -> Any:
    """The gradient passes from `start` up to `stop`."""
    own = gate[start:stop]  # its indices begin at 0: that vectorises
    for i in range(own.size):
        own[i] = np.uint8(1)


@register_jitable
def rest_passes(gate: Any, filled: Any) -> Any:
    """1 where no gate was needed; else 0, and the gradient passes from `filled` on."""
    if gate is not None and filled:
        all_ones(gate, filled, gate.size)
    return np.int32(0) if filled else np.int32(1)


@loop
def fixed_blocks(x: Any, out: Any, gate: Any, block: Any, most: Any, ups: Any, downs: Any, top: Any) -> Any:
    """clip(rne(x·up), ±top)·down, up and down from tables by exponent of the largest magnitude; up = 0: REDO."""
    filled = 0
    for b in range(x.size // block):
        start = b * block
        m = plain_pattern(x, start, block)
        wild = m > most
        if wild:
            m = counted_pattern(x, start, block, most)
        entry = exponent_entry(m)
        up, down = ups[entry], downs[entry]
        if up == 0:
            return REDO
        for i in range(block):
            code = np.rint(widen(x[start + i]) * up)
            code = -top if code < -top else code
            out[start + i] = narrow((top if code > top else code) * down, x[start + i])
        if gate is not None and (wild or np.rint(real(m) * up) > top):
            all_ones(gate, filled, start)
            filled = start + block
            for i in range(block):
                code = np.rint(widen(x[start + i]) * up)
                inside = (code >= -top) & (code <= top)
                gate[start + i] = np.uint8(1) if inside else np.uint8(0)
    return rest_passes(gate, filled)


@register_jitable
def small(v: Any, least: Any, shift: Any) -> Any:
    """A magnitude rounded to 23 − `shift` bits, its exponent at least that of the pattern `least`; NaN
    stays."""
    exponent = np.int32(bits(v) & INFINITY)
    exponent = exponent if exponent > least else least
    magic = real(np.int32(exponent + np.int32(shift << _MANTISSA)))
    return (v + magic) - magic


@register_jitable
def capped(v: Any, cap: Any, least: Any, shift: Any) -> Any:
    """As `small`, of at most `cap`."""
    return small(cap if v > cap else v, least, shift)


@loop
def float_blocks(
    x: Any, out: Any, gate: Any, block: Any, most: Any, leasts: Any, caps: Any, largests: Any, shift: Any
) -> Any:
    """Rounded to 23 − `shift` bits by adding and subtracting 2^(exponent+shift), the exponent at least that of the
    pattern `least`; at most `largest`, which lies below the power `cap`; all from tables by exponent of the largest
    magnitude; least = 0: REDO."""
    filled = 0
    for b in range(x.size // block):
        start = b * block
        m = plain_pattern(x, start, block)
        wild = m > most
        if wild:
            m = counted_pattern(x, start, block, most)
        entry = exponent_entry(m)
        least, cap, largest = leasts[entry], caps[entry], largests[entry]
        if least == 0:
            return REDO
        if wild or real(m) > cap:
            for i in range(block):
                u = bits(widen(x[start + i]))
                v = capped(real(u & MAGNITUDE), cap, least, shift)
                v = largest if v > largest else v
                out[start + i] = narrow(real(bits(v) | (u & SIGN)), x[start + i])
        else:
            for i in range(block):
                u = bits(widen(x[start + i]))
                v = small(real(u & MAGNITUDE), least, shift)
                v = largest if v > largest else v
                out[start + i] = narrow(real(bits(v) | (u & SIGN)), x[start + i])
        if gate is not None and (wild or capped(real(m), cap, least, shift) > largest):
            all_ones(gate, filled, start)
            filled = start + block
            for i in range(block):
                v = capped(real(bits(widen(x[start + i])) & MAGNITUDE), cap, least, shift)
                gate[start + i] = np.uint8(1) if v <= largest else np.uint8(0)
    return rest_passes(gate, filled)


@register_jitable
def _any_below(x: Any, start: Any, block: Any, tiny: Any) -> Any:
    """Whether a pattern but 0 lies below `tiny`."""
    found = np.int32(0)
    for i in range(block):
        k = np.int32(bits(widen(x[start + i])) & MAGNITUDE)
        found = max(found, np.int32((k > 0) & (k < tiny)))
    return found


@loop
def power_blocks(
    x: Any, out: Any, gate: Any, block: Any, most: Any, leasts: Any, highests: Any, tinies: Any, up: Any
) -> Any:
    """As `power_of_two`, with its limits from tables by exponent of the nearest power of the block's largest
    magnitude."""
    filled = 0
    for b in range(x.size // block):
        start = b * block
        m = plain_pattern(x, start, block)
        wild = m > most
        if wild:
            m = counted_pattern(x, start, block, most)
        entry = np.uint32(np.uint32(m + up) >> np.uint32(23)) + np.uint32(1) if m else np.uint32(127)
        least, highest, tiny = leasts[entry], highests[entry], tinies[entry]
        if tiny and _any_below(x, start, block, tiny):
            return REDO
        for i in range(block):
            u = bits(widen(x[start + i]))
            k = np.int32(u & MAGNITUDE)
            p = np.int32(np.int32(k + up) & INFINITY)
            p = highest if p > highest else p
            p = np.int32(0) if k < least else p
            if wild:  # the same for all of the block: the loop is made twice
                p = k if k > INFINITY else p
            out[start + i] = narrow(real(p | (u & SIGN)), x[start + i])
        if gate is not None and (wild or np.int32(np.int32(m + up) & INFINITY) > highest):
            all_ones(gate, filled, start)
            filled = start + block
            for i in range(block):
                k = np.int32(bits(widen(x[start + i])) & MAGNITUDE)
                inside = (np.int32(np.int32(k + up) & INFINITY) <= highest) & (k < INFINITY)
                gate[start + i] = np.uint8(1) if inside else np.uint8(0)
    return rest_passes(gate, filled)
