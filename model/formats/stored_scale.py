"""Positive scales in their stored dtype (16-bit ones rounded up so that nothing clips) and their bit patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from espalier.model.formats.base import Array, Shared

if TYPE_CHECKING:
    from torch import Tensor

ScaleType = Literal["float32", "bfloat16", "float16"]
SCALE_BITS: dict[str, int] = {"float32": 32, "bfloat16": 16, "float16": 16}
LARGEST = float(np.finfo(np.float32).max)
# A scale is never 0, as all-zero rows are divided by it.
# Normal numbers in float32: training flushes denormals to 0, and x/0 is NaN.
SMALLEST_SCALE: dict[str, float] = {"float32": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-24}
_LARGEST_SCALE: dict[str, float] = {"float32": LARGEST, "bfloat16": (2 - 2.0**-7) * 2.0**127, "float16": 65504.0}


def tensor_scale(scale: Tensor, dtype: ScaleType) -> Tensor:
    """The smallest positive value of `dtype` that is at least `scale`, as float32."""
    import torch

    clamped = scale.float().clamp(SMALLEST_SCALE[dtype], _LARGEST_SCALE[dtype])
    if dtype == "float32":
        return clamped
    nearest = clamped.to(getattr(torch, dtype))
    above = (nearest.view(torch.int16) + 1).view(
        nearest.dtype
    )  # the next number: positive floats are ordered as their bit patterns
    return torch.where(nearest.float() < clamped, above, nearest).float()


def array_scale(scale: Array, dtype: ScaleType) -> Array:
    """As `tensor_scale`, with numpy only."""
    clamped = np.asarray(
        np.clip(np.asarray(scale, np.float32), np.float32(SMALLEST_SCALE[dtype]), np.float32(_LARGEST_SCALE[dtype]))
    )
    if dtype == "bfloat16":
        bits = clamped.view(np.uint32)
        return np.asarray((bits + np.uint32(0xFFFF)) & np.uint32(0xFFFF0000)).view(np.float32)
    if dtype == "float16":
        nearest = clamped.astype(np.float16)
        above = np.asarray(nearest.view(np.uint16) + np.uint16(1)).view(np.float16)
        return np.where(nearest.astype(np.float32) < clamped, above, nearest).astype(np.float32)
    return clamped


def scale_pattern(name: str, scale: Array, dtype: ScaleType) -> Shared:
    """The scales of `array_scale` as unsigned integers."""
    scales = np.asarray(scale, np.float32)
    if dtype == "float32":
        return Shared(name, scales.view(np.uint32), 32)
    half = scales.astype(np.float16).view(np.uint16) if dtype == "float16" else scales.view(np.uint32) >> np.uint32(16)
    return Shared(name, np.asarray(half, np.uint16), 16)


def scale_value(shared: Shared, dtype: ScaleType) -> Array:
    """The float32 scales of a `scale_pattern`."""
    bits = np.asarray(shared.values)
    if dtype == "float16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float32)
    return np.asarray(bits.astype(np.uint32) << np.uint32(16 if dtype == "bfloat16" else 0)).view(np.float32)
