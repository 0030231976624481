"""Modules that leave ONNX's own operators in an export: stored integers, and formats as QuantizeLinear and its inverse.

They hold only while a model is exported: torch itself gives zeros for them.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd as Convolution  # pyright: ignore[reportPrivateUsage]
from torch.onnx import ops as onnx_ops
from transformers.pytorch_utils import Conv1D

from espalier.model.formats.base import by_rule
from espalier.model.formats.integer import Integer
from espalier.model.formats.minifloat_ieee import MinifloatIEEE
from espalier.model.formats.scaled import ROW, TENSOR
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.stored_scale import tensor_scale
from espalier.model.graph.views import View
from espalier.model.torch.layers import Compressed, Effective
from espalier.passes.export.fusing.dynamic import DOMAIN, OPERATOR
from espalier.passes.export.grids import Grid
from espalier.passes.export.standalone import Rounded

OPSET = 21  # the first with 4-bit and 16-bit integers and blocks in QuantizeLinear
NIBBLES = ("int4", "uint4")
_CARRIER = {"int4": torch.int8, "uint4": torch.uint8}
_FLOAT8 = {(8, 4, "nan", 7): (17, torch.float8_e4m3fn), (8, 5, "inf", 15): (19, torch.float8_e5m2)}


class Dequantised(nn.Module):
    """Stored codes → the weight's values. Tensors of 4 bits end in `_int4` or `_uint4`, and are narrowed later."""

    def __init__(self, grid: Grid, shape: tuple[int, ...], view: View | None) -> None:
        super().__init__()
        carrier = _CARRIER.get(grid.dtype) or getattr(torch, grid.dtype)
        end = f"_{grid.dtype}" if grid.dtype in NIBBLES else ""
        self.shape, self.view = shape, view if grid.folded else None
        self.names = [f"codes{end}", "scale", *([f"zero{end}"] if grid.zero is not None else [])]
        self.register_buffer(self.names[0], torch.from_numpy(grid.codes).to(carrier))
        self.register_buffer("scale", torch.from_numpy(np.array(grid.scale, np.float32)))
        if grid.zero is not None:
            self.register_buffer(self.names[2], torch.from_numpy(np.array(grid.zero)).to(carrier))
        self.given: dict[str, Any] = {} if grid.axis is None else {"axis": grid.axis}
        self.given |= {"block_size": grid.block} if grid.block else {}
        self.turned = False

    def turn(self) -> None:
        """Hold a matrix transposed."""
        self.turned = True
        for name in self.names:
            held = getattr(self, name)
            setattr(self, name, held.t().contiguous() if held.dim() == 2 else held)
        if "axis" in self.given:
            self.given["axis"] = 1 - self.given["axis"]

    def forward(self, _: Tensor | None = None) -> Tensor:
        """The values, in the weight's own shape."""
        tensors = [getattr(self, n) for n in self.names]
        shape, view = list(tensors[0].shape), self.view
        value = onnx_ops.symbolic("DequantizeLinear", tensors, self.given, dtype=torch.float32, shape=shape,
                                  version=OPSET)  # fmt: skip
        return value if view is None else view.back(value, self.shape)


