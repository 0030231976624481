"""MX weights on the CPU: values of codes, and products with few rows straight from the codes, in one pass.

Loops take rows of codes, of their exponents and of the result, and what all rows are given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from espalier.kernels.fake_quant.loops.compiled import any_order, loop
from espalier.kernels.fake_quant.loops.words import cut, narrow, real


@register_jitable
def power(e: Any) -> Any:
    """2^(e − 127), from its bits."""
    return real(np.int32(0x00400000) if e == 0 else np.int32(e) << 23)


@register_jitable
def nibble(byte: Any, high: Any) -> Any:
    """A quarter of the number in one half of a byte, in two's complement."""
    half = (byte >> 4) if high else (byte & 15)
    return np.float32((half ^ 8) - 8) * np.float32(0.25)


@loop
def values8(codes: Any, exponents: Any, out: Any, given: Any) -> None:
    """code/64·2^(e − 127) of rows of codes; `out` in the words of its dtype. Given: elements a block."""
    (block,), (rows, columns) = given, codes.shape
    for r in range(rows):
        for g in range(exponents.shape[1]):
            start, scale = g * block, power(exponents[r, g])
            for i in range(min(block, columns - start)):
                value = np.float32(codes[r, start + i]) * np.float32(0.015625) * scale
                out[r, start + i] = cut(value, out[r, start + i])


@loop
def values4(codes: Any, exponents: Any, out: Any, given: Any) -> None:
    """code/4·2^(e − 127) of rows of codes, two in a byte; blocks of an even number, given."""
    (block,), (rows, columns) = given, out.shape
    for r in range(rows):
        for g in range(exponents.shape[1]):
            start, scale = g * block, power(exponents[r, g])
            here, first = min(block, columns - start), start // 2
            for i in range(here // 2):
                byte = np.int32(codes[r, first + i])
                at = start + 2 * i
                out[r, at] = cut(nibble(byte, False) * scale, out[r, at])
                out[r, at + 1] = cut(nibble(byte, True) * scale, out[r, at + 1])
            if here % 2:
                at = start + here - 1
                out[r, at] = cut(nibble(np.int32(codes[r, at // 2]), False) * scale, out[r, at])


@any_order
def vector8(codes: Any, exponents: Any, out: Any, given: Any) -> None:
    """out[r] = Σ code/64·2^(e − 127)·x, block by block in float32. Given: x, and elements a block."""
    (x, block), (rows, columns) = given, codes.shape
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
def looked_up(codes: Any, exponents: Any, out: Any, given: Any) -> None:
    """known[code]·2^(e − 127) of rows of codes, one or two in a byte. Given: known values, whether a byte holds two
    codes, and elements a block."""
    (known, halves, block), (rows, columns) = given, out.shape
    for r in range(rows):
        for g in range(exponents.shape[1]):
            start, scale = g * block, power(exponents[r, g])
            for i in range(min(block, columns - start)):
                at = start + i
                code = (codes[r, at >> 1] >> ((at & 1) << 2)) & 15 if halves else codes[r, at]
                out[r, at] = narrow(known[code] * scale, out[r, at])
