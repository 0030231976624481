"""Scales that a whole tensor shares, found by all threads; then its pieces are stretches under a given scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def _mean(loop: Callable[..., Any], x: Array, *constants: np.float32) -> float:
    """Mean of what a loop sums and counts."""
    found = chunks(loop, x, *constants)
    return sum(float(total) for total, _ in found) / max(sum(int(count) for _, count in found), 1)


def _signs(plan: Plan, x: Array, given: Array | None) -> Array:
    if given is not None:
        return given
    none = np.float32(0)
    levels = [none, none, none]
    for i in range(int(plan.constants[0])):
        levels[i] = np.float32(_mean(sums.whole_left, x, *((levels[0], levels[1]) if i else (none, none))))
    return np.array([levels], np.float32)


def _ternary(plan: Plan, x: Array, given: Array | None) -> Array:
    none = np.float32(0)
    delta = np.float32(_mean(sums.whole_left, x, none, none) * plan.constants[0])
    alpha = _mean(sums.whole_kept, x, delta) if given is None else given.item()
    return np.array([[alpha, delta]], np.float32)


OWN: dict[str, Callable[[Plan, Array, Array | None], Array]] = {
    "scaled_integer": _integers,
    "one_sign": _signs,
    "two_signs": _signs,
    "three_signs": _signs,
    "ternary": _ternary,
}


def nvfp4_scales(x: Array, block: int, most: np.int32) -> Array:
    """A row a block, its scale, negative where something is not finite, from the tensor's."""
    tops = np.empty(x.size // block, np.int32)
    found = chunks(nvfp4.block_patterns, x, np.int64(block), most, beside=tops, unit=block)
    top = np.int32(max(map(int, found), default=0)).view(np.float32)
    s = np.float32(max(np.float32(top / np.float32(6 * 448)), np.float32(TINY)))
    ts = np.empty(tops.size, np.float32)
    nvfp4.block_scales(tops, ts, s)
    return ts.reshape(-1, 1)
