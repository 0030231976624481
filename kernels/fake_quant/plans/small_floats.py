"""Minifloats, and formats whose blocks share a power of two (mxint, mxfp and their kin).

Values are rounded on the bit pattern of float32; grids that need float64 keep the definition.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from espalier.kernels.fake_quant.plan import Plan, planned
from espalier.kernels.fake_quant.plans.ends import MOST, held, most_pattern
from espalier.model.formats.base import Format
from espalier.model.formats.block_fp import BlockFP
from espalier.model.formats.block_minifloat import BlockMinifloat
from espalier.model.formats.blocks import PowerBlocks
from espalier.model.formats.minifloat_denorm import MinifloatDenorm
from espalier.model.formats.minifloat_ieee import MinifloatIEEE
from espalier.model.formats.mxfp import MXFP
from espalier.model.formats.mxint import MXInt
from espalier.model.formats.small_float import SmallFloat

if TYPE_CHECKING:
    import torch

LEAST, HIGHEST = -126, 127  # exponents of normal float32 numbers
UNKNOWN = 2**20  # a scale's exponent beyond all
Table = np.ndarray[Any, np.dtype[Any]]


@planned(MinifloatDenorm)
@planned(MinifloatIEEE)
def minifloat(fmt: MinifloatIEEE | MinifloatDenorm, dtype: torch.dtype) -> Plan | None:
    """Where the gradient ends, the largest number, the least exponent, and how far what aligns a number lies above
    it."""
    grid, shift = fmt.grid, 23 - fmt.grid.mantissa
    if shift < 1 or grid.e_min < LEAST or grid.e_min + shift > HIGHEST or not saturates(fmt, grid.largest, dtype):
        return None
    last = np.float32(min(_last(grid), MOST))
    ends = (-last, last, np.float32(held(grid.largest, dtype)))
    normal = np.float32(2.0**grid.e_min)
    if _top_exponent(grid) + shift <= HIGHEST:
        return Plan("minifloat", (*ends, normal.view(np.int32), np.int32(shift)))
    odd = int(grid.mantissa > 0)  # with no mantissa the last digit is the implicit one, which is odd: ties go up
    rounding = (np.int32(v) for v in (shift, (1 << (shift - 1)) - odd, odd))
    return Plan("minifloat_wide", (*ends, *rounding, normal, np.float32(2.0 ** (grid.e_min + shift))))


def _top_exponent(grid: SmallFloat) -> int:
    return math.frexp(grid.largest)[1] - 1


def _last(grid: SmallFloat) -> np.float64:
    """The largest number that is rounded to one of the grid: half a step above its largest, where ties go down."""
    step = 2.0 ** (max(_top_exponent(grid), grid.e_min) - grid.mantissa)
    middle = grid.largest + step / 2
    odd = grid.top & 1 or not grid.mantissa
    return np.float64(np.nextafter(np.float32(middle / step), np.float32(0)) * step if odd else middle)


@planned(BlockFP)
@planned(BlockMinifloat)
@planned(MXInt)
@planned(MXFP)
def power_blocks(fmt: PowerBlocks, dtype: torch.dtype) -> Plan | None:
    """Constants of the loops (kernels.fake_quant.loops.blocks); steps of the scale for each exponent of the largest
    magnitude are kept for codes."""
    grid, blocks = fmt.grid, fmt.blocks
    if grid.mantissa > 22:
        return None
    scales, most, shift = scale_table(fmt), most_pattern(dtype), 23 - grid.mantissa
    if grid.top < 2 ** (grid.mantissa + 1):
        least = grid.e_min - grid.mantissa
        step = scales + least
        known = (scales < UNKNOWN) & (step >= LEAST) & (step <= HIGHEST - 1) & (scales < HIGHEST)
        line = _line(step, known)
        constants = (most, np.float32(held(grid.top, dtype)), np.float32(np.ldexp(_last(grid), -least)))
        table = np.ascontiguousarray(_powers(-step, known)[:, None])
        return None if line is None else Plan("fixed_blocks", (*constants, *line), blocks, table=table)
    lowest = max(LEAST - grid.e_min, LEAST)
    known = (scales >= lowest) & (scales <= min(HIGHEST - 1 - _top_exponent(grid) - shift, HIGHEST))
    line = _line(scales, known)
    largest = np.float32(held(grid.largest, dtype))
    if line is None:
        return None
    constants = (most, np.int32(shift), np.float32(_last(grid)), *line)
    return Plan("float_blocks", (*constants, np.float32(2.0**grid.e_min), largest), blocks)


def _line(exponents: Table, known: Table) -> tuple[np.int32, ...] | None:
    """What is added to an exponent, its limits, and from which to which largest magnitude: all as patterns. None where
    the known do not lie on such a line."""
    rows = np.flatnonzero(known[2:])  # from 2^−126 on
    if not rows.size:
        return None
    found, tops = exponents[2:][rows], rows + 1
    low, high = int(found.min()) + 127, int(found.max()) + 127
    inner = (found + 127 > low) & (found + 127 < high) if high > low + 1 else found + 127 == high
    add = int((found + 127 - tops)[inner][0])
    if low < 1 or add > 0 or not (found + 127 == np.clip(tops + add, low, high)).all() or (np.diff(rows) != 1).any():
        return None
    ends = (int(tops[0]) << 23, (int(tops[-1]) << 23) | 0x7FFFFF)
    return tuple(np.int32(v) for v in (add * 2**23, low << 23, high << 23, *ends))


def _powers(exponents: Table, known: Table) -> Table:
    """2^e in float32, 0 where not known."""
    return np.ldexp(known.astype(np.float32), np.where(known, exponents, 0)).astype(np.float32)


def saturates(fmt: Format, largest: float, dtype: torch.dtype) -> bool:
    """Whether infinity becomes the format's largest value; not so where the largest of `dtype` rounds to less."""
    import torch

    most = torch.finfo(dtype).max
    return fmt.define(torch.tensor(torch.inf, dtype=dtype)).item() == torch.tensor(min(largest, most)).to(dtype).item()


def scale_table(fmt: PowerBlocks) -> Table:
    """Exponent of a block's scale by its largest magnitude: 0, denormal (left to the definition), then by exponent
    from −126 on."""
    tops = np.array([-1, LEAST, *range(LEAST, HIGHEST + 1)])
    table = np.asarray(fmt.scale_exponent(fmt.field_of(tops)), np.int64)
    table[1] = UNKNOWN
    return table
