"""Runs formats on CUDA tensors: Triton kernels that follow the definitions step by step, value and gate in one pass.

A GPU waits for memory, so exactness costs nothing here: no case is left to the definition for its extremes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.fake_quant import triton_kernels as kernels
from model.formats.base import Format
from model.formats.binary import Binary
from model.formats.block_log import BlockLog
from model.formats.blocks import BlockFormat, PowerBlocks
from model.formats.integer import Integer
from model.formats.log import Log
from model.formats.minifloat_denorm import MinifloatDenorm
from model.formats.minifloat_ieee import MinifloatIEEE
from model.formats.nvfp4 import NVFP4, TINY

ELEMENTS = 2048  # of one program
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
Launch = tuple[Any, tuple[Any, ...]]


def quantized(fmt: Format, x: Tensor, gated: bool, scale: Tensor | None = None) -> tuple[Tensor, Tensor | None] | None:
    """(value, gate if `gated`) of `x`; None where only the definition will do: other dtypes, given scales."""
    if scale is not None or x.dtype not in DTYPES or type(x) not in (Tensor, torch.nn.Parameter) or not x.numel():
        return None
    launch = launch_of(fmt)
    if launch is None or torch.compiler.is_compiling():
        return None
    return _run(fmt, launch, x.detach(), gated)


def passed(grad: Tensor, gate: Tensor) -> Tensor:
    """grad·gate: one pass already."""
    return grad * gate


def _run(fmt: Format, launch: Launch, x: Tensor, gated: bool) -> tuple[Tensor, Tensor | None]:
    cut = fmt.blocks if isinstance(fmt, BlockFormat) else None
    seen = (x if cut is None else cut.split(x)).contiguous()
    out = torch.empty_like(seen)
    gate = torch.empty(seen.shape, dtype=torch.bool, device=x.device) if gated else None
    kernel, constants = launch
    if isinstance(fmt, NVFP4):
        constants = (tensor_scale(seen),)
    block = 1 if cut is None else cut.elements
    width = kernels.next_power_of_2(block)
    rows, count = max(ELEMENTS // width, 1), seen.numel() // block
    grid = (-(-count // rows),)
    held = seen if gate is None else gate.view(torch.uint8)  # a kernel without gate needs some pointer
    most = torch.finfo(x.dtype).max
    if x.dtype == torch.bfloat16:
        words = seen.view(torch.int16), out.view(torch.int16), held if gated else seen.view(torch.int16)
    else:
        words = seen, out, held
    kernel[grid](*words, count, most, *constants, BLOCK=block, WIDTH=width, ROWS=rows, GATED=gated)
    if cut is None:
        return out, gate
    shape = tuple(x.shape)
    return cut.merge(out, shape), None if gate is None else cut.merge(gate, shape)


def tensor_scale(x: Tensor) -> Tensor:
    """nvfp4's scale of the tensor, left on the device."""
    top = torch.nan_to_num(x.abs().float(), nan=0.0, posinf=torch.finfo(x.dtype).max).amax()
    return (top / (6 * 448)).clamp(min=TINY)


@lru_cache(maxsize=1024)
def launch_of(fmt: Format) -> Launch | None:
    """Kernel and constants of a format; None where it has none."""
    maker = next((m for kind, m in MAKERS.items() if isinstance(fmt, kind)), None)
    return maker(fmt) if maker else None


def _integer(fmt: Integer) -> Launch | None:
    if fmt.width > 24:
        return None
    low, high = fmt.limits
    most16 = fmt._limits_in(torch.float16)  # pyright: ignore[reportPrivateUsage]
    constants = (2.0**fmt.frac_width, 2.0**-fmt.frac_width, float(low), float(high), *map(float, most16))
    return kernels.integer_floor if fmt.rounding == "floor" else kernels.integer, constants


def _small(fmt: MinifloatIEEE | MinifloatDenorm) -> Launch | None:
    grid = fmt.grid
    return None if grid.wide else (kernels.small_float, (grid.e_min, grid.mantissa, grid.largest))


def _log(fmt: Log) -> Launch | None:
    return kernels.power_of_two, fmt.limits


def _binary(fmt: Binary) -> Launch | None:
    if fmt.stochastic:
        return None
    smallest = float(np.finfo(np.float32).smallest_subnormal)
    return kernels.above, (0.0, -1.0, 1.0) if fmt.bipolar else (smallest, 0.0, 1.0)


def _power_blocks(fmt: PowerBlocks) -> Launch | None:
    grid = fmt.grid
    if grid.wide:
        return None
    # Fields are clipped sums: both limits and the first point above the lower one tell them.
    exponents = np.asarray(fmt.scale_exponent(fmt.field_of(np.arange(-149, 128))))
    low, high = int(exponents.min()), int(exponents.max())
    first = int(np.argmax(exponents > low))
    shift = int(exponents[first]) - (first - 149)
    return kernels.small_float_blocks, (shift, low, high, grid.e_min, grid.mantissa, grid.largest)


def _block_log(fmt: BlockLog) -> Launch | None:
    return kernels.power_of_two_blocks, (fmt.top_code, 2**fmt.exponent_bias_width - 1)


def _nvfp4(fmt: NVFP4) -> Launch | None:
    return kernels.nvfp4, ()


MAKERS: dict[type[Format], Callable[[Any], Launch | None]] = {
    Integer: _integer,
    MinifloatIEEE: _small,
    MinifloatDenorm: _small,
    Log: _log,
    Binary: _binary,
    PowerBlocks: _power_blocks,
    BlockLog: _block_log,
    NVFP4: _nvfp4,
}
