"""`minifloat_ieee`, and formats whose blocks share a power of two (mxint, mxfp and their kin).

Values are rounded on the bit pattern of float32; grids that need float64 keep the definition.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.fake_quant.plan import Plan, planned
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


def rounding(grid: SmallFloat) -> tuple[np.int32, np.int32, np.int32]:
    """(bit of the last kept digit, what is added below it, whether that digit breaks ties).

    With no mantissa a tie goes to the larger number: its digit is always the implicit one, which is odd.
    """
    shift = 23 - grid.mantissa
    odd = int(grid.mantissa > 0)
    return np.int32(shift), np.int32((1 << (shift - 1)) - odd), np.int32(odd)


@planned(MinifloatDenorm)
@planned(MinifloatIEEE)
def minifloat(fmt: MinifloatIEEE | MinifloatDenorm, dtype: torch.dtype) -> Plan | None:
    """Rounding of the pattern, the smallest normal number, what aligns subnormals, and the largest number."""
    grid = fmt.grid
    magic = grid.e_min + 23 - grid.mantissa
    if grid.mantissa > 22 or grid.e_min < LEAST or magic > HIGHEST or not saturates(fmt, grid.largest, dtype):
        return None
    ends = (np.float32(v) for v in (2.0**grid.e_min, 2.0**magic, grid.largest))
    return Plan("minifloat", (*rounding(grid), *ends))


@planned(BlockFP)
@planned(BlockMinifloat)
@planned(MXInt)
@planned(MXFP)
def power_blocks(fmt: PowerBlocks, dtype: torch.dtype) -> Plan | None:
    """The scale's exponent for each exponent of the largest magnitude, the range where float32 constants hold."""
    grid, blocks = fmt.grid, fmt.blocks
    if grid.mantissa > 22:
        return None
    scales, most = scale_table(fmt), most_pattern(dtype)
    if grid.top < 2 ** (grid.mantissa + 1):
        step = scales + (grid.e_min - grid.mantissa)
        held = (scales < UNKNOWN) & (step >= LEAST) & (step <= HIGHEST - 1) & (scales < HIGHEST)
        return Plan("fixed_blocks", (most, _powers(-step, held), _powers(step, held), np.float32(grid.top)), blocks)
    shift, e_max = 23 - grid.mantissa, math.frexp(grid.largest)[1] - 1
    held = (scales >= max(LEAST - grid.e_min, LEAST)) & (scales <= min(HIGHEST - 1 - e_max - shift, HIGHEST))
    largests = np.float32(grid.largest) * _powers(scales, held)
    leasts = _powers(scales + grid.e_min, held).view(np.int32)
    return Plan("float_blocks", (most, leasts, _powers(scales + e_max + 1, held), largests, np.int32(shift)), blocks)


def _powers(exponents: Table, held: Table) -> Table:
    """2^e in float32, 0 where not held."""
    return np.ldexp(held.astype(np.float32), np.where(held, exponents, 0)).astype(np.float32)


def saturates(fmt: Format, largest: float, dtype: torch.dtype) -> bool:
    """Whether infinity becomes the format's largest value; not so where the largest of `dtype` rounds to less."""
    import torch

    most = torch.finfo(dtype).max
    return fmt.define(torch.tensor(torch.inf, dtype=dtype)).item() == torch.tensor(min(largest, most)).to(dtype).item()


def most_pattern(dtype: torch.dtype) -> np.int32:
    """float32 pattern of the largest number of `dtype`: what infinity counts as."""
    import torch

    return np.float32(torch.finfo(dtype).max).view(np.int32)


def scale_table(fmt: PowerBlocks) -> Table:
    """Exponent of a block's scale by its largest magnitude: 0, denormal (left to the definition), then by exponent
    from −126 on."""
    tops = np.array([-1, LEAST, *range(LEAST, HIGHEST + 1)])
    table = np.asarray(fmt.scale_exponent(fmt.field_of(tops)), np.int64)
    table[1] = UNKNOWN
    return table
