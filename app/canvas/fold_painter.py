"""Paints the cards of folds: a title, one bar per group, what differs, and the links."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter

from espalier.app.canvas.fold_card import (
    BEHIND,
    FOOT,
    NUMBER,
    SIDE,
    TOP,
    bar_height,
    card_size,
    every,
    slots,
    title_width,
)
from espalier.app.canvas.fold_metrics import FoldMetrics, links_of
from espalier.app.canvas.folding import Fold
from espalier.app.canvas.primitives import draw_rects, font, pen
from espalier.app.canvas.scene import Scene
from espalier.app.canvas.sprites import DETAILS_FROM, write
from espalier.app.theme import GROUP_RADIUS, NODE_LABEL, SECONDARY, SPARSITY, Palette, rgb

DOT = 4.0
ROUNDED = 96  # bars up to which each is rounded
_CENTRE = Qt.AlignmentFlag.AlignCenter
_RIGHT = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight


def paint_fold(painter: QPainter, scene: Scene, place: int, scale: float, palette: Palette) -> None:
    """Paint a fold; at small zoom its bars and, in constant size, its title."""
    layout, metrics = scene.layout, scene.fold_metrics(place)
    fold = layout.folds[place]
    x, y, w, h = layout.fold_rects[place].tolist()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(pen(palette.line))
    painter.setBrush(QColor(palette.panel))
    for k in (2, 1, 0):
        shift = k * BEHIND / 2
        painter.drawRoundedRect(QRectF(x + shift, y + shift, w - BEHIND, h - BEHIND), GROUP_RADIUS, GROUP_RADIUS)
    painter.save()
    painter.translate(x, y)
    colours = scene.fold_colours(place)
    _bars(painter, fold, metrics, colours)
    if scale >= DETAILS_FROM:
        _bits(painter, fold, metrics, colours)
        _inscribe(painter, fold, metrics, w - BEHIND, palette)
    else:
        _title(painter, fold, w - BEHIND, scale, palette)
    _dots(painter, len(fold.members), metrics, scale, palette)
    painter.restore()


def _bars(painter: QPainter, fold: Fold, metrics: FoldMetrics, colours: tuple[str, ...]) -> None:
    """The bars, in one call per colour where there are many."""
    painter.setPen(Qt.PenStyle.NoPen)
    bars = slots(len(fold.members)).copy()
    tall = np.array([bar_height(bits) for bits in metrics.bits])
    bars[:, 1] += bars[:, 3] - tall
    bars[:, 3] = tall
    if len(bars) <= ROUNDED:
        for row, colour in zip(bars.tolist(), colours, strict=True):
            painter.setBrush(QColor(colour))
            painter.drawRoundedRect(QRectF(*row), 2, 2)
        return
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    names = np.array(colours)
    for colour in dict.fromkeys(colours):
        painter.setBrush(QColor(colour))
        draw_rects(painter, bars[names == colour])
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)


def _dots(painter: QPainter, count: int, metrics: FoldMetrics, scale: float, palette: Palette) -> None:
    """An orange dot at the upper right of each bar whose group differs, at least 2 pixels in radius."""
    painter.setPen(pen(palette.panel, 1.0, False))
    painter.setBrush(QColor(SPARSITY))
    radius = max(DOT, 2 / scale)
    for k, _ in metrics.differing:
        x, y, w, h = slots(count)[k].tolist()
        painter.drawEllipse(QPointF(x + w, y + h - bar_height(metrics.bits[k])), radius, radius)


def _inscribe(painter: QPainter, fold: Fold, metrics: FoldMetrics, width: float, palette: Palette) -> None:
    """Title, counts, bits, numbers, what differs, and links."""
    count = len(fold.members)
    write(painter, fold.title, font(NODE_LABEL + 1, True), palette.text, QRectF(SIDE, 6, width - 2 * SIDE, 22))
    left = title_width(fold.title)
    face = font(SECONDARY)
    small = QFontMetricsF(face)
    said = next((t for t in metrics.counts() if small.horizontalAdvance(t) <= width - SIDE - left), "")
    painter.setFont(face)
    painter.setPen(QColor(palette.muted))
    painter.drawText(QRectF(left, 6, width - SIDE - left, 22), _RIGHT, said)
    step = every(count)
    for k, (x, y, w, h) in enumerate(slots(count).tolist()):
        if k % step == 0:
            painter.drawText(QRectF(x + w / 2 - 30, y + h, 60, NUMBER), _CENTRE, metrics.numbers[k])
    _links(painter, fold, palette)
    room = min(rect[0] for rect in links_of(fold).values()) - SIDE
    high = card_size(count, fold.title)[1] - BEHIND
    text, left = metrics.differences(), SIDE
    if text:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(SPARSITY))
        painter.drawEllipse(QPointF(SIDE + DOT, high - FOOT / 2 - 3), DOT, DOT)
        left += 2 * DOT + 6
    write(painter, text, face, palette.text, QRectF(left, high - FOOT, room - left + SIDE - 6, FOOT - 6))


def _links(painter: QPainter, fold: Fold, palette: Palette) -> None:
    painter.setFont(font(SECONDARY))
    painter.setPen(QColor(palette.accent))
    for name, rect in links_of(fold).items():
        painter.drawText(QRectF(*rect), _RIGHT, name)


def _bits(painter: QPainter, fold: Fold, metrics: FoldMetrics, colours: tuple[str, ...]) -> None:
    """The mean bits inside each bar that has room."""
    painter.setFont(font(SECONDARY - 1))
    for (x, y, w, h), bits, colour in zip(slots(len(fold.members)).tolist(), metrics.bits, colours, strict=True):
        text = f"{bits:.2g}"
        if bits == bits and bar_height(bits) >= 15 and w >= 7 * len(text) + 3:
            red, green, blue = rgb(colour)
            painter.setPen(QColor("#101418" if 0.299 * red + 0.587 * green + 0.114 * blue > 150 else "#FFFFFF"))
            painter.drawText(QRectF(x, y + h - 15, w, 13), _CENTRE, text)


def _title(painter: QPainter, fold: Fold, width: float, scale: float, palette: Palette) -> None:
    """The title in constant size, where it fits."""
    size = min(11 / scale, 30.0)
    face = font(size, True)
    if QFontMetricsF(face).horizontalAdvance(fold.title) <= width - 2 * SIDE:
        write(painter, fold.title, face, palette.text, QRectF(SIDE, 3, width - 2 * SIDE, TOP - 4))
