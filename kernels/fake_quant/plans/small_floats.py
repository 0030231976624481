"""Minifloats, and formats whose blocks share a power of two, such as mxint and mxfp.

Values are rounded on the bit pattern of float32; grids that need float64 keep the definition.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from espalier.kernels.fake_quant.plan import Plan, register_plan
from espalier.kernels.fake_quant.plans.ends import MOST, most_pattern, saturated
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
UNKNOWN = 2**20  # marks an unknown exponent
Table = np.ndarray[Any, np.dtype[Any]]


@register_plan(MinifloatDenorm)
@register_plan(MinifloatIEEE)
def minifloat(fmt: MinifloatIEEE | MinifloatDenorm, dtype: torch.dtype) -> Plan | None:
    """Limit of the gradient, the largest number, the lowest exponent, and the exponent of the rounding summand above
    the number's."""
    grid, shift = fmt.grid, 23 - fmt.grid.mantissa
    if shift < 1 or grid.e_min < LEAST or grid.e_min + shift > HIGHEST or not saturates(fmt, grid.largest, dtype):
        return None
    last = np.float32(min(_last(grid), MOST))
    ends = (-last, last, np.float32(saturated(grid.largest, dtype)))
    normal = np.float32(2.0**grid.e_min)
    if _top_exponent(grid) + shift <= HIGHEST:
        return Plan("minifloat", (*ends, normal.view(np.int32), np.int32(shift)))
    odd = int(grid.mantissa > 0)  # without a mantissa the last bit is the implicit one, which is odd, so ties round up
    rounding = (np.int32(v) for v in (shift, (1 << (shift - 1)) - odd, odd))
    return Plan("minifloat_wide", (*ends, *rounding, normal, np.float32(2.0 ** (grid.e_min + shift))))


def _top_exponent(grid: SmallFloat) -> int:
    return math.frexp(grid.largest)[1] - 1


def _last(grid: SmallFloat) -> np.float64:
    """The largest number that rounds to a value of the grid: half a step above its largest, where ties round down."""
    step = 2.0 ** (max(_top_exponent(grid), grid.e_min) - grid.mantissa)
    middle = grid.largest + step / 2
    odd = grid.top & 1 or not grid.mantissa
    return np.float64(np.nextafter(np.float32(middle / step), np.float32(0)) * step if odd else middle)


@register_plan(BlockFP)
@register_plan(BlockMinifloat)
@register_plan(MXInt)
@register_plan(MXFP)
def power_blocks(fmt: PowerBlocks, dtype: torch.dtype) -> Plan | None:
    """Constants of the loops (kernels.fake_quant.loops.blocks); the step for each exponent of the largest magnitude is
    stored for codes."""
    grid, blocks = fmt.grid, fmt.blocks
    if grid.mantissa > 22:
        return None
    scales, infinity, shift = scale_table(fmt), most_pattern(dtype), 23 - grid.mantissa
    if grid.top < 2 ** (grid.mantissa + 1):
        lowest_exponent = grid.e_min - grid.mantissa
        step = scales + lowest_exponent
        valid = (scales < UNKNOWN) & (step >= LEAST) & (step <= HIGHEST - 1) & (scales < HIGHEST)
        line = _line(step, valid)
        constants = (
            infinity,
            np.float32(saturated(grid.top, dtype)),
            np.float32(np.ldexp(_last(grid), -lowest_exponent)),
        )
        table = np.ascontiguousarray(_powers(-step, valid)[:, None])
        return None if line is None else Plan("fixed_blocks", (*constants, *line), blocks, table=table)
    lowest = max(LEAST - grid.e_min, LEAST)
    valid = (scales >= lowest) & (scales <= min(HIGHEST - 1 - _top_exponent(grid) - shift, HIGHEST))
    line = _line(scales, valid)
    largest = np.float32(saturated(grid.largest, dtype))
    if line is None:
        return None
    constants = (infinity, np.int32(shift), np.float32(_last(grid)), *line)
    return Plan("float_blocks", (*constants, np.float32(2.0**grid.e_min), largest), blocks)


def _line(exponents: Table, valid: Table) -> tuple[np.int32, ...] | None:
    """Summand and limits of the exponent, and the range of the largest magnitude, as patterns. None if
    the valid exponents are not on such a line."""
    rows = np.flatnonzero(valid[2:])  # from 2^−126 on
    if not rows.size:
        return None
    line_exponents, tops = exponents[2:][rows], rows + 1
    low, high = int(line_exponents.min()) + 127, int(line_exponents.max()) + 127
    inner = (
        (line_exponents + 127 > low) & (line_exponents + 127 < high) if high > low + 1 else line_exponents + 127 == high
    )
    add = int((line_exponents + 127 - tops)[inner][0])
    if (
        low < 1
        or add > 0
        or not (line_exponents + 127 == np.clip(tops + add, low, high)).all()
        or (np.diff(rows) != 1).any()
    ):
        return None
    ends = (int(tops[0]) << 23, (int(tops[-1]) << 23) | 0x7FFFFF)
    return tuple(np.int32(v) for v in (add * 2**23, low << 23, high << 23, *ends))


def _powers(exponents: Table, valid: Table) -> Table:
    """2^e in float32, 0 for invalid entries."""
    return np.ldexp(valid.astype(np.float32), np.where(valid, exponents, 0)).astype(np.float32)


def saturates(fmt: Format, largest: float, dtype: torch.dtype) -> bool:
    """Whether infinity becomes the format's largest value; False if the largest number of `dtype` rounds to less."""
    import torch

    largest_input = torch.finfo(dtype).max
    return (
        fmt.define(torch.tensor(torch.inf, dtype=dtype)).item()
        == torch.tensor(min(largest, largest_input)).to(dtype).item()
    )


def scale_table(fmt: PowerBlocks) -> Table:
    """Exponent of a block's scale by its largest magnitude: 0, denormal (left to the definition), then by exponent
    from −126 on."""
    tops = np.array([-1, LEAST, *range(LEAST, HIGHEST + 1)])
    table = np.asarray(fmt.scale_exponent(fmt.field_of(tops)), np.int64)
    table[1] = UNKNOWN
    return table
