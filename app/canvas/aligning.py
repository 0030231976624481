"""Aligns boxes at a side or a middle line, and distributes them with equal gaps. Free of Qt."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Rects = NDArray[np.float64]
Way = Literal["left", "centre", "right", "top", "middle", "bottom", "horizontally", "vertically"]
AXES: dict[Way, int] = {"left": 0, "centre": 0, "right": 0, "horizontally": 0,
                        "top": 1, "middle": 1, "bottom": 1, "vertically": 1}  # fmt: skip


def least(way: Way) -> int:
    """How many boxes are needed: the outer ones stay where boxes are distributed."""
    return 3 if way in ("horizontally", "vertically") else 2


def aligned(rects: Rects, way: Way) -> Rects:
    """The new corners [n, 2] of boxes with rows x, y, width, height; the other coordinate stays.

    Sides and middle lines are those of the rectangle around all boxes. Distributed boxes keep the order of their
    middles, and the first and the last keep their places.
    """
    corners, axis = rects[:, :2].copy(), AXES[way]
    low, size = rects[:, axis], rects[:, axis + 2]
    first, last = float(low.min()), float((low + size).max())
    if way in ("left", "top"):
        corners[:, axis] = first
    elif way in ("right", "bottom"):
        corners[:, axis] = last - size
    elif way in ("centre", "middle"):
        corners[:, axis] = (first + last) / 2 - size / 2
    else:
        order = np.argsort(low + size / 2, kind="stable")
        start, end = low[order[0]], low[order[-1]] + size[order[-1]]
        gap = (end - start - size.sum()) / max(len(rects) - 1, 1)
        before = np.concatenate([[0.0], np.cumsum(size[order] + gap)[:-1]])
        corners[order, axis] = start + before
    return corners
