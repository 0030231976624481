"""Values that give the scale of a `scaled_element` again: one of the largest of each scale moves within its code.

A quantised tensor has such a value; where none is found among the numbers tried, the decoded ones stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from espalier.model.formats.base import Array
from espalier.model.formats.half_range_ends import rounded

_NEAR = 4  # neighbours of d·s on each side
_BETWEEN = 64  # numbers between those whose quotients round to the scales beside s


@dataclass(frozen=True, slots=True)
class Rounding:
    """How a format rounds: `reach` d; `element`: x/s → the element; `scale`: max|x| → s in its type, `kind`."""

    reach: float
    kind: str
    element: Callable[[Array], Array]
    scale: Callable[[Array], Array]


def with_ends(elements: Array, s: Array, rule: Rounding, dtype: str) -> Array:
    """Values (groups, elements) in `dtype` of elements with scales s (groups, 1), such that max|x|/d gives s."""
    values = (elements * s).astype(np.float32)
    size = np.abs(elements).max(-1, keepdims=True)
    end = np.zeros_like(s)
    negative = np.zeros(s.shape, bool)
    pending = size > 0
    for candidate in _candidates(s, rule, dtype) if pending.any() else ():
        for sign in (1, -1):
            element = np.where((elements == sign * size).any(-1, keepdims=True), sign * size, np.nan)
            others = np.abs(np.where(elements == element, 0, values)).max(-1, keepdims=True)
            good = pending & (rule.element(sign * candidate / s) == element) & (candidate >= others)
            good &= rule.scale(candidate) == s
            end, negative = np.where(good, candidate, end), np.where(good, sign < 0, negative)
            pending &= ~good
    largest = np.where(negative, -size, size)
    moved = (end > 0) & (elements == largest)
    return np.where(moved, np.where(negative, -end, end), values).astype(np.float32)


def _candidates(s: Array, rule: Rounding, dtype: str) -> list[Array]:
    """Numbers of `dtype` whose d-th part may round to s, the nearest to d·s first."""
    exact = s.astype(np.float64) * rule.reach
    offsets = sorted(range(-_NEAR, _NEAR + 1), key=abs)
    numbers = [_neighbour(exact, dtype, k) for k in offsets]
    if rule.kind != "float32":
        width = 2.0**-8 if rule.kind == "bfloat16" else 2.0**-11
        shares = sorted(np.linspace(-1, 1, _BETWEEN), key=abs)
        numbers += [_neighbour(exact * (1 + share * width), dtype, 0) for share in shares]
    return numbers


def _neighbour(x: Array, dtype: str, offset: int) -> Array:
    """`x` in `dtype`, moved by `offset` numbers; positive."""
    if dtype in ("float16", "bfloat16"):
        return rounded(x, dtype, offset)
    near = np.asarray(np.clip(x, 0, 3e38), np.float32)
    return np.maximum(near.view(np.int32) + np.int32(offset), 0).astype(np.int32).view(np.float32)
