"""Minifloats, and formats whose blocks share a power of two (mxint, mxfp and their kin).

Values are rounded on the bit pattern of float32; grids that need float64 keep the definition.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.fake_quant.plan import Plan, planned
from kernels.fake_quant.plans.ends import MOST, held, most_pattern
from model.formats.base import Format
from model.formats.block_fp import BlockFP
from model.formats.block_minifloat import BlockMinifloat
from model.formats.blocks import PowerBlocks
from model.formats.minifloat_denorm import MinifloatDenorm
from model.formats.minifloat_ieee import MinifloatIEEE
from model.formats.mxfp import MXFP
from model.formats.mxint import MXInt
from model.formats.small_float import SmallFloat

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
    """Numbers of the scale for each exponent of the largest magnitude, the range where float32 constants hold."""
    grid, blocks = fmt.grid, fmt.blocks
    if grid.mantissa > 22:
        return None
    scales, most, shift = scale_table(fmt), most_pattern(dtype), 23 - grid.mantissa
    if grid.top < 2 ** (grid.mantissa + 1):
        step = scales + (grid.e_min - grid.mantissa)
        known = (scales < UNKNOWN) & (step >= LEAST) & (step <= HIGHEST - 1) & (scales < HIGHEST)
        table = _rows(_powers(-step, known), _powers(step, known), _passing(grid, scales, known))
        return Plan("fixed_blocks", (most, np.float32(held(grid.top, dtype))), blocks, table=table)
    lowest = max(LEAST - grid.e_min, LEAST)
    known = (scales >= lowest) & (scales <= min(HIGHEST - 1 - _top_exponent(grid) - shift, HIGHEST))
    leasts = _powers(scales + grid.e_min, known)
    largests = np.float32(held(grid.largest, dtype)) * _powers(scales, known)
    table = _rows(leasts, largests, _passing(grid, scales, known))
    return Plan("float_blocks", (most, np.int32(shift)), blocks, table=table)


def _rows(*columns: Table) -> Table:
    return np.ascontiguousarray(np.stack(columns, 1))


def _powers(exponents: Table, known: Table) -> Table:
    """2^e in float32, 0 where not known."""
    return np.ldexp(known.astype(np.float32), np.where(known, exponents, 0)).astype(np.float32)


def _passing(grid: SmallFloat, scales: Table, known: Table) -> Table:
    """The largest number whose gradient passes, under each scale."""
    return np.minimum(np.ldexp(_last(grid), np.where(known, scales, 0)), MOST).astype(np.float32)


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
