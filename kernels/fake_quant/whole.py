"""Scales that a whole tensor shares, found by all threads; then its pieces are stretches under a given scale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernels.fake_quant.loops import nvfp4, scales, sums
from kernels.fake_quant.plan import Plan
from kernels.fake_quant.threads import chunks
from model.formats.base import Array
from model.formats.nvfp4 import TINY


def scale_of(plan: Plan, x: Array, given: Array | None) -> Array:
    """The row that all of `x` shares in the loop of `plan`, from its own scale or the given one."""
    return OWN[plan.loop](plan, x, given)


def _integers(plan: Plan, x: Array, given: Array | None) -> Array:
    assert plan.shared is not None
    if given is not None:
        return given
    most, _, symmetric, _ = plan.constants
    if symmetric:
        high = max(float(v) for v in chunks(scales.whole_largest, x, most))
        low = -high
    else:
        ends = chunks(scales.whole_extremes, x, most)
        low, high = min(float(v[0]) for v in ends), max(float(v[1]) for v in ends)
    row = np.empty((1, 3), np.float32)
    scales.whole_steps(row, low, high, plan.constants)
    return row


def _mean(found: list[tuple[float, int]]) -> float:
    """Mean of what was summed and counted."""
    return sum(float(total) for total, _ in found) / max(sum(int(count) for _, count in found), 1)


def _signs(plan: Plan, x: Array, given: Array | None) -> Array:
    if given is not None:
        return given
    none = np.float32(0)
    levels = [none, none, none]
    for i in range(int(plan.constants[0])):
        levels[i] = np.float32(_mean(chunks(sums.whole_left, x, levels[0], levels[1])))
    return np.array([levels], np.float32)


def _ternary(plan: Plan, x: Array, given: Array | None) -> Array:
    all_of_it = chunks(sums.whole_left, x, np.float32(0), np.float32(0))
    delta = np.float32(_mean(all_of_it) * plan.constants[0])
    finite = np.bool_(sum(int(count) for _, count in all_of_it) == x.size)
    alpha = given.item() if given is not None else _mean(chunks(sums.whole_kept, x, delta, finite))
    return np.array([[alpha, delta, finite]], np.float32)


def _nvfp4(plan: Plan, x: Array, given: Array | None) -> Array:
    """The tensor's scale, which all blocks share."""
    top = np.float32(max((float(v) for v in chunks(nvfp4.largest, x, plan.constants[0])), default=0.0))
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
