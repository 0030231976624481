"""Pictures of many lines, drawn between two events for some milliseconds each, so that nothing ever waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QTimer
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QWidget

from espalier.app.features.search.charts.density import Density, colours_of
from espalier.app.theme import Palette
from espalier.model.data.base import Array

CHUNK, PIECE = 64, 0.004  # lines at once; seconds of drawing between two events
REDRAW = 0.045  # seconds between two pictures while lines are drawn
STRIPES = 8  # of a picture, each made between two events


class ProgressiveLines:
    """Two layers, grey below coloured. `want` says which trials are in each; `lay(layer, places, sign)` draws them."""

    def __init__(self, owner: QWidget, lay: Callable[[Density, Array, int], None]) -> None:
        self._owner, self._lay, self.chunk = owner, lay, CHUNK
        self._layers = [Density(1, 1), Density(1, 1)]
        self._want = [np.zeros(0, bool), np.zeros(0, bool)]
        self.drawn = [np.zeros(0, bool), np.zeros(0, bool)]
        self._pictures: list[QImage | None] = [None, None]
        self._touched = [False, False]
        self._stripes: list[tuple[int, int, int]] = []
        self._many = [0, 0]
        self._last = 0.0
        self._at = QPointF()  # where the pictures lie on the owner
        self._timer = QTimer(owner, interval=0)
        self._timer.timeout.connect(self._piece)

    def restart(self, width: int, height: int) -> None:
        """Begin with empty pictures."""
        self._layers = [Density(width, height), Density(width, height)]
        self.drawn = [np.zeros(0, bool), np.zeros(0, bool)]
        self._touched = [True, True]
        self._stripes = []

    def want(self, grey: Array, coloured: Array) -> None:
        """These are to be seen; the pictures get there piece by piece."""
        self._want = [grey, coloured]
        self._many = [int(grey.sum()), int(coloured.sum())]
        for layer, mask in enumerate(self._want):
            held = self.drawn[layer]
            self.drawn[layer] = np.append(held, np.zeros(len(mask) - len(held), bool))
        if not self._timer.isActive():
            self._timer.start()

    def _piece(self) -> None:
        """Lines for some milliseconds, or one stripe of a picture."""
        begun = time.perf_counter()
        if self._stripes:
            self._develop(*self._stripes.pop(0))
            return
        left = self._step()
        while left and time.perf_counter() - begun < PIECE:
            left = self._step()
        if not left or begun - self._last > REDRAW:
            self._last = begun
            for layer in range(2):
                wide = self._layers[layer].width
                ends = np.linspace(0, wide, STRIPES + 1).astype(int).tolist()
                self._stripes += [(layer, *e) for e in pairwise(ends)] if self._touched[layer] else []
                self._touched[layer] = False
        if not left and not self._stripes:
            self._timer.stop()

    def settle(self) -> None:
        """Draw all that is left, now."""
        while self._step():
            pass
        self._timer.stop()
        self._stripes = []
        self._touched = [False, False]
        for layer in range(2):
            self._develop(layer, 0, self._layers[layer].width)

    def _step(self) -> bool:
        """Some lines more, or fewer; whether any was left."""
        for layer in (1, 0):
            for sign, there, wanted in ((1, ~self.drawn[layer], self._want[layer]),
                                        (-1, self.drawn[layer], ~self._want[layer])):  # fmt: skip
                found = np.flatnonzero(there & wanted)[: self.chunk]
                if len(found):
                    self._lay(self._layers[layer], found, sign)
                    self.drawn[layer][found] = sign > 0
                    self._touched[layer] = True
                    return True
        return False

    def _develop(self, layer: int, left: int, right: int) -> None:
        """Make a stripe of a picture of the counts."""
        look: Palette = self._owner.look  # type: ignore[attr-defined]
        counts = self._layers[layer]
        picture = self._pictures[layer]
        if picture is None or (picture.width(), picture.height()) != (counts.width, counts.height):
            picture = QImage(counts.width, counts.height, QImage.Format.Format_ARGB32_Premultiplied)
            picture.fill(0)
            self._pictures[layer] = picture
        if right > left:
            painter = QPainter(picture)
            painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Source)
            painter.drawImage(left, 0, counts.image(colours_of(look, self._many[layer], not layer), left, right))
            painter.end()
        where = self._at + QPointF(left, 0)
        self._owner.update(QRectF(where.x(), where.y(), right - left, counts.height).toAlignedRect())

    def paint(self, painter: QPainter, at: QPointF) -> None:
        """Lay the pictures down."""
        self._at = at
        for picture, many in zip(self._pictures, self._many, strict=True):
            if picture is not None and many:
                painter.drawImage(at, picture)
