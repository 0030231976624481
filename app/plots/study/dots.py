"""Many dots of one look in a plot: those that came last are an item of their own, so that one more costs little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QPen

from model.data.base import Array

MANY = 1500  # dots from which they are small
RECENT = 256  # dots; more of them are laid to the others


class Dots:
    """Two scatter items: `put` says all of them, `add` some more."""

    def __init__(self, plot: Any, size: int, brush: Any, pen: QPen | None, symbol: str = "o", above: float = 0) -> None:
        self._look = {"size": size, "brush": brush, "pen": pen, "symbol": symbol}
        self._items = [pg.ScatterPlotItem(**self._look) for _ in range(2)]
        self._recent: list[Array] = []
        self._held = np.zeros((0, 2))
        for item in self._items:
            item.setZValue(above)
            plot.addItem(item)

    def put(self, x: Array, y: Array) -> None:
        """Exactly these; dots without a place are left out."""
        self._held = _whole(x, y)
        self._recent = []
        self._items[0].setData(self._held[:, 0], self._held[:, 1])
        self._items[1].setData([], [])

    def add(self, x: Array, y: Array) -> None:
        """These as well."""
        more = _whole(x, y)
        if not len(more):
            return
        self._recent.append(more)
        recent = np.concatenate(self._recent)
        if len(recent) > RECENT:
            both = np.concatenate([self._held, recent])
            self.put(both[:, 0], both[:, 1])
        else:
            self._items[1].setData(recent[:, 0], recent[:, 1])

    def __len__(self) -> int:
        return len(self._held) + sum(map(len, self._recent))


def _whole(x: Array, y: Array) -> Array:
    both = np.stack([x, y], 1) if len(x) else np.zeros((0, 2))
    return both[np.isfinite(both).all(1)]


def dot_look(many: int) -> tuple[int, int]:
    """Size and opacity of dots: of so many that they would hide each other, small and faint ones."""
    return (6, 190) if many < MANY else (4, 90)
