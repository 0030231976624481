"""Pictures of many lines, drawn between two events for some milliseconds each, so that nothing ever waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from PySide6.QtCore import QPointF, QTimer
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QWidget

from app.plots.study.density import Density, colours_of
from app.theme import Palette
from model.data.base import Array

CHUNK, PIECE = 192, 0.005  # lines at once; seconds of drawing between two events
REDRAW = 0.045  # seconds between two pictures while lines are drawn


class Pieces:
    """Two layers, grey below coloured. `want` says which trials are in each; `lay(layer, places, sign)` draws them."""

    def __init__(self, owner: QWidget, lay: Callable[[Density, Array, int], None]) -> None:
        self._owner, self._lay = owner, lay
        self._layers = [Density(1, 1), Density(1, 1)]
        self._want = [np.zeros(0, bool), np.zeros(0, bool)]
        self.drawn = [np.zeros(0, bool), np.zeros(0, bool)]
        self._pictures: list[QImage | None] = [None, None]
        self._touched = [False, False]
        self._last = 0.0
        self._timer = QTimer(owner, interval=0)
        self._timer.timeout.connect(self._piece)

    def restart(self, width: int, height: int) -> None:
        """Begin with empty pictures."""
        self._layers = [Density(width, height), Density(width, height)]
        self.drawn = [np.zeros(0, bool), np.zeros(0, bool)]
        self._touched = [True, True]

    def want(self, grey: Array, coloured: Array) -> None:
        """These are to be seen; the pictures get there piece by piece."""
        self._want = [grey, coloured]
        for layer, mask in enumerate(self._want):
            held = self.drawn[layer]
            self.drawn[layer] = np.append(held, np.zeros(len(mask) - len(held), bool))
        if not self._timer.isActive():
            self._timer.start()

    def _piece(self) -> None:
        begun = time.perf_counter()
        left = self._step()
        while left and time.perf_counter() - begun < PIECE:
            left = self._step()
        if not left:
            self._timer.stop()
        if not left or time.perf_counter() - self._last > REDRAW:
            self._develop()

    def settle(self) -> None:
        """Draw all that is left, now."""
        while self._step():
            pass
        self._timer.stop()
        self._develop()

    def _step(self) -> bool:
        """Some lines more, or fewer; whether any was left."""
        for layer in (1, 0):
            for sign, there, wanted in ((1, ~self.drawn[layer], self._want[layer]),
                                        (-1, self.drawn[layer], ~self._want[layer])):  # fmt: skip
                found = np.flatnonzero(there & wanted)[:CHUNK]
                if len(found):
                    self._lay(self._layers[layer], found, sign)
                    self.drawn[layer][found] = sign > 0
                    self._touched[layer] = True
                    return True
        return False

    def _develop(self) -> None:
        """Make pictures of the counts."""
        look: Palette = self._owner.look  # type: ignore[attr-defined]
        for layer in range(2):
            many = int(self.drawn[layer].sum())
            if self._touched[layer]:
                self._pictures[layer] = self._layers[layer].image(colours_of(look, many, not layer)) if many else None
            self._touched[layer] = False
        self._last = time.perf_counter()
        self._owner.update()

    def paint(self, painter: QPainter, at: QPointF) -> None:
        """Lay the pictures down."""
        for picture in self._pictures:
            if picture is not None:
                painter.drawImage(at, picture)
