"""Formats with a float scale: a loop computes a tensor's own; a static one becomes an array per segment."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from espalier.kernels.fake_quant.plan import Plan, register_plan
from espalier.kernels.fake_quant.plans.ends import most_pattern
from espalier.model.formats.base import Array
from espalier.model.formats.binary_residual import BinaryResidual
from espalier.model.formats.binary_scaled import BinaryScaled
from espalier.model.formats.scaled import per_of
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.stored_scale import SCALE_BITS, tensor_scale
from espalier.model.formats.ternary import Ternary

if TYPE_CHECKING:
    import torch
    from torch import Tensor

KINDS = tuple(SCALE_BITS)  # dtypes of stored scales by number in the loops: float32, bfloat16, float16


def flat(values: Tensor) -> Array:
    """float32 numbers, one per segment."""
    return values.detach().float().contiguous().view(-1).numpy()


def rows(*columns: Array) -> Array:
    """A row of columns per segment."""
    return np.ascontiguousarray(np.stack(columns, 1))


@register_plan(ScaledInteger)
def scaled_integer(fmt: ScaledInteger, dtype: torch.dtype) -> Plan:
    """The pattern that replaces infinity, the largest code, whether codes are symmetric, the dtype of scales."""
    kind = np.int64(KINDS.index(fmt.scale_dtype))
    constants = (most_pattern(dtype), np.float64(fmt.top), np.bool_(fmt.symmetric), kind)
    loop = "scaled_groups" if fmt.per > 0 else "scaled_integer"
    loop = loop if fmt.symmetric else "affine_integer"
    return Plan(loop, constants, per=fmt.per, shared=partial(_steps, fmt))


def _steps(fmt: ScaledInteger, scale: Tensor) -> Array:
    """s, and the smallest and the largest rne(x/s)."""
    if fmt.symmetric:
        s = flat(tensor_scale(scale.detach(), fmt.scale_dtype))
        return rows(s, np.full_like(s, -fmt.top), np.full_like(s, fmt.top))
    s = tensor_scale(scale[0].detach(), fmt.scale_dtype)
    zero = (-scale[1].detach().float() / s).round().clamp(0, fmt.top)  # in torch, for the signs of its zeros
    return rows(flat(s), flat(-zero), flat(fmt.top - zero))


@register_plan(BinaryScaled)
def binary_scaled(fmt: BinaryScaled, dtype: torch.dtype) -> Plan:
    """One sign; the sum starts at −0, which is neutral."""
    constants = (np.int64(1), np.float32(-0.0))
    return Plan("one_sign", constants, per=per_of(fmt.granularity), shared=_one_level)


def _one_level(scale: Tensor) -> Array:
    alpha = flat(scale)
    return rows(alpha, np.zeros_like(alpha), np.zeros_like(alpha))


@register_plan(BinaryResidual)
def binary_residual(fmt: BinaryResidual, dtype: torch.dtype) -> Plan:
    """One to three signs; the sum starts at 0."""
    loop = ("one_sign", "two_signs", "three_signs")[fmt.levels - 1]
    constants = (np.int64(fmt.levels), np.float32(0.0))
    return Plan(loop, constants, per=per_of(fmt.granularity), shared=_levels)


def _levels(scale: Tensor) -> Array:
    levels = [flat(alpha) for alpha in scale]
    return rows(*levels, *[np.zeros_like(levels[0])] * (3 - len(levels)))


@register_plan(Ternary)
def ternary(fmt: Ternary, dtype: torch.dtype) -> Plan | None:
    """The threshold; with a given scale it is still computed from the elements."""
    return Plan("ternary", (np.float64(fmt.threshold),), per=per_of(fmt.granularity), shared=_alpha)


def _alpha(scale: Tensor) -> Array:
    return rows(flat(scale))
