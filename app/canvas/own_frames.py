"""Paints what a person has arranged: frames around nodes behind them, their titles, and the marks of pins."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter

from espalier.app.canvas.boxes import OwnFrame
from espalier.app.canvas.camera import Area
from espalier.app.canvas.movement import rect_of
from espalier.app.canvas.primitives import font, pen
from espalier.app.canvas.scene import Scene
from espalier.app.canvas.sprites import NAMES_FROM, write
from espalier.app.theme import GROUP_RADIUS, SECONDARY, Palette, frame_colours

FAR_NAME, FAR_ROOM = 11, 48  # pixels: the height of a title at small zoom, the least width of a frame that shows it
PIN = 3.0  # radius of the head of a pin, canvas units


def _touches(rect: Area, area: Area) -> bool:
    x, y, w, h = area
    return rect[0] <= x + w and rect[0] + rect[2] >= x and rect[1] <= y + h and rect[1] + rect[3] >= y


def paint_own_frames(painter: QPainter, frames: Sequence[OwnFrame], area: Area, palette: Palette) -> None:
    """Paint the frames that touch an area, the larger ones first."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    for frame in frames:
        if _touches(frame.rect, area):
            border, ground, _ = frame_colours(frame.colour, palette)
            fill = QColor(ground)
            fill.setAlpha(210)  # what is around it shows through
            painter.setPen(pen(border, 1.2))
            painter.setBrush(fill)
            painter.drawRoundedRect(QRectF(*frame.rect), GROUP_RADIUS, GROUP_RADIUS)


def paint_tabs(painter: QPainter, frames: Sequence[OwnFrame], area: Area, scale: float, palette: Palette) -> None:
    """Paint the titles of the frames that touch an area: on their tabs, at small zoom in constant size."""
    for frame in frames:
        if not _touches(frame.rect, area):
            continue
        border, _, ground = frame_colours(frame.colour, palette)
        if scale >= NAMES_FROM:
            box, face = QRectF(*frame.tab), font(SECONDARY + 1, True)
        elif frame.rect[2] * scale < FAR_ROOM:
            continue
        else:
            face = font(FAR_NAME / scale, True)
            width = QFontMetricsF(face).horizontalAdvance(frame.title) + 10 / scale
            box = QRectF(frame.rect[0], frame.rect[1], min(width, frame.rect[2]), 16 / scale)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(pen(border, 1.2))
        painter.setBrush(QColor(ground))
        radius = min(5.0, box.height() / 3)
        painter.drawRoundedRect(box, radius, radius)
        inset = 8.0 if scale >= NAMES_FROM else 4 / scale
        write(painter, frame.title, face, palette.text, box.adjusted(inset, 0, -inset / 2, 0))


def paint_pins(painter: QPainter, scene: Scene, area: Area, palette: Palette) -> None:
    """Paint a small pin on the upper edge of each pinned box that touches an area."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    lifted = scene.lifted
    for item in scene.layout.pinned:
        rect = rect_of(scene.layout, item).tolist()
        if (
            lifted is not None
            and {"node": lifted.nodes, "group": lifted.groups, "fold": lifted.folds}[item.kind][item.place]
        ):
            continue
        if _touches((rect[0], rect[1] - 6, rect[2], rect[3] + 6), area):
            paint_pin(painter, rect[0] + 9, rect[1], palette)


def paint_pin(painter: QPainter, x: float, y: float, palette: Palette) -> None:
    """Paint a pin whose needle ends below (x, y)."""
    painter.setPen(pen(palette.accent, 1.4, False))
    painter.drawLine(QPointF(x, y - 2), QPointF(x, y + 5))
    painter.setBrush(QColor(palette.accent))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.drawEllipse(QPointF(x, y - 2.5), PIN, PIN)
