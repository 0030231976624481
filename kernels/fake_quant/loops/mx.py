"""MX weights on the CPU: values of codes, and products with few rows straight from the codes, in one pass.

Loops take rows of codes, of exponents and of the result, and parameters common to all rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from espalier.kernels.fake_quant.loops.compiled import any_order, loop
from espalier.kernels.fake_quant.loops.words import narrow, narrow_exact, real


@register_jitable
def power(e: Any) -> Any:
    """2^(e − 127), from its bits."""
    return real(np.int32(0x00400000) if e == 0 else np.int32(e) << 23)


@register_jitable
def nibble(byte: Any, high: Any) -> Any:
    """The two's complement number in the low or high half of a byte, divided by 4."""
    half = (byte >> 4) if high else (byte & 15)
    return np.float32((half ^ 8) - 8) * np.float32(0.25)


@loop
def values8(codes: Any, exponents: Any, out: Any, block_size: Any) -> None:
    """code/64·2^(e − 127) of rows of codes; `out` as words of its dtype. `block_size`: elements per block."""
    (block,), (rows, columns) = block_size, codes.shape
    for r in range(rows):
        for g in range(exponents.shape[1]):
            start, scale = g * block, power(exponents[r, g])
            for i in range(min(block, columns - start)):
                value = np.float32(codes[r, start + i]) * np.float32(0.015625) * scale
                out[r, start + i] = narrow_exact(value, out[r, start + i])


@loop
def values4(codes: Any, exponents: Any, out: Any, block_size: Any) -> None:
    """code/4·2^(e − 127) of rows of codes, two per byte. `block_size`: elements per block, even."""
    (block,), (rows, columns) = block_size, out.shape
    for r in range(rows):
        for g in range(exponents.shape[1]):
            start, scale = g * block, power(exponents[r, g])
            here, first = min(block, columns - start), start // 2
            for i in range(here // 2):
                byte = np.int32(codes[r, first + i])
                at = start + 2 * i
                out[r, at] = narrow_exact(nibble(byte, False) * scale, out[r, at])
                out[r, at + 1] = narrow_exact(nibble(byte, True) * scale, out[r, at + 1])
            if here % 2:
                at = start + here - 1
                out[r, at] = narrow_exact(nibble(np.int32(codes[r, at // 2]), False) * scale, out[r, at])


@any_order
def vector8(codes: Any, exponents: Any, out: Any, parameters: Any) -> None:
    """out[r] = Σ code/64·2^(e − 127)·x, block by block in float32. `parameters`: x, and elements per block."""
    (x, block), (rows, columns) = parameters, codes.shape
    for r in range(rows):
        total = np.float32(0)
        for g in range(exponents.shape[1]):
            start = g * block
            part = np.float32(0)
            for i in range(min(block, columns - start)):
                part += np.float32(codes[r, start + i]) * x[start + i]
            total += part * (power(exponents[r, g]) * np.float32(0.015625))
        out[r] = total


@loop
def looked_up(codes: Any, exponents: Any, out: Any, parameters: Any) -> None:
    """values[code]·2^(e − 127) of rows of codes. `parameters`: the value of each code, whether a byte holds two codes,
    and elements per block."""
    (values, halves, block), (rows, columns) = parameters, out.shape
    for r in range(rows):
        for g in range(exponents.shape[1]):
            start, scale = g * block, power(exponents[r, g])
            for i in range(min(block, columns - start)):
                at = start + i
                code = (codes[r, at >> 1] >> ((at & 1) << 2)) & 15 if halves else codes[r, at]
                out[r, at] = narrow(values[code] * scale, out[r, at])
