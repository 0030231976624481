"""Bars along the upper edges of nodes: a number beside the one that their colour shows. Free of Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from espalier.app.canvas.box_index import Indices
from espalier.app.canvas.colouring import short
from espalier.app.translation import tr

HEIGHT, INSET, TOP = 3.0, 6.0, 0.5  # canvas units
SHOWN_FROM = 0.3  # scale from which a bar is about a pixel high


@dataclass(frozen=True, slots=True)
class SizeBars:
    """`shares`: by node number, the magnitude of its value over the largest one, NaN without a value."""

    title: str
    shares: NDArray[np.float64]
    largest: float

    @classmethod
    def of(cls, title: str, values: Mapping[str, float], ids: tuple[str, ...]) -> SizeBars:
        """Bars of finite values by node; others have none."""
        numbers = np.abs(np.array([values.get(i, np.nan) for i in ids], float))
        numbers[~np.isfinite(numbers)] = np.nan
        known = numbers[np.isfinite(numbers)]
        largest = float(known.max()) if len(known) else 0.0
        return cls(title, numbers / largest if largest else numbers, largest)

    @property
    def legend(self) -> str:
        """`parameters, full bar 590 k`."""
        return tr("{}, full bar {}", self.title, short(self.largest))

    def rects(self, nodes: Indices, rects: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The full bars and the filled parts of nodes (numbers) with these rectangles (x, y, width, height)."""
        shares = self.shares[nodes]
        rects, shares = rects[np.isfinite(shares)], shares[np.isfinite(shares)]
        full = np.column_stack(
            [rects[:, 0] + INSET, rects[:, 1] + TOP, rects[:, 2] - 2 * INSET, np.full(len(rects), HEIGHT)]
        )
        filled = full.copy()
        filled[:, 2] *= shares
        return full, filled
