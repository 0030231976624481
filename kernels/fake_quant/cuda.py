"""Runs formats on CUDA tensors: Triton kernels that follow the definitions step by step, value and gate in one pass.

A GPU waits for memory, so exactness costs nothing here: no case is left to the definition for its extremes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.fake_quant import triton_kernels as kernels
from model.formats.base import Format
from model.formats.binary import Binary
from model.formats.binary_residual import BinaryResidual
from model.formats.binary_scaled import BinaryScaled
from model.formats.block_log import BlockLog
from model.formats.blocks import BlockFormat, PowerBlocks
from model.formats.integer import Integer
from model.formats.log import Log
from model.formats.minifloat_denorm import MinifloatDenorm
from model.formats.minifloat_ieee import MinifloatIEEE
from model.formats.nvfp4 import NVFP4, TINY
from model.formats.scaled import ROW, TENSOR, ScaledFormat, per_of
from model.formats.scaled_integer import ScaledInteger
from model.formats.stored_scale import tensor_scale as stored
from model.formats.ternary import Ternary

ELEMENTS = 2048  # of one program
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
Launch = tuple[Any, tuple[Any, ...]]
ScaledLaunch = tuple[Any, tuple[Any, ...], dict[str, int]]


def quantized(fmt: Format, x: Tensor, gated: bool, scale: Tensor | None = None) -> tuple[Tensor, Tensor | None] | None:
    """(value, gate if `gated`) of `x`; None where only the definition will do: other dtypes."""
    if x.dtype not in DTYPES or type(x) not in (Tensor, torch.nn.Parameter) or not x.numel():
        return None
    if torch.compiler.is_compiling():
        return None
    if isinstance(fmt, ScaledFormat):
        return _scaled(fmt, x.detach(), gated, scale)
    launch = launch_of(fmt)
    if scale is not None or launch is None:
        return None
    return _run(fmt, launch, x.detach(), gated)


def passed(grad: Tensor, gate: Tensor) -> Tensor:
    """grad·gate: one pass already."""
    return grad * gate


def _run(fmt: Format, launch: Launch, x: Tensor, gated: bool) -> tuple[Tensor, Tensor | None]:
    cut = fmt.blocks if isinstance(fmt, BlockFormat) else None
    seen = (x if cut is None else cut.split(x)).contiguous()
    words, out, gate = _places(seen, gated)
    kernel, constants = launch
    if isinstance(fmt, NVFP4):
        constants = (tensor_scale(seen),)
    block = 1 if cut is None else cut.elements
    width = kernels.next_power_of_2(block)
    rows, count = max(ELEMENTS // width, 1), seen.numel() // block
    grid = (-(-count // rows),)
    most = torch.finfo(x.dtype).max
    kernel[grid](*words, count, most, *constants, BLOCK=block, WIDTH=width, ROWS=rows, GATED=gated)
    if cut is None:
        return out, gate
    shape = tuple(x.shape)
    return cut.merge(out, shape), None if gate is None else cut.merge(gate, shape)


def _places(seen: Tensor, gated: bool) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor, Tensor | None]:
    """What a kernel reads and writes, as it takes it; the value, and the gate."""
    out = torch.empty_like(seen)
    gate = torch.empty(seen.shape, dtype=torch.bool, device=seen.device) if gated else None
    held = seen if gate is None else gate.view(torch.uint8)  # a kernel without gate needs some pointer
    if seen.dtype == torch.bfloat16:
        return (seen.view(torch.int16), out.view(torch.int16), held if gated else seen.view(torch.int16)), out, gate
    return (seen, out, held), out, gate


def _scaled(fmt: ScaledFormat, x: Tensor, gated: bool, scale: Tensor | None) -> tuple[Tensor, Tensor | None] | None:
    """Under a given scale, or the tensor's own, which torch finds: its sums are those of the definition."""
    maker = SCALED.get(type(fmt))
    if maker is None:
        return None
    seen = x.contiguous()
    kernel, constants, fixed = maker(fmt, seen, (fmt.scale_of(seen) if scale is None else scale).detach())
    words, out, gate = _places(seen, gated)
    count, most = seen.numel(), torch.finfo(x.dtype).max
    constants = (*constants, *_stretches(fmt, tuple(x.shape)))
    fixed = {"BLOCK": 1, "WIDTH": 1, "ROWS": ELEMENTS, "GATED": gated, **fixed}
    kernel[(-(-count // ELEMENTS),)](*words, count, most, *constants, **fixed)
    return out, gate


def _stretches(fmt: Any, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Elements of a row, stretches with a scale in it, and elements of one."""
    per = fmt.per if isinstance(fmt, ScaledInteger) else per_of(fmt.granularity)
    row = math.prod(shape) if per == TENSOR else shape[-1] if shape else 1
    per = row if per in (TENSOR, ROW) else per
    return row, -(-row // per), per


def _flat(values: Tensor) -> Tensor:
    return values.float().contiguous().view(-1)


def _of_steps(fmt: ScaledInteger, x: Tensor, scale: Tensor) -> ScaledLaunch:
    """Scales as they are stored, and the smallest and largest rne(x/s)."""
    if fmt.symmetric:
        s = _flat(stored(scale, fmt.scale_dtype))
        return kernels.steps, (s, torch.full_like(s, -fmt.top), torch.full_like(s, fmt.top)), {}
    s = stored(scale[0], fmt.scale_dtype)
    zero = torch.round(-scale[1].float() / s).clamp(0, fmt.top)
    return kernels.steps, (_flat(s), _flat(-zero), _flat(fmt.top - zero)), {}


def _one_sign(fmt: BinaryScaled, x: Tensor, scale: Tensor) -> ScaledLaunch:
    alpha = _flat(scale)
    return kernels.signs, (alpha, alpha, alpha, -0.0), {"LEVELS": 1}


def _some_signs(fmt: BinaryResidual, x: Tensor, scale: Tensor) -> ScaledLaunch:
    held = [_flat(alpha) for alpha in scale]
    return kernels.signs, (*held, *[held[0]] * (3 - len(held)), 0.0), {"LEVELS": fmt.levels}


def _three(fmt: Ternary, x: Tensor, scale: Tensor) -> ScaledLaunch:
    return kernels.three, (_flat(fmt.delta(x)), _flat(scale)), {}


SCALED: dict[type[ScaledFormat], Callable[[Any, Tensor, Tensor], ScaledLaunch]] = {
    ScaledInteger: _of_steps,
    BinaryScaled: _one_sign,
    BinaryResidual: _some_signs,
    Ternary: _three,
}


def tensor_scale(x: Tensor) -> Tensor:
    """nvfp4's scale of the tensor, left on the device."""
    top = torch.nan_to_num(x.abs().float(), nan=0.0, posinf=torch.finfo(x.dtype).max).amax()
    return (top / (6 * 448)).clamp(min=TINY)


def has_kernel(fmt: Format) -> bool:
    """Whether a kernel of ours computes a format."""
    return type(fmt) in SCALED or launch_of(fmt) is not None


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
