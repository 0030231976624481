"""The ports of a node with the format of each, drawn in place of one badge where the zoom leaves room for them.

Text keeps its size in pixels, so that a card holds the more rows the larger it is on the screen.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter

from espalier.app.canvas.primitives import font
from espalier.app.figures.captions import NODE_HEIGHT
from espalier.app.theme import NODE_LABEL, SECONDARY, Palette

PORTS_FROM = 1.35  # scale from which ports have rows
HEAD, ROW, FOOT, SIDE, GAP = 16.0, 13.0, 3.0, 10.0, 10.0  # pixels, divided by GROWTH: title, row, below, sides, columns
GROWTH = 1.1  # scale at which text has the size of the theme
LEAST = 80.0  # pixels of a column

Ports = Sequence[tuple[str, str]]  # label of a port, label of its format


def grid(count: int, width: float, scale: float) -> tuple[int, int]:
    """(rows, columns) for `count` ports on a card of `width`; (0, 0) if they do not fit."""
    unit = GROWTH / scale
    rows = int((NODE_HEIGHT - (HEAD + FOOT) * unit) / (ROW * unit))
    if count == 0 or rows == 0:
        return 0, 0
    columns = -(-count // rows)
    room = (width - 2 * SIDE * unit - (columns - 1) * GAP * unit) / columns
    return (min(rows, count), columns) if room >= LEAST * unit else (0, 0)


def paint_ports(painter: QPainter, name: str, detail: str, ports: Ports, width: float, scale: float, palette: Palette,
                ink: str) -> bool:  # fmt: skip
    """Name and detail on one line, below it the ports in columns; False, and nothing painted, if they do not fit."""
    rows, columns = grid(len(ports), width, scale)
    if not rows:
        return False
    unit = GROWTH / scale
    left, right = 4 + SIDE * unit * 0.8, width - SIDE * unit
    face = font(NODE_LABEL * unit)
    end = left + QFontMetricsF(face).horizontalAdvance(name)
    _line(painter, name, face, ink, QRectF(left, 1.5 * unit, right - left, HEAD * unit))
    if right - end > 40 * unit:
        box = QRectF(end + 8 * unit, 1.5 * unit, right - end - 8 * unit, HEAD * unit)
        _line(painter, detail, font(SECONDARY * unit), palette.muted, box, Qt.AlignmentFlag.AlignRight)
    top = HEAD * unit + (NODE_HEIGHT - (HEAD + FOOT + rows * ROW) * unit) / 2
    wide = (right - left - (columns - 1) * GAP * unit) / columns
    for k, (label, form) in enumerate(ports):
        box = QRectF(left + k // rows * (wide + GAP * unit), top + k % rows * ROW * unit, wide, ROW * unit)
        _row(painter, label, form, box, unit, palette)
    return True


def _row(painter: QPainter, label: str, form: str, box: QRectF, unit: float, palette: Palette) -> None:
    face = font((SECONDARY - 0.5) * unit)
    metrics = QFontMetricsF(face)
    _line(painter, label, face, palette.muted, box)
    if not form:
        return
    most = box.width() - metrics.horizontalAdvance(label) - 4 * unit
    wide = min(metrics.horizontalAdvance(form) + 9 * unit, most)
    chip = QRectF(box.right() - wide, box.y() + 0.8 * unit, wide, box.height() - 1.6 * unit)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(palette.chip))
    painter.drawRoundedRect(chip, chip.height() / 2, chip.height() / 2)
    _line(painter, form, face, palette.text, chip.adjusted(3 * unit, 0, -3 * unit, 0), Qt.AlignmentFlag.AlignHCenter)


def _line(painter: QPainter, text: str, face: QFont, colour: str, box: QRectF,
          side: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignLeft) -> None:  # fmt: skip
    """One line of text, elided to its box."""
    painter.setFont(face)
    painter.setPen(QColor(colour))
    shown = QFontMetricsF(face).elidedText(text, Qt.TextElideMode.ElideRight, box.width() + 0.5)
    painter.drawText(box, Qt.AlignmentFlag.AlignVCenter | side, shown)
