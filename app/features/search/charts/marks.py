"""Plot items of many dots or lines with a few looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pyqtgraph.Qt import internals
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPixmap, QTransform
from typing_extensions import override

from espalier.app.features.search.charts.cached_marks import CachedMarks, pixels, ratio_of
from espalier.model.data.base import Array

MANY = 1500  # number of dots from which they are small
LINES = 500  # marks drawn between two events
Look = tuple[QColor, QPen | None]


class Dots(CachedMarks):
    """Dots with `looks` of a brush and a pen each: columns x, y and index of the look."""

    def __init__(self, plot: Any, size: int, looks: Sequence[Look], above: float = 0) -> None:
        super().__init__(plot, 3, above)
        self.looks, self.size = tuple(looks), size
        self._fragments: Any = internals.PrimitiveArray(QPainter.PixmapFragment, 10)
        self._stamps: dict[float, QPixmap] = {}

    @override
    def lay(self, painter: QPainter, rows: Array, view: QTransform, area: QRectF) -> None:
        x, y, kinds = self._inside(rows, view, area)
        if not len(x):
            return
        ratio = ratio_of(painter)
        stamps, cell = self._stamped(ratio), (self.size + 4) * ratio
        self._fragments.resize(len(x))
        fragments = self._fragments.ndarray()
        fragments[:, 0], fragments[:, 1], fragments[:, 2], fragments[:, 3] = x, y, kinds * cell, 0
        fragments[:, 4:] = cell, cell, 1 / ratio, 1 / ratio, 0, 1
        draw: Any = painter.drawPixmapFragments  # the stub lacks the overload with an address and a count
        draw(*self._fragments.drawargs(), stamps)

    @override
    def outline(self, painter: QPainter, rows: Array, view: QTransform, area: QRectF) -> None:
        for x, y, kind in zip(*(c.tolist() for c in self._inside(rows, view, area)), strict=True):
            self._dot(painter, self.looks[int(kind)], QPointF(x, y))

    def _inside(self, rows: Array, view: QTransform, area: QRectF) -> tuple[Array, Array, Array]:
        """Pixels and looks of the visible dots."""
        x, y = pixels(view, rows[:, 0], rows[:, 1])
        room = self.size
        visible = (x > area.left() - room) & (x < area.right() + room) & (y > area.top() - room)
        visible &= y < area.bottom() + room
        return x[visible], y[visible], rows[visible, 2]

    def _stamped(self, ratio: float) -> QPixmap:
        """A dot of each look, side by side."""
        if ratio not in self._stamps:
            cell = self.size + 4
            pixmap = QPixmap(int(cell * len(self.looks) * ratio), int(cell * ratio))
            pixmap.setDevicePixelRatio(ratio)
            pixmap.fill(Qt.GlobalColor.transparent)
            painter = QPainter(pixmap)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            for index, look in enumerate(self.looks):
                self._dot(painter, look, QPointF((index + 0.5) * cell, cell / 2))
            painter.end()
            self._stamps[ratio] = pixmap
        return self._stamps[ratio]

    def _dot(self, painter: QPainter, look: Look, at: QPointF) -> None:
        painter.setBrush(look[0])
        painter.setPen(look[1] or Qt.PenStyle.NoPen)
        painter.drawEllipse(at, self.size / 2, self.size / 2)


class Segments(CachedMarks):
    """Lines with `pens`: columns x and y of both ends and index of the pen. `tall`: bars of this height in the plot, at
    least a pixel long.
    """

    def __init__(self, plot: Any, pens: Sequence[QPen], tall: float = 0.0) -> None:
        super().__init__(plot, 5)
        self.pens, self.tall = tuple(pens), tall
        self.chunk = self.chunk if tall else LINES
        self._lines: Any = internals.PrimitiveArray(QLineF, 4)

    @override
    def lay(self, painter: QPainter, rows: Array, view: QTransform, area: QRectF) -> None:
        (x0, y0), (x1, y1) = (pixels(view, rows[:, k], rows[:, k + 1]) for k in (0, 2))
        x1 = np.maximum(x1, x0 + 1) if self.tall else x1
        visible = (np.maximum(x0, x1) > area.left()) & (np.minimum(x0, x1) < area.right())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, not self.tall and len(rows) < MANY)
        for kind, pen in enumerate(self.pens):
            mine = visible & (rows[:, 4] == kind)
            self._lines.resize(int(mine.sum()))
            self._lines.ndarray()[:] = np.stack([x0[mine], y0[mine], x1[mine], y1[mine]], 1)
            if self.tall:
                pen.setWidthF(abs(view.m22()) * self.tall)
                pen.setCapStyle(Qt.PenCapStyle.FlatCap)
            painter.setPen(pen)
            draw: Any = painter.drawLines
            draw(*self._lines.drawargs())


def dot_look(many: int) -> tuple[int, int]:
    """Size and opacity of dots: small and faint for many dots."""
    return (6, 190) if many < MANY else (4, 90)
