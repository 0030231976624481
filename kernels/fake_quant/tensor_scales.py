"""Scales of a whole tensor, computed by all threads; its chunks are then quantised with this scale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from espalier.kernels.fake_quant.chunks import statistics
from espalier.kernels.fake_quant.loops import nvfp4, scales, sums
from espalier.kernels.fake_quant.plan import Plan
from espalier.model.formats.base import Array
from espalier.model.formats.nvfp4 import TINY

_NONE = np.float32(0)


def scale_of(plan: Plan, x: Array, scale: Array | None) -> Array:
    """The `shared` row of all of `x` for the loop of `plan`, from a given scale or one computed from `x`."""
    return OWN[plan.loop](plan, x, scale)


def _integers(plan: Plan, x: Array, scale: Array | None) -> Array:
    assert plan.shared is not None
    if scale is not None:
        return scale
    infinity, _, symmetric, _ = plan.constants
    if symmetric:
        high = float(statistics(scales.whole_largest, x, infinity, _NONE)[:, 0].max())
        low = -high
    else:
        ends = statistics(scales.whole_extremes, x, infinity, _NONE)
        low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    row = np.empty((1, 3), np.float32)
    scales.whole_steps(row, low, high, plan.constants)
    return row


def _mean(sums: Array) -> float:
    """Mean from rows of (sum, count)."""
    total, count = sums.sum(axis=0)
    return float(total / max(count, 1))


def _signs(plan: Plan, x: Array, scale: Array | None) -> Array:
    if scale is not None:
        return scale
    levels = [_NONE, _NONE, _NONE]
    for i in range(int(plan.constants[0])):
        levels[i] = np.float32(_mean(statistics(sums.whole_residual, x, levels[0], levels[1])))
    return np.array([levels], np.float32)


def _ternary(plan: Plan, x: Array, scale: Array | None) -> Array:
    all_of_it = statistics(sums.whole_residual, x, _NONE, _NONE)
    delta = np.float32(_mean(all_of_it) * plan.constants[0])
    finite = np.bool_(all_of_it[:, 1].sum() == x.size)
    alpha = scale.item() if scale is not None else _mean(statistics(sums.whole_above, x, delta, finite))
    return np.array([[alpha, delta, finite]], np.float32)


def _nvfp4(plan: Plan, x: Array, scale: Array | None) -> Array:
    """The tensor scale, which all blocks share."""
    top = np.float32(statistics(nvfp4.whole_largest, x, plan.constants[0], _NONE)[:, 0].max(initial=0))
    return np.array([[max(np.float32(top / np.float32(6 * 448)), np.float32(TINY))]], np.float32)


OWN: dict[str, Callable[[Plan, Array, Array | None], Array]] = {
    "scaled_integer": _integers,
    "affine_integer": _integers,
    "one_sign": _signs,
    "two_signs": _signs,
    "three_signs": _signs,
    "ternary": _ternary,
    "nvfp4": _nvfp4,
}
