"""Modules that leave torch's operators of whole numbers in an export: the patterns that ExecuTorch's XNNPACK reads."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from espalier.model.formats.base import by_rule
from espalier.model.formats.integer import Integer
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.stored_scale import tensor_scale
from espalier.model.torch.layers import Compressed, Effective
from espalier.passes.export.grids import Grid, grid_of
from espalier.passes.export.standalone import Rounded, baked, fixed
from espalier.passes.export.targets.executorch import BITS, CODES, fits, from_rows

LOW, HIGH = -128, 127  # codes of int8
NARROW = -8, 7  # codes by which XNNPACK knows 4 bits
importlib.import_module("torch.ao.quantization.fx._decomposed")  # registers the operators
DECOMPOSED: Any = torch.ops.quantized_decomposed


class Static(nn.Module):
    """clip(rne(x/s), low, high)·s as int8 codes; clipped before where the ends of int8 are not those of the format."""

    def __init__(self, scale: float, low: int, high: int) -> None:
        super().__init__()
        self.scale = scale
        self.zero = 0 if low >= LOW and high <= HIGH else LOW - low
        ends = low + self.zero, high + self.zero
        self.clip = None if ends == (LOW, HIGH) else (low * scale, high * scale)

    def forward(self, x: Tensor) -> Tensor:
        """Any shape → the same shape and dtype."""
        y = x.float()
        y = y if self.clip is None else nn.functional.hardtanh(y, *self.clip)
        given = self.scale, self.zero, LOW, HIGH, torch.int8
        codes = DECOMPOSED.quantize_per_tensor.default(y, *given)
        return cast("Tensor", DECOMPOSED.dequantize_per_tensor.default(codes, *given)).to(x.dtype)


class Rows(nn.Module):
    """8 bits without symmetry, with a scale of each row from the data: XNNPACK computes it within its product."""

    def forward(self, x: Tensor) -> Tensor:
        """(…, row) → the same shape."""
        scale, zero = DECOMPOSED.choose_qparams_per_token_asymmetric.default(x, torch.int8)
        given = scale, zero, LOW, HIGH, torch.int8
        codes = DECOMPOSED.quantize_per_token.default(x, *given)
        return cast("Tensor", DECOMPOSED.dequantize_per_token.default(codes, *given, torch.float32))


@dataclass(frozen=True, slots=True)
class Codes:
    """A weight with its outputs first: int8 codes, of 4 or 8 bits, and scales (outputs) or (outputs, groups)."""

    codes: Tensor
    scale: Tensor
    bits: int
    group: int = 0


class StoredLayer(nn.Module):
    """A linear layer or convolution whose weight comes out of codes."""

    def __init__(self, layer: Compressed, weight: Codes, bias: Tensor | None) -> None:
        super().__init__()
        self.inner: Any = layer.inner
        self.inner.weight = None
        if bias is not None:
            self.inner.bias = nn.Parameter(bias, requires_grad=False)
        self.group, self.ends = weight.group, NARROW if weight.bits == BITS[0] else (LOW, HIGH)
        self.register_buffer(CODES, weight.codes)
        self.register_buffer("scale", weight.scale)
        self.register_buffer(
            "zero", torch.zeros(weight.scale.shape, dtype=torch.int32 if weight.group else torch.int64)
        )

    def weight(self) -> Tensor:
        """The values, outputs first."""
        codes, scale, zero = getattr(self, CODES), self.scale, self.zero
        if self.group:
            given = *self.ends, torch.int8, self.group, torch.float32
            return cast("Tensor", DECOMPOSED.dequantize_per_channel_group.default(codes, scale, zero, *given))
        return cast("Tensor", DECOMPOSED.dequantize_per_channel.default(codes, scale, zero, 0, *self.ends, torch.int8))

    def forward(self, x: Tensor) -> Tensor:
        """As the layer."""
        if isinstance(self.inner, nn.Linear | Conv1D):
            return nn.functional.linear(x, self.weight(), self.inner.bias)
        return torch.func.functional_call(self.inner, {"weight": self.weight()}, (x,))  # type: ignore[no-any-return]


# -- what stands for a format


def activation(held: Effective) -> nn.Module:
    """What an activation's format is in the file; its definition for one that only prunes."""
    if held.mask is None and held.rule is None:
        match by_rule(held.format):
            case Integer() as fmt:
                return Static(2.0**-fmt.frac_width, *fmt.limits)
            case ScaledInteger() as fmt if held.scale is not None:
                return _scaled(fmt, held.scale.detach())
            case ScaledInteger() as fmt if from_rows(fmt):
                return Rows()
            case _:
                pass
    return Rounded(held)