class StoredLayer(nn.Module):
    """A layer whose weight comes out of codes.

    Its bias is subtracted with its sign turned: one that is added, onnxruntime makes part of the product, and rounds it
    there to multiples of the scales of input and weight.
    """

    def __init__(self, layer: Compressed, weight: Dequantised, bias: Tensor | None) -> None:
        super().__init__()
        self.inner: Any = layer.inner
        self.stored = weight
        if isinstance(self.inner, nn.Linear) and weight.view is None:
            weight.turn()  # as [in, out], so that no operation stands between the codes and their product
        self.inner.weight = nn.Parameter(torch.empty(0), requires_grad=False)
        if bias is not None:
            self.inner.bias = nn.Parameter(bias, requires_grad=False)
        self.minus = self._minus()

    def _minus(self) -> nn.Parameter | None:
        """The bias with its sign turned, as it is laid over the result."""
        inner, bias = self.inner, cast("Tensor | None", getattr(self.inner, "bias", None))
        if bias is None or not isinstance(inner, nn.Linear | Convolution | Conv1D):
            return None
        spatial = len(inner.kernel_size) if isinstance(inner, Convolution) else 0
        self.inner.bias = None
        return nn.Parameter(-bias.detach().reshape(-1, *[1] * spatial), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """As the layer."""
        y = self._product(x, self.stored())
        return y if self.minus is None else y - self.minus

    def _product(self, x: Tensor, weight: Tensor) -> Tensor:
        if isinstance(self.inner, nn.Linear):
            return torch.matmul(x, weight if self.stored.turned else weight.t())
        if isinstance(self.inner, Conv1D):
            return torch.matmul(x, weight)
        return torch.func.functional_call(self.inner, {"weight": weight}, (x,))  # type: ignore[no-any-return]


class Clipped(nn.Module):
    """clip(round(x/s))·s by QuantizeLinear and DequantizeLinear, after a Clip where the whole numbers are too many."""

    def __init__(self, scale: float, low: int, high: int, zero: int = 0) -> None:
        super().__init__()
        kinds = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}
        ends = low + zero, high + zero
        self.kind = next(k for k, (least, most) in kinds.items() if least <= ends[0] and ends[1] <= most)
        self.clip = None if ends == kinds[self.kind] else (low * scale, high * scale)
        dtype = getattr(torch, self.kind)
        self.register_buffer("scale", torch.tensor(scale, dtype=torch.float32))
        self.register_buffer("zero", torch.tensor(zero, dtype=torch.int64).to(dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Any shape → the same shape and dtype."""
        y = x.float()
        y = y if self.clip is None else y.clamp(*self.clip)
        shape, given = list(x.shape), (cast("Tensor", self.scale), cast("Tensor", self.zero))
        dtype = getattr(torch, self.kind)
        codes = onnx_ops.symbolic("QuantizeLinear", (y, *given), dtype=dtype, shape=shape, version=OPSET)
        value = onnx_ops.symbolic("DequantizeLinear", (codes, *given), dtype=torch.float32, shape=shape, version=OPSET)
        return value.to(x.dtype)


class FromData(nn.Module):
    """A scaled integer whose scale the values give: the exporter's own operator, which `fusing.dynamic` replaces."""

    def __init__(self, *, rows: bool, symmetric: bool, top: int) -> None:
        super().__init__()
        self.given: dict[str, Any] = {"rows": int(rows), "symmetric": int(symmetric), "top": top}

    def equals(self, other: FromData | None) -> bool:
        """Whether both compute the same."""
        return other is not None and self.given == other.given

    def forward(self, x: Tensor) -> Tensor:
        """Any shape → the same shape and dtype."""
        kind = f"{DOMAIN}::{OPERATOR}"
        y = onnx_ops.symbolic(kind, (x.float(),), self.given, dtype=torch.float32, shape=list(x.shape), version=1)
        return y.to(x.dtype)


class FixedPoint(nn.Module):
    """An integer format as arithmetic: down instead of to the nearest, or more than 16 bits."""

    def __init__(self, fmt: Integer) -> None:
        super().__init__()
        self.fmt = fmt

    def forward(self, x: Tensor) -> Tensor:
        """Any shape → the same shape and dtype."""
        fmt = self.fmt
        work = x.to(torch.float64 if fmt.width > 24 or x.dtype == torch.float64 else torch.float32)
        steps = work * 2.0**fmt.frac_width
        rounded = torch.floor(steps) if fmt.rounding == "floor" else torch.round(steps)
        return (rounded.clamp(*fmt.limits) * 2.0**-fmt.frac_width).to(x.dtype)


class Float8(nn.Module):
    """There and back through one of ONNX's floats of 8 bits."""

    def __init__(self, code: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.code, self.dtype = code, dtype

    def forward(self, x: Tensor) -> Tensor:
        """Any shape → the same shape and dtype."""
        given: dict[str, Any] = {"to": self.code, "saturate": 1}
        narrow = onnx_ops.symbolic("Cast", (x.float(),), given, dtype=self.dtype, shape=list(x.shape), version=OPSET)
        back = onnx_ops.symbolic("Cast", (narrow,), {"to": 1}, dtype=torch.float32, shape=list(x.shape), version=OPSET)
        return back.to(x.dtype)


def activation(held: Effective) -> nn.Module:
    """What an activation's format is in ONNX: its own operators where they are equal, else the definition traced."""
    found = None if held.mask is not None or held.rule is not None else _native(held)
    return found or Rounded(held)


def from_data(held: Effective, *, runtime: bool) -> FromData | None:
    """The operator of an 8-bit scaled integer with scales from the data; None where it has none.

    `runtime`: as DynamicQuantizeLinear takes them, for the whole tensor and without symmetry.
    """
    fmt: Any = held.format
    if not isinstance(fmt, ScaledInteger) or held.scale is not None or held.mask is not None or held.rule is not None:
        return None
    if runtime and fmt.width == 8:
        return FromData(rows=False, symmetric=False, top=255)
    if fmt.width > 8 or fmt.scale_dtype != "float32" or fmt.per not in (TENSOR, ROW):
        return None
    if fmt.per == ROW and held.view is not None:
        return None
    if not fmt.symmetric and (fmt.per != TENSOR or fmt.width != 8):
        return None
    return FromData(rows=fmt.per == ROW, symmetric=fmt.symmetric, top=fmt.top)


def _native(held: Effective) -> nn.Module | None:
    match by_rule(held.format):
        case Integer() as fmt if fmt.rounding == "nearest_even" and fmt.width <= 16:
            return Clipped(math.ldexp(1.0, -fmt.frac_width), *fmt.limits)
        case Integer() as fmt:
            return FixedPoint(fmt)
        case ScaledInteger() as fmt if held.scale is not None and fmt.per == TENSOR:
            return _scaled(fmt, held.scale.detach())
        case MinifloatIEEE() as fmt:
            known = _FLOAT8.get((fmt.width, fmt.exponent_width, fmt.reserved, fmt.bias))
            return Float8(*known) if known else None
        case _:
            return None


def _scaled(fmt: ScaledInteger, scale: Tensor) -> Clipped:
    if fmt.symmetric:
        return Clipped(float(tensor_scale(scale, fmt.scale_dtype)), -fmt.top, fmt.top)
    s = tensor_scale(scale[0], fmt.scale_dtype)
    zero = int(torch.round(-scale[1].float() / s).clamp(0, fmt.top))
    return Clipped(float(s), -zero, fmt.top - zero, zero)
