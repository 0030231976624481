"""Plot items with many marks, drawn once per view into a pixmap, to which new marks are added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyqtgraph as pg
from pyqtgraph.debug import warnOnException
from PySide6.QtCore import QRectF, Qt, QTimer
from PySide6.QtGui import QPainter, QPixmap, QTransform
from PySide6.QtWidgets import QWidget
from typing_extensions import override

from espalier.model.data.base import Array

FIRST = 64
LARGEST = 16_384.0  # largest size of a pixmap; a plot without a size yet exceeds it
Key = tuple[float, ...]


class CachedMarks(pg.GraphicsObject):
    """Marks as rows of numbers, x and y first. `put` sets all, `add` appends some; `lay` draws rows in pixels.

    At most `chunk` marks are drawn between two events. An exported file has all marks as vectors.
    """

    chunk = 50_000

    def __init__(self, plot: Any, columns: int, above: float = 0) -> None:
        super().__init__()
        self._room = np.zeros((FIRST, columns))
        self._count, self._laid = 0, 0
        self._picture: QPixmap | None = None
        self._key: Key = ()
        self.setZValue(above)
        plot.addItem(self, ignoreBounds=True)

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> Array:
        """All marks."""
        return self._room[: self._count]

    def put(self, *columns: Any) -> None:
        """Set the marks; rows that are not finite are dropped."""
        self._count, self._picture = 0, None
        self.add(*columns)
        self.update()

    def add(self, *columns: Any) -> None:
        """Append marks."""
        fresh = np.stack(np.broadcast_arrays(*columns), 1)
        fresh = fresh[np.isfinite(fresh).all(1)]
        if not len(fresh):
            return
        count = self._count + len(fresh)
        if count > len(self._room):
            room = np.zeros((max(count, 2 * len(self._room)), self._room.shape[1]))
            room[: self._count] = self.rows
            self._room = room
        self._room[self._count : count] = fresh
        self._count = count
        self.update()

    def lay(self, painter: QPainter, rows: Array, view: QTransform, area: QRectF) -> None:
        """Draw marks; `view` maps plot coordinates to pixels of `area`."""

    def outline(self, painter: QPainter, rows: Array, view: QTransform, area: QRectF) -> None:
        """Draw marks for a vector file."""
        self.lay(painter, rows, view, area)

    @override
    def boundingRect(self) -> QRectF:
        return self.viewRect() or QRectF()

    @override
    def viewTransformChanged(self) -> None:
        self.prepareGeometryChange()
        super().viewTransformChanged()

    @override
    @warnOnException  # an exception here crashes Qt
    def paint(self, painter: QPainter, *_: Any) -> None:
        view = painter.transform()
        area = view.mapRect(self.boundingRect())
        if not self._count or not (0 < area.width() < LARGEST and 0 < area.height() < LARGEST):
            return
        painter.save()
        painter.resetTransform()
        try:
            self._paint(painter, view, area)
        finally:
            painter.restore()

    def _paint(self, painter: QPainter, view: QTransform, area: QRectF) -> None:
        key = _key(view, area, ratio_of(painter))
        moved, vectors = key != self._key, getattr(self.getViewWidget(), "outlined", False)
        in_file = vectors or not isinstance(painter.device(), QWidget)
        if moved and not in_file:
            self._key, self._picture = key, None
        if not in_file and (not moved or self._count > self.chunk):
            painter.drawPixmap(area.topLeft(), self._view_picture(view, area, key[-1]))
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)  # no pixmap for a view that may be moving
        (self.outline if vectors else self.lay)(painter, self.rows, view, area)

    def _view_picture(self, view: QTransform, area: QRectF, ratio: float) -> QPixmap:
        """The pixmap of a view: the last one with new marks added, or a new one."""
        picture = self._picture
        if picture is None:
            self._laid = 0
            picture = self._picture = QPixmap(int(area.width() * ratio) + 1, int(area.height() * ratio) + 1)
            picture.setDevicePixelRatio(ratio)
            picture.fill(Qt.GlobalColor.transparent)
        if self._laid < self._count:
            inside = QPainter(picture)
            inside.setRenderHint(QPainter.RenderHint.Antialiasing)
            shifted = view * QTransform.fromTranslate(-area.left(), -area.top())
            rows = self.rows[self._laid : self._laid + self.chunk]
            self._laid += len(rows)
            try:
                self.lay(inside, rows, shifted, QRectF(0, 0, area.width(), area.height()))
            finally:
                inside.end()  # Qt aborts if a painter outlives its device
            if self._laid < self._count:
                QTimer.singleShot(0, self, self.update)
        return picture


def _key(view: QTransform, area: QRectF, ratio: float) -> Key:
    return view.m11(), view.m22(), view.dx(), view.dy(), area.width(), area.height(), ratio


def ratio_of(painter: QPainter) -> float:
    """Device pixels per pixel of an untransformed painter."""
    return painter.deviceTransform().m11()


def pixels(view: QTransform, x: Array, y: Array) -> tuple[Array, Array]:
    """Plot coordinates in pixels."""
    return view.m11() * x + view.dx(), view.m22() * y + view.dy()
