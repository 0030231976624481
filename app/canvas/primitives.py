"""Draws numpy arrays with one QPainter call per batch, without a Python call per item.

The technique of pyqtgraph's PrimitiveArray, without its import of 0.25 s before the first paint.
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
    """Draw lines of rows x1, y1, x2, y2."""
    if len(lines):
        rows = np.ascontiguousarray(lines, np.float64)
        painter.drawLines(_first(rows, QLineF), len(rows))  # type: ignore[call-overload]


def draw_rects(painter: QPainter, rects: NDArray[np.float64]) -> None:
    """Draw rectangles of rows x, y, width, height."""
    if len(rects):
        rows = np.ascontiguousarray(rects, np.float64)
        painter.drawRects(_first(rows, QRectF), len(rows))  # type: ignore[call-overload]


def draw_arrowheads(painter: QPainter, tips: NDArray[np.float64], horizontal: bool) -> None:
    """Draw arrowheads with their tips at rows x, y, pointing down, or to the right if `horizontal`."""
    long, half = ARROW[0], ARROW[1] / 2
    corners = ((-long, -half), (-long, half)) if horizontal else ((-half, -long), (half, -long))
    (a, b), (c, d) = corners
    colour = painter.pen().color()
    painter.save()
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    for x, y in tips.tolist():  # one by one, so that repainting a part of a tile gives identical pixels
        painter.drawConvexPolygon((QPointF(x, y), QPointF(x + a, y + b), QPointF(x + c, y + d)))
    painter.restore()


def _first(rows: NDArray[np.float64], kind: type[Any]) -> Any:
    """The memory of the array as a C++ array of `kind`; the caller keeps `rows` alive during the call."""
    return Shiboken.wrapInstance(rows.ctypes.data, kind)


def font(size: float, bold: bool = False) -> QFont:
    """The window's font at `size` pixels, with fractions and without hinting, so that it scales evenly."""
    result = QFont()
    result.setFamilies(list(FONT_FAMILIES))
    result.setPixelSize(max(round(size), 1))
    result.setPointSizeF(max(size, 1.0) * 72 / 96)
    result.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    result.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
    return result


def pen(colour: str, width: float = 1.0, cosmetic: bool = True) -> QPen:
    """A pen; cosmetic ones keep their width at every zoom."""
    result = QPen(QColor(colour), width)
    result.setCosmetic(cosmetic)
    return result


def route_path(points: NDArray[np.float64], horizontal: bool) -> QPainterPath:
    """The painted path of an edge: curves between layers, straight lines within them."""
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
