"""Weights as MX codes, by the plain definition, and a Linear on them. Fast implementations: `fast_mx`."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espalier.model.errors import FormatError
from espalier.model.formats.mxint import MXInt
from espalier.model.formats.small_float import exponent, times_power
from espalier.model.graph.graph import Node
from espalier.model.graph.ports import choice
from espalier.model.torch.fast_mx import PRODUCTS, VALUES, MXWeight

WIDTHS = (4, 8)


def fits(fmt: Any) -> bool:
    """Whether weights in this format can be stored as codes."""
    return isinstance(fmt, MXInt) and fmt.width in WIDTHS and fmt.rows == 1


def why_unpacked(node: Node) -> str:
    """Why a node's weight cannot be packed; empty if it can."""
    chosen = choice(node, "weight")
    checks = (
        (node.call != "call_module" or node.attrs.get("class") != "Linear", "it is not a Linear"),
        (chosen is None, "its weight is in float"),
        (chosen is not None and not fits(chosen.format), "its weight is not in mxint of 4 or 8 bits in rows"),
        (bool(node.adapters), "it has an adapter; fuse it first"),
    )
    return next((reason for holds, reason in checks if holds), "")


def packed(fmt: MXInt, weight: Tensor, node: str | None = None) -> MXWeight:
    """`weight` [rows, columns] as codes of a format of 4 or 8 bits, exact for the format's values.

    Raises FormatError for another format and for NaN; `node`: for the error.
    """
    if not fits(fmt):
        raise FormatError(f"Weights in {fmt} cannot be packed.", "Give them mxint of 4 or 8 bits, in rows.")
    rows, columns = weight.shape
    value = fmt.forward(weight.detach().float())
    if value.isnan().any():
        text = f"{int(value.isnan().sum())} of the weights are NaN, which {fmt.label} cannot represent."
        raise FormatError(text, "Leave this weight in float, or undo the training that diverged.", node)
    blocks = fmt.blocks.split(value).reshape(rows, -1, fmt.block)
    # Clipping may round a block's largest value down, but never below its binade, so exponents are unchanged.
    stored = (exponent(blocks.abs().amax(-1)) + 127).clamp(0, 254)
    codes = times_power(blocks, (127 + fmt.width - 2 - stored)[..., None]).reshape(rows, -1)[:, :columns]
    codes = codes.to(torch.int8)
    stored_codes = codes if fmt.width == 8 else _nibbles(codes)
    return MXWeight(stored_codes.contiguous(), stored.to(torch.uint8).contiguous(), columns, fmt.width, fmt.block)


def _nibbles(codes: Tensor) -> Tensor:
    """Two codes of 4 bits per byte."""
    even = F.pad(codes, (0, codes.shape[1] % 2)).view(torch.uint8) & 15
    return even[:, 0::2] | (even[:, 1::2] << 4)


def unpacked_codes(weight: MXWeight) -> Tensor:
    """The codes, int8 [rows, columns]."""
    if weight.width == 8:
        return weight.codes
    low, high = weight.codes << 4, weight.codes & 240
    both = torch.stack((low, high), -1).reshape(weight.rows, -1)[:, : weight.columns]
    return both.view(torch.int8) >> 4 if both.is_contiguous() else both.contiguous().view(torch.int8) >> 4


def plain(weight: MXWeight, dtype: torch.dtype) -> Tensor:
    """The values [rows, columns], contiguous, as products depend on strides; clamped to the range of float16."""
    e = weight.exponents.int() - (127 + weight.width - 2)
    codes = F.pad(unpacked_codes(weight), (0, -weight.columns % weight.block)).reshape(weight.rows, -1, weight.block)
    result = times_power(codes.float(), e[..., None]).reshape(weight.rows, -1)[:, : weight.columns]
    highest = torch.finfo(dtype).max
    result = result.clamp(-highest, highest).to(dtype) if dtype == torch.float16 else result.to(dtype)
    return result.contiguous()


def values(weight: MXWeight, dtype: torch.dtype) -> Tensor:
    """The values, by the fast implementation of the device; under torch.compile by the definition, which it fuses."""
    fast = None if torch.compiler.is_compiling() else VALUES.find(weight.codes.device.type)
    return (fast or plain)(weight, dtype)


def product(x: Tensor, weight: MXWeight, bias: Tensor | None = None) -> Tensor:
    """x·Wᵀ + b over the last dimension of x; without a fast implementation, bit for bit a Linear over the values."""
    fast = None if torch.compiler.is_compiling() else PRODUCTS.find(x.device.type)
    return fast(x, weight, bias) if fast else F.linear(x, values(weight, x.dtype), bias)


class MXLinear(nn.Module):
    """A Linear whose weight is stored as MX codes and exponents; it cannot train."""

    codes: Tensor
    exponents: Tensor
    bias: Tensor | None

    def __init__(self, weight: MXWeight, bias: Tensor | None = None) -> None:
        super().__init__()
        self.columns, self.width, self.block = weight.columns, weight.width, weight.block
        self.register_buffer("codes", weight.codes)
        self.register_buffer("exponents", weight.exponents)
        plain_tensor = isinstance(bias, Tensor) and not isinstance(bias, nn.Parameter)  # `to` would not move it
        self.bias = nn.Parameter(bias, requires_grad=False) if plain_tensor and bias is not None else bias

    @property
    def packed(self) -> MXWeight:
        """The stored weight."""
        return MXWeight(self.codes, self.exponents, self.columns, self.width, self.block)

    def forward(self, x: Tensor) -> Tensor:
        """x·Wᵀ + b."""
        return product(x, self.packed, self.bias)

    def extra_repr(self) -> str:
        """For print(model)."""
        return f"in_features={self.columns}, out_features={self.codes.shape[0]}, mxint{self.width}/{self.block}"
