"""Two pixmaps of many lines, grey below coloured, drawn in slices of a few milliseconds between events."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from pyqtgraph.Qt import internals
from PySide6.QtCore import QLineF, QPointF, QTimer
from PySide6.QtGui import QPainter, QPixmap, Qt
from PySide6.QtWidgets import QWidget

from espalier.app.theme import Palette
from espalier.app.widgets.charts.chart import pen
from espalier.model.data.base import Array

CHUNK, PIECE, REDRAW = 8, 0.003, 0.045  # lines at once; seconds of drawing between two events, and between two updates
SHADES, SMOOTH = 16, 150  # number of colours; number of lines up to which they are anti-aliased
ALONE, FAINTEST = 240, 16  # opacity of a line alone and among very many, of 255


class LineLayers:
    """`want` sets the trials of each layer. `lay` returns their points (trial × point × x, y) and shades."""

    def __init__(self, owner: QWidget, lay: Callable[[Array], tuple[Array, Array]]) -> None:
        self._owner, self._lay = owner, lay
        self._requested = [np.zeros(0, bool), np.zeros(0, bool)]
        self.drawn = [np.zeros(0, bool), np.zeros(0, bool)]
        self._pictures = [QPixmap(), QPixmap()]
        self._lines: Any = internals.PrimitiveArray(QLineF, 4)
        self._shown = 0.0
        self._timer = QTimer(owner, interval=0)
        self._timer.timeout.connect(self._draw_slice)

    def restart(self, width: int, height: int) -> None:
        """Start with empty pixmaps."""
        ratio = self._owner.devicePixelRatio()
        for layer in range(2):
            picture = self._pictures[layer] = QPixmap(round(width * ratio), round(height * ratio))
            picture.setDevicePixelRatio(ratio)
            self._clear(layer)

    def _clear(self, layer: int) -> None:
        self._pictures[layer].fill(Qt.GlobalColor.transparent)
        self.drawn[layer] = np.zeros(len(self._requested[layer]), bool)

    def want(self, grey: Array, coloured: Array) -> None:
        """Set the trials to draw; the pixmaps are updated in slices."""
        self._requested = [grey, coloured]
        for layer, mask in enumerate(self._requested):
            drawn = self.drawn[layer] = np.append(self.drawn[layer], np.zeros(len(mask) - len(self.drawn[layer]), bool))
            if (drawn & ~mask).any():
                self._clear(layer)
        self._timer.start()

    def _draw_slice(self) -> None:
        begun, remaining = time.perf_counter(), self._step()
        while remaining and time.perf_counter() - begun < PIECE:
            remaining = self._step()
        if not remaining or begun - self._shown > REDRAW:
            self._shown = begun
            self._owner.update()
        if not remaining:
            self._timer.stop()

    def settle(self) -> None:
        """Draw all remaining lines now."""
        while self._step():
            pass

    def _step(self) -> bool:
        """Draw a few lines, coloured ones first; returns whether any remained."""
        for layer in (1, 0):
            pending = np.flatnonzero(self._requested[layer] & ~self.drawn[layer])[:CHUNK]
            if len(pending):
                self._draw(layer, pending)
                self.drawn[layer][pending] = True
                return True
        return False

    def _draw(self, layer: int, indices: Array) -> None:
        look: Palette = self._owner.look  # type: ignore[attr-defined]
        many = int(self._requested[layer].sum())
        points, shades = self._lay(indices)
        opacity = int(max(ALONE / (1 + many / 100) ** 0.7, FAINTEST))
        painter = QPainter(self._pictures[layer])
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, many < SMOOTH)
        draw: Any = painter.drawLines
        for shade in np.unique(shades) if layer else (0,):
            mine = points[shades == shade] if layer else points
            ends = np.concatenate([mine[:, :-1], mine[:, 1:]], 2).reshape(-1, 4)
            self._lines.resize(len(ends))
            self._lines.ndarray()[:] = ends
            painter.setPen(pen(look.sequential(shade / (SHADES - 1)) if layer else look.edge, 1.0, opacity))
            draw(*self._lines.drawargs())
        painter.end()

    def paint(self, painter: QPainter, at: QPointF) -> None:
        """Draw the pixmaps."""
        for picture, drawn in zip(self._pictures, self.drawn, strict=True):
            if drawn.any():
                painter.drawPixmap(at, picture)
