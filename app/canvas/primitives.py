"""Hands whole numpy arrays to QPainter in one call: the price of a batch is then the drawing alone.

The idea is pyqtgraph's PrimitiveArray; here without its quarter second of import before the first paint.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPainterPath, QPen
from shiboken6 import Shiboken

from espalier.app.theme import ARROW, FONT_FAMILIES


def draw_lines(painter: QPainter, lines: NDArray[np.float64]) -> None:
    """Lines given as rows x1, y1, x2, y2."""
    if len(lines):
        rows = np.ascontiguousarray(lines, np.float64)
        painter.drawLines(_first(rows, QLineF), len(rows))  # type: ignore[call-overload]


def draw_rects(painter: QPainter, rects: NDArray[np.float64]) -> None:
    """Rectangles given as rows x, y, width, height."""
    if len(rects):
        rows = np.ascontiguousarray(rects, np.float64)
        painter.drawRects(_first(rows, QRectF), len(rows))  # type: ignore[call-overload]


def draw_arrowheads(painter: QPainter, tips: NDArray[np.float64], horizontal: bool) -> None:
    """Filled triangles that stand on their tips (rows x, y) and point down, or to the right where `horizontal`."""
    corners = ((-ARROW, -ARROW / 2), (-ARROW, ARROW / 2)) if horizontal else ((-ARROW / 2, -ARROW), (ARROW / 2, -ARROW))
    (a, b), (c, d) = corners
    colour = painter.pen().color()
    painter.save()
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    for x, y in tips.tolist():  # one by one: what a patch of a tile repaints is then the same to the last bit
        painter.drawConvexPolygon((QPointF(x, y), QPointF(x + a, y + b), QPointF(x + c, y + d)))
    painter.restore()


def _first(rows: NDArray[np.float64], kind: type[Any]) -> Any:
    """The array's memory seen as a C++ array of `kind`; the caller keeps `rows` alive during the call."""
    return Shiboken.wrapInstance(rows.ctypes.data, kind)


def font(size: float, bold: bool = False) -> QFont:
    """The window's font at `size` pixels, with fractions and without hinting, so that it scales evenly."""
    made = QFont()
    made.setFamilies(list(FONT_FAMILIES))
    made.setPixelSize(max(round(size), 1))
    made.setPointSizeF(max(size, 1.0) * 72 / 96)
    made.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    made.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
    return made


def pen(colour: str, width: float = 1.0, cosmetic: bool = True) -> QPen:
    """A pen; cosmetic ones keep their width at every zoom."""
    made = QPen(QColor(colour), width)
    made.setCosmetic(cosmetic)
    return made


def route_path(points: NDArray[np.float64], horizontal: bool) -> QPainterPath:
    """The painted course of an edge: curves between layers, straight lines past them."""
    path = QPainterPath()
    rows = points.tolist()
    x0, y0 = rows[0]
    path.moveTo(x0, y0)
    for x, y in rows[1:]:
        if x == x0 or y == y0:
            path.lineTo(x, y)
        elif horizontal:
            middle = (x0 + x) / 2
            path.cubicTo(middle, y0, middle, y, x, y)
        else:
            middle = (y0 + y) / 2
            path.cubicTo(x0, middle, x, middle, x, y)
        x0, y0 = x, y
    return path
