"""Runs formats on CUDA tensors: Triton kernels that follow the definitions step by step, value and gate in one pass.

All values are handled: formats with ordinary ranges use fast arithmetic, others a slower exact path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from espalier.kernels.fake_quant import triton_kernels as kernels
from espalier.kernels.fake_quant.trusted import verified
from espalier.model.formats.base import Format
from espalier.model.formats.binary import Binary
from espalier.model.formats.binary_residual import BinaryResidual
from espalier.model.formats.binary_scaled import BinaryScaled
from espalier.model.formats.block_log import BlockLog
from espalier.model.formats.blocks import BlockFormat, PowerBlocks
from espalier.model.formats.integer import Integer
from espalier.model.formats.log import Log
from espalier.model.formats.minifloat_denorm import MinifloatDenorm
from espalier.model.formats.minifloat_ieee import MinifloatIEEE
from espalier.model.formats.nvfp4 import NVFP4, TINY
from espalier.model.formats.scaled import ROW, TENSOR, ScaledFormat, per_of
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.small_float import SmallFloat
from espalier.model.formats.stored_scale import tensor_scale as stored
from espalier.model.formats.ternary import Ternary

ELEMENTS = 2048  # elements per program
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
SPREAD = 16384  # elements per program of the search for the largest
ScaledLaunch = tuple[Any, tuple[Any, ...], dict[str, int]]


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel, its numbers and constants, and the largest magnitude that it computes before clamping to the dtype."""

    kernel: Any
    numbers: tuple[Any, ...]
    constants: Mapping[str, int] = field(default_factory=dict[str, int])
    extent: float = math.inf


def quantize(fmt: Format, x: Tensor, gated: bool, scale: Tensor | None = None) -> tuple[Tensor, Tensor | None] | None:
    """(value, gate if `gated`) of `x`; None for dtypes that only the definition supports."""
    if x.dtype not in DTYPES or type(x) not in (Tensor, torch.nn.Parameter) or not x.numel():
        return None
    if torch.compiler.is_compiling():
        return None
    run = _runner(fmt, gated, scale)
    if run is None or (x.is_cuda and not verified(fmt, x, gated, _runner(fmt, gated, None) or run)):
        return None
    return run(x.detach())


def _runner(fmt: Format, gated: bool, scale: Tensor | None) -> Callable[[Tensor], tuple[Tensor, Tensor | None]] | None:
    if isinstance(fmt, ScaledFormat):
        return partial(_scaled, fmt, gated=gated, scale=scale) if type(fmt) in SCALED else None
    launch = launch_of(fmt)
    return None if scale is not None or launch is None else partial(_run, fmt, launch, gated=gated)


def gated_gradient(grad: Tensor, gate: Tensor, exclusive: bool) -> Tensor:
    """grad·gate in torch, which is a single pass."""
    return grad * gate