def _scaled(fmt: ScaledInteger, scale: Tensor) -> Static:
    if fmt.symmetric:
        return Static(float(tensor_scale(scale, fmt.scale_dtype)), -fmt.top, fmt.top)
    s = tensor_scale(scale[0], fmt.scale_dtype)
    zero = int(torch.round(-scale[1].float() / s).clamp(0, fmt.top))
    return Static(float(s), -zero, fmt.top - zero)


def leaf(layer: Compressed) -> nn.Module:
    """A layer whose weight lies in the file in whole numbers, where its format gives such."""
    inner = layer.inner
    held = cast("Effective", layer.effective["weight"]) if "weight" in layer.effective else None
    value = fixed(layer, "weight") if held is not None else None
    if held is None or held.format is None or value is None or value.dtype != torch.float32:
        return baked(layer)
    if not isinstance(inner, nn.Linear | Conv1D | nn.Conv1d | nn.Conv2d):
        return baked(layer)
    scale = None if held.scale is None else held.scale.detach().numpy()
    with torch.no_grad():
        source = held.seen(cast("Tensor", inner.weight).detach())
    grid = grid_of(value.numpy(), source.numpy(), held.format, held.view, scale)
    found = None if grid is None else _codes(grid, tuple(value.shape), turned=isinstance(inner, Conv1D))
    if found is None:
        return baked(layer)
    return StoredLayer(layer, found, fixed(layer, "bias") if "bias" in layer.effective else None)


def _codes(grid: Grid, shape: tuple[int, ...], *, turned: bool) -> Codes | None:
    """A grid as XNNPACK reads it; None where it does not. `turned`: the tensor has its outputs last."""
    codes, scale, axis = grid.codes.astype(np.int64), np.asarray(grid.scale, np.float32), grid.axis
    if grid.zero is not None:
        codes = codes - _spread(np.asarray(grid.zero, np.int64), grid)
    if grid.folded:
        codes = codes.reshape(shape)
    if turned:
        codes, scale, axis = codes.T, scale.T, None if axis is None else 1 - axis
    if axis != (None if not scale.ndim else scale.ndim - 1):
        return None
    even = codes.shape[-1] % 2 == 0  # with inputs by row, ExecuTorch 1.5.1 misreads 4-bit rows of an odd length
    widths = BITS if even else BITS[1:]
    bits = next((b for b in widths if -(2 ** (b - 1)) <= codes.min() and codes.max() < 2 ** (b - 1)), None)
    if bits is None or (grid.block and not fits(grid.block, codes.shape[-1], bits)):
        return None
    scale = np.where(scale == 0, np.float32(1), scale)  # codes are zero there, and XNNPACK takes no scale of zero
    tensor = torch.from_numpy(np.ascontiguousarray(scale)).expand(codes.shape[0], *scale.shape[1:]).contiguous()
    if grid.block and not torch.equal(tensor.bfloat16().float(), tensor):
        return None
    return Codes(torch.from_numpy(np.ascontiguousarray(codes)).to(torch.int8), tensor, bits, grid.block)


def _spread(zero: Any, grid: Grid) -> Any:
    """Zero points over the codes that they belong to."""
    if grid.axis is None:
        return zero
    if grid.block:
        kept = [slice(None)] * grid.codes.ndim
        kept[grid.axis] = slice(grid.codes.shape[grid.axis])
        return np.repeat(zero, grid.block, axis=grid.axis)[tuple(kept)]
    return zero.reshape([-1 if i == grid.axis else 1 for i in range(grid.codes.ndim)])
