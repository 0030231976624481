"""Weights in an integer format with learned rounding offsets and range factors, as AutoRound has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from espalier.model.formats.base import Format
from espalier.model.formats.scaled import broadcast_scale, group_elements
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.stored_scale import LARGEST, SMALLEST_SCALE, tensor_scale

if TYPE_CHECKING:
    from espalier.model.torch.layers import Effective

LARGEST_OFFSET = 0.5


def is_learnable(fmt: Format) -> bool:
    """Whether a format has integer codes with a scale, and a zero point that is a code or 0."""
    return isinstance(fmt, ScaledInteger) or (isinstance(fmt, ScaledElement) and cast("ScaledElement", fmt).integer)


def _has_zero_point(fmt: Format) -> bool:
    return isinstance(fmt, ScaledInteger) and not cast("ScaledInteger", fmt).symmetric


class LearnedRounding(nn.Module):
    """W → s·(clip(⌊W/s + V⌉ + z, 0, n) − z), s = (α·max W − β·min W)/n, z = ⌊−β·min W/s⌉ (arXiv:2309.05516, eq. 3).

    In symmetric formats s = max(α·max W, −β·min W)/d with the format's d, and z = 0. V has the shape of the weight in
    the format's view, α and β one element per scale; gradients pass roundings unchanged. A scale that the format has
    already narrows the range that α and β multiply.
    """

    def __init__(self, effective: Effective, weight: Tensor, minmax: bool) -> None:
        super().__init__()
        fmt = cast("Format", effective.format)
        self.format = fmt
        self.effective = effective
        seen = effective.seen(weight.detach()).float()
        self.low, self.high = _range(fmt, seen, effective.scale)
        self.offset = nn.Parameter(torch.zeros_like(seen))
        self.shares = nn.Parameter(torch.ones(2, *self.low.shape), requires_grad=minmax)

    @property
    def parts(self) -> list[Tensor]:
        """The learned tensors: V, and (α, β)."""
        return [self.offset, self.shares]

    def restrict(self) -> None:
        """Clip V to ±0.5, α and β to 0…1."""
        self.offset.data.clamp_(-LARGEST_OFFSET, LARGEST_OFFSET)
        self.shares.data.clamp_(0, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The weight as the layer reads it, in its shape and dtype."""
        value = self.value(self.effective.seen(x.detach()).float())[0]
        value = value if self.effective.view is None else self.effective.view.back(value, x.shape)
        return value.to(x.dtype)

    def value(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """(the value of the weight in the format's view, the scale as the format is given it), both float32."""
        fmt: Any = self.format
        shape = tuple(seen.shape)
        low, high = self.low * self.shares[1], self.high * self.shares[0]
        if _has_zero_point(fmt):
            s = self._stored((high - low) / fmt.top)
            zero = _rounded(-low / s).clamp(0, fmt.top)
            scale, z = (broadcast_scale(v, fmt.per, shape) for v in (s, zero))
            codes = (_rounded(seen / scale + self.offset) + z).clamp(0, fmt.top)
            return scale * (codes - z), torch.stack([s, low])
        reach, lowest, highest = _symmetric(fmt)
        s = self._stored(torch.maximum(high, -low) / reach)
        scale = broadcast_scale(s, fmt.per, shape)
        return scale * _rounded(seen / scale + self.offset).clamp(lowest, highest), s

    def _stored(self, s: Tensor) -> Tensor:
        """`s` in the type that the format stores, with its gradient."""
        fmt: Any = self.format
        held = s.detach()
        if isinstance(fmt, ScaledInteger):
            held = tensor_scale(held, fmt.scale_dtype)
        else:
            held = held.clamp(SMALLEST_SCALE[fmt.scale_dtype], LARGEST).to(getattr(torch, fmt.scale_dtype)).float()
        return held + (s - s.detach())


def _rounded(x: Tensor) -> Tensor:
    """⌊x⌉ with the gradient of x."""
    return torch.round(x).detach() + (x - x.detach())


def _symmetric(fmt: Any) -> tuple[float, float, float]:
    """(d, smallest, largest code) of a symmetric format."""
    return (fmt.top, -fmt.top, fmt.top) if isinstance(fmt, ScaledInteger) else (fmt.reach, fmt.lowest, fmt.highest)


def _range(fmt: Any, seen: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor]:
    """Smallest and largest value of the elements that share a scale, at most 0 and at least 0."""
    groups = group_elements(seen, fmt.per)
    low, high = groups.amin(-1).clamp(max=0), groups.amax(-1).clamp(min=0)
    if scale is None:
        return low, high
    held = scale.detach().float()
    if _has_zero_point(fmt):
        ends = held[1], held[1] + fmt.top * held[0]
    else:
        reach = _symmetric(fmt)[0] * held
        ends = -reach, reach
    return torch.maximum(low, ends[0]).clamp(max=0), torch.minimum(high, ends[1]).clamp(min=0)
