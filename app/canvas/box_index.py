"""A spatial index of boxes, sorted along the flow of the graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from espalier.app.canvas.camera import Area

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


class BoxIndex:
    """Boxes by their low and high corners [boxes, 2], sorted by their start along `axis` (0: x, 1: y)."""

    def __init__(self, low: Floats, high: Floats, axis: int) -> None:
        self.axis = axis
        self.order = np.argsort(low[:, axis], kind="stable")
        self.begin, self.end = low[self.order, axis], high[self.order, axis]
        self.left, self.right = low[self.order, 1 - axis], high[self.order, 1 - axis]
        self.reach = np.maximum.accumulate(self.end) if len(self.end) else self.end

    @classmethod
    def of_rects(cls, rects: Floats, axis: int) -> BoxIndex:
        """An index of rectangles with rows x, y, width, height."""
        return cls(rects[:, :2], rects[:, :2] + rects[:, 2:], axis)

    def touching(self, area: Area) -> Indices:
        """Indices of the boxes that touch `area`, ascending."""
        low, size = area[self.axis], area[self.axis + 2]
        side, across = area[1 - self.axis], area[3 - self.axis]
        first = int(np.searchsorted(self.reach, low, "left"))
        last = int(np.searchsorted(self.begin, low + size, "right"))
        part = slice(first, max(last, first))
        hit = (self.end[part] >= low) & (self.right[part] >= side) & (self.left[part] <= side + across)
        return np.sort(self.order[part][hit])