def _run(fmt: Format, launch: Launch, x: Tensor, gated: bool) -> tuple[Tensor, Tensor | None]:
    cut = fmt.blocks if isinstance(fmt, BlockFormat) else None
    blocks = (x if cut is None else cut.split(x)).contiguous()
    words, out, gate = _buffers(blocks, gated)
    numbers = (tensor_scale(blocks),) if isinstance(fmt, NVFP4) else launch.numbers
    block = 1 if cut is None else cut.elements
    width = kernels.next_power_of_2(block)
    rows, count = max(ELEMENTS // width, 1), blocks.numel() // block
    grid = (-(-count // rows),)
    largest = torch.finfo(x.dtype).max
    launch.kernel[grid](*words, count, largest, *numbers, BLOCK=block, WIDTH=width, ROWS=rows, GATED=gated,
                        BOUND=launch.extent > largest, CHIP=x.is_cuda, **launch.constants)  # fmt: skip
    if cut is None:
        return out, gate
    shape = tuple(x.shape)
    return cut.merge(out, shape), None if gate is None else cut.merge(gate, shape)


def _buffers(x: Tensor, gated: bool) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor, Tensor | None]:
    """((input, output, gate) as integer words for a kernel, the value, the gate)."""
    out = torch.empty_like(x)
    gate = torch.empty(x.shape, dtype=torch.bool, device=x.device) if gated else None
    gate_buffer = x if gate is None else gate.view(torch.uint8)  # a kernel without a gate needs any valid pointer
    if x.dtype == torch.bfloat16:
        return (x.view(torch.int16), out.view(torch.int16), gate_buffer if gated else x.view(torch.int16)), out, gate
    return (x, out, gate_buffer), out, gate


def _scaled(fmt: ScaledFormat, x: Tensor, gated: bool, scale: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Quantise with a given scale, or with one computed by torch, whose sums are those of the definition."""
    contiguous = x.contiguous()
    kernel, constants, fixed = SCALED[type(fmt)](
        fmt, contiguous, (fmt.scale_of(contiguous) if scale is None else scale).detach()
    )
    words, out, gate = _buffers(contiguous, gated)
    count, largest = contiguous.numel(), torch.finfo(x.dtype).max
    columns, groups, per = _segments(fmt, tuple(x.shape))
    grid, cut = _partition(count, columns, groups, per)
    fixed = {**cut, "GATED": gated, "BOUND": True, "CHIP": x.is_cuda, **fixed}
    kernel[(grid,)](*words, count, largest, *constants, columns, groups, per, **fixed)
    return out, gate


def _partition(count: int, columns: int, groups: int, per: int) -> tuple[int, dict[str, int]]:
    """Grid and constants of a launch; whole segments need no integer divisions, which dominate the cost otherwise."""
    if columns % per == 0 and per <= ELEMENTS:
        width = kernels.next_power_of_2(per)
        rows = ELEMENTS // width
        return -(-count // (per * rows)), {"BLOCK": per, "WIDTH": width, "ROWS": rows, "CUT": 0}
    single = {"BLOCK": 1, "WIDTH": ELEMENTS, "ROWS": 1}
    if groups == 1:
        return count // columns * -(-columns // ELEMENTS), {**single, "CUT": 1}
    return -(-count // ELEMENTS), {**single, "CUT": 2}


def _segments(fmt: Any, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(elements per row, segments per row, elements per segment)."""
    per = fmt.per if isinstance(fmt, ScaledInteger) else per_of(fmt.granularity)
    row = math.prod(shape) if per == TENSOR else shape[-1] if shape else 1
    per = row if per in (TENSOR, ROW) else per
    return row, -(-row // per), per


def _flat(values: Tensor) -> Tensor:
    return values.float().contiguous().view(-1)


def _of_steps(fmt: ScaledInteger, x: Tensor, scale: Tensor) -> ScaledLaunch:
    """Stored scales, and the smallest and largest rne(x/s)."""
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
    levels = [_flat(alpha) for alpha in scale]
    return kernels.signs, (*levels, *[levels[0]] * (3 - len(levels)), 0.0), {"LEVELS": fmt.levels}


def _ternary(fmt: Ternary, x: Tensor, scale: Tensor) -> ScaledLaunch:
    return kernels.ternary, (_flat(fmt.delta(x)), _flat(scale)), {}


SCALED: dict[type[ScaledFormat], Callable[[Any, Tensor, Tensor], ScaledLaunch]] = {
    ScaledInteger: _of_steps,
    BinaryScaled: _one_sign,
    BinaryResidual: _some_signs,
    Ternary: _ternary,
}


def tensor_scale(x: Tensor) -> Tensor:
    """The tensor scale of nvfp4, computed in one pass and kept on the device."""
    bits = torch.zeros((), dtype=torch.int32, device=x.device)
    words = x.view(torch.int16) if x.dtype == torch.bfloat16 else x
    grid, largest = (-(-x.numel() // SPREAD),), torch.finfo(x.dtype).max
    kernels.largest[grid](words, bits, x.numel(), largest, WIDTH=ELEMENTS, STEPS=SPREAD // ELEMENTS)
    return (bits.view(torch.float32) / (6 * 448)).clamp(min=TINY)


def has_kernel(fmt: Format) -> bool:
    """Whether there is a Triton kernel for a format."""
    return type(fmt) in SCALED or launch_of(fmt) is not None


@lru_cache(maxsize=1024)
def launch_of(fmt: Format) -> Launch | None:
    """Kernel and constants of a format; None without a kernel."""
    maker = next((m for kind, m in MAKERS.items() if isinstance(fmt, kind)), None)
    return maker(fmt) if maker else None


def _integer(fmt: Integer) -> Launch | None:
    if fmt.width > 24:
        return None
    low, high = fmt.limits
    most16 = fmt._limits_in(torch.float16)  # pyright: ignore[reportPrivateUsage]
    numbers = (2.0**fmt.frac_width, 2.0**-fmt.frac_width, float(low), float(high), *map(float, most16))
    extent = max(-low, high) * 2.0**-fmt.frac_width
    if fmt.rounding == "floor":
        return Launch(kernels.integer_floor, numbers, extent=extent)
    quick = fmt.signed and 0 < most16[1] <= high < 2**22
    return Launch(kernels.integer, numbers, {"QUICK": quick}, extent)


def _grid(grid: SmallFloat, scaled: bool) -> tuple[tuple[Any, ...], dict[str, int]]:
    """Numbers and constants of a value set. QUICK if the rounding summand is a float32 that represents the step and,
    with
    `scaled`, half a step is normal, since the sum may be fused with the preceding product.
    """
    top = math.frexp(grid.largest)[1]  # the next power of two
    step = grid.e_min - grid.mantissa
    quick = grid.mantissa <= 21 and grid.e_min >= -126 and top + 23 - grid.mantissa <= 127
    quick = quick and step >= (-124 if scaled else -149)
    bound = 2.0**top if quick else 1.0
    fixed = quick and grid.largest < 2.0 ** (grid.e_min + 1)
    return (grid.e_min, grid.mantissa, grid.largest, bound), {"QUICK": quick, "FIXED": fixed}


def _small(fmt: MinifloatIEEE | MinifloatDenorm) -> Launch | None:
    return None if fmt.grid.wide else Launch(kernels.small_float, *_grid(fmt.grid, False), fmt.grid.largest)


def _log(fmt: Log) -> Launch | None:
    low, high = fmt.limits
    return Launch(kernels.power_of_two, (low, high), {"LIFT": low < -125}, 2.0**high)


def _binary(fmt: Binary) -> Launch | None:
    if fmt.stochastic:
        return None
    smallest = float(np.finfo(np.float32).smallest_subnormal)
    return Launch(kernels.above, (0.0, -1.0, 1.0) if fmt.bipolar else (smallest, 0.0, 1.0), extent=1.0)


def _power_blocks(fmt: PowerBlocks) -> Launch | None:
    grid = fmt.grid
    if grid.wide:
        return None
    # Fields are clipped sums, so both limits and the first exponent above the lower one determine them.
    exponents = np.asarray(fmt.scale_exponent(fmt.field_of(np.arange(-149, 128))))
    low, high = int(exponents.min()), int(exponents.max())
    first = int(np.argmax(exponents > low))
    shift = int(exponents[first]) - (first - 149)
    numbers, constants = _grid(grid, True)
    return Launch(kernels.small_float_blocks, (shift, low, high, *numbers), constants, grid.largest * 2.0**high)


def _block_log(fmt: BlockLog) -> Launch | None:
    top = min(fmt.top_code, 1000)  # beyond it, biases and exponents are at their limits
    return Launch(kernels.power_of_two_blocks, (top, 2**fmt.exponent_bias_width - 1), extent=2.0 ** min(top, 127))


def _nvfp4(fmt: NVFP4) -> Launch | None:
    return Launch(kernels.nvfp4, ())


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
