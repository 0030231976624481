"""Integer codes as in packed files, and their values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from espalier.kernels.fake_quant.loops.compiled import loop
from espalier.kernels.fake_quant.loops.scales import stored
from espalier.kernels.fake_quant.loops.segments import plain_pattern
from espalier.kernels.fake_quant.loops.words import REDO, absolute, bits, real


@register_jitable
def _exponent_entry(m: Any) -> Any:
    """Index into a table by exponent: 0 for zero, 1 for denormals, then one for each exponent from −126 on."""
    return np.uint32(np.uint32(m) >> np.uint32(23)) + np.uint32(1) if m else np.uint32(0)


@loop
def fixed_codes(x: Any, codes: Any, entries: Any, block: Any, table: Any, infinity: Any, top: Any, sign: Any) -> Any:
    """rne(x·up) of blocks, at most `top`, and each block's index into the table; REDO if only the definition can do it.

    Negative codes have the bit `sign` set, or are negative numbers if `sign` is 0.
    """
    for b in range(entries.size):
        start = b * block
        m = plain_pattern(x, start, block)
        entry = _exponent_entry(m)
        if m > infinity or table[entry, 0] == 0:
            return REDO
        entries[b], up = entry, table[entry, 0]
        for i in range(block):
            v = x[start + i]
            code = np.rint(absolute(v) * up)
            k = np.int32(top if code > top else code)
            codes[start + i] = ((k | sign) if sign else -k) if bits(v) < 0 else k
    return np.int32(1)


@loop
def fixed_values(codes: Any, out: Any, downs: Any, block: Any, sign: Any) -> Any:
    """code·down of blocks, the inverse of `fixed_codes`."""
    for b in range(downs.size):
        start, down = b * block, downs[b]
        for i in range(block):
            k = np.int32(codes[start + i])
            v = np.float32(k & ~sign if sign else k) * down
            out[start + i] = -v if k & sign else v


@loop
def integer_codes(x: Any, codes: Any, scales: Any, block: Any, infinity: Any, top: Any, kind: Any) -> Any:
    """clip(rne(x/s)) of segments, and their scales; REDO if an element is not finite."""
    last = np.float32(top)
    for b in range(scales.size):
        start = b * block
        m = plain_pattern(x, start, block)
        if m > infinity:
            return REDO
        s = stored(np.float64(real(m)) / top, kind)
        scales[b] = s
        for i in range(block):
            code = np.rint(x[start + i] / s)
            code = -last if code < -last else code
            codes[start + i] = np.int32(last if code > last else code)
    return np.int32(1)
