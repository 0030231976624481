"""Cached pictures of nodes, painted once per content and zoom."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPainterPath, QPixmap

from espalier.app.canvas.port_rows import paint_ports
from espalier.app.canvas.primitives import font, pen
from espalier.app.figures.captions import BADGES_FROM, NODE_HEIGHT, adapter_text, leaves_name
from espalier.app.theme import NODE_LABEL, RADIUS, SECONDARY, SPARSITY, TAGS, Palette, mix

MEMORY = 48 << 20  # bytes of cached pictures
NAMES_FROM, DETAILS_FROM = 0.42, 0.62  # scales from which names, and details and badges, are painted
TINT = 0.16  # share of its colour in a card that shows only its name


@dataclass(frozen=True, slots=True)
class Face:
    """The appearance of a node: all that its picture depends on."""

    name: str
    detail: str
    badge: str
    sparsity: float
    colour: str
    width: float
    problem: bool = False
    tinted: bool = False
    quiet: bool = False
    adapter: str = ""
    tag: str = ""  # a colour of TAGS
    noted: bool = False
    muted: bool = False
    ports: tuple[tuple[str, str], ...] = ()  # label and format of each, at near zoom


class Sprites:
    """The pictures for one scale, pixel ratio and palette."""

    def __init__(self) -> None:
        self._key: object = None
        self._cache: dict[object, QPixmap] = {}
        self._bytes = 0

    def clear(self) -> None:
        """Clear the cache."""
        self._cache.clear()
        self._bytes = 0

    def prepare(self, scale: float, ratio: float, palette: Palette) -> None:
        """Set scale, pixel ratio and palette; clears the cache if any has changed."""
        if self._key != (scale, ratio, palette.name):
            self._key = (scale, ratio, palette.name)
            self.clear()
        self.scale, self.ratio, self.palette = scale, ratio, palette

    def get(self, key: object, width: float, height: float, paint: Callable[[QPainter], None]) -> QPixmap:
        """The picture of `key`; `paint` paints it in canvas units if it is not cached."""
        picture = self._cache.get(key)
        if picture is None:
            if self._bytes > MEMORY:
                self.clear()
            picture = self._cache[key] = self._paint(width, height, paint)
            self._bytes += 4 * picture.width() * picture.height()
        return picture

    def _paint(self, width: float, height: float, paint: Callable[[QPainter], None]) -> QPixmap:
        k = self.scale * self.ratio
        picture = QPixmap(math.ceil((width + 4) * k) + 1, math.ceil((height + 4) * k) + 1)
        picture.fill(Qt.GlobalColor.transparent)
        painter = QPainter(picture)
        painter.setRenderHints(QPainter.RenderHint.Antialiasing | QPainter.RenderHint.TextAntialiasing)
        painter.scale(k, k)
        painter.translate(2, 2)
        paint(painter)
        painter.end()
        picture.setDevicePixelRatio(self.ratio)
        return picture

    def node(self, face: Face) -> QPixmap:
        """The picture of a node, with a margin of 2 canvas units."""
        return self.get(face, face.width, NODE_HEIGHT, lambda p: paint_node(p, face, self.palette, self.scale))


def paint_node(painter: QPainter, face: Face, palette: Palette, scale: float) -> None:
    """Paint a node with its corner at the origin."""
    paint_card(painter, face, palette, _strength(scale))
    if scale < NAMES_FROM:
        return
    if scale < DETAILS_FROM:
        size = min(10.0 / scale, 22.0)
        write(painter, face.name, font(size), palette.text, QRectF(12, 0, face.width - 16, NODE_HEIGHT))
        return
    ink = palette.muted if face.quiet or face.muted else palette.text
    if face.ports and paint_ports(painter, face.name, face.detail, face.ports, face.width, scale, palette, ink):
        _marks(painter, face, palette)
        return
    left = low = right = face.width - 8
    if face.badge and face.sparsity >= 0:
        paint_sparsity(painter, face.sparsity, right, palette)
        low = right - 36
    name = QFontMetricsF(font(NODE_LABEL)).horizontalAdvance(face.name)
    if face.badge and leaves_name(name, badge_width(face.badge), face.width):
        left = paint_badge(painter, face.badge, right, palette)
    elif face.badge:  # below the name
        low = paint_badge(painter, face.badge, low, palette, 22) - 4
    write(painter, face.name, font(NODE_LABEL), ink, QRectF(13, 4, left - 17, 18))
    if face.adapter:
        full = (
            QFontMetricsF(font(SECONDARY)).horizontalAdvance(face.detail) > low - 13 - 58
        )  # otherwise only its rank is shown
        low = paint_adapter(painter, face.adapter.removeprefix("LoRA ") if full else face.adapter, low, palette)
    if low - 13 >= SECONDARY:  # more than an ellipsis fits
        write(painter, face.detail, font(SECONDARY), palette.muted, QRectF(13, 20, low - 13, 16))
    if face.problem:
        paint_mark(painter, face.width, palette)


def _marks(painter: QPainter, face: Face, palette: Palette) -> None:
    """On a card with rows of ports: the pruned share along the lower edge, a problem; the adapter is in the detail."""
    if face.sparsity >= 0:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(palette.chip))
        painter.drawRect(QRectF(6, NODE_HEIGHT - 2.5, face.width - 12, 1.5))
        painter.setBrush(QColor(SPARSITY))
        painter.drawRect(QRectF(6, NODE_HEIGHT - 2.5, max((face.width - 12) * min(face.sparsity, 1.0), 2.0), 1.5))
    if face.problem:
        paint_mark(painter, face.width, palette)


def _strength(scale: float) -> float:
    """How much of its colour a card shows: all of it without a name, some beside a short name, none with details."""
    return 1.0 if scale < NAMES_FROM else TINT if scale < DETAILS_FROM else 0.0


def paint_card(painter: QPainter, face: Face, palette: Palette, strength: float = 0.0) -> None:
    """The card itself: border, category, colour tag, the folded corner of a note. Dashed where the node is muted.

    `strength`: the share of the node's colour in the ground, 0 … 1.
    """
    box = QRectF(0.5, 0.5, face.width - 1, NODE_HEIGHT - 1)
    ground = mix((palette.node, face.colour), max(strength, 0.28 if face.tinted else 0.0))
    border = pen(palette.bad if face.problem else palette.line, 1.4 if face.problem else 1.0, False)
    if face.muted:
        border.setColor(QColor(palette.muted))
        border.setStyle(Qt.PenStyle.DashLine)
    painter.setPen(border)
    painter.setBrush(QColor(palette.background if face.muted and strength < 1 else ground))
    painter.drawRoundedRect(box, RADIUS, RADIUS)
    clip = QPainterPath()
    clip.addRoundedRect(box.adjusted(-0.5, -0.5, 0.5, 0.5), RADIUS, RADIUS)
    painter.save()
    painter.setClipPath(clip)
    painter.fillRect(QRectF(0, 0, 4, NODE_HEIGHT), QColor(palette.line if face.muted else face.colour))
    if face.tag:
        painter.fillRect(QRectF(face.width - 5, 0, 5, NODE_HEIGHT), QColor(TAGS[face.tag]))
    if face.noted:
        paint_corner(painter, face.width, palette)
    painter.restore()


def paint_corner(painter: QPainter, width: float, palette: Palette) -> None:
    """The folded corner of a node that has a note, at its lower right."""
    corner = QPainterPath(QPointF(width - 11, NODE_HEIGHT))
    corner.lineTo(width, NODE_HEIGHT - 11)
    corner.lineTo(width, NODE_HEIGHT)
    painter.fillPath(corner, QColor(palette.accent))


def badge_width(text: str) -> float:
    """Width of a format badge."""
    return QFontMetricsF(font(SECONDARY)).horizontalAdvance(text) + 12


def paint_badge(painter: QPainter, text: str, right: float, palette: Palette, top: float = 6) -> float:
    """Paint the format badge; returns its left edge."""
    face = font(SECONDARY)
    width = min(badge_width(text), right - BADGES_FROM)
    text = QFontMetricsF(face).elidedText(text, Qt.TextElideMode.ElideRight, width - 8)
    box = QRectF(right - width, top, width, 15)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(palette.chip))
    painter.drawRoundedRect(box, 7.5, 7.5)
    painter.setFont(face)
    painter.setPen(QColor(palette.text))
    painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)
    return right - width


def paint_adapter(painter: QPainter, text: str, right: float, palette: Palette) -> float:
    """Paint the outlined badge of an adapter, if it fits; returns the right limit of the text beside it."""
    face = font(SECONDARY - 1)
    text = adapter_text(text, right - BADGES_FROM, QFontMetricsF(face).horizontalAdvance)
    if not text:
        return right
    width = QFontMetricsF(face).horizontalAdvance(text) + 10
    box = QRectF(right - width, 23.5, width, 13)
    painter.setPen(pen(palette.accent, 1.0, False))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(box, 6.5, 6.5)
    painter.setFont(face)
    painter.setPen(QColor(palette.text))
    painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)
    return right - width - 4


def paint_sparsity(painter: QPainter, share: float, right: float, palette: Palette) -> None:
    """Paint the pruned share as a small bar below the badge."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(palette.chip))
    painter.drawRoundedRect(QRectF(right - 30, 26, 28, 4), 2, 2)
    painter.setBrush(QColor(SPARSITY))
    painter.drawRoundedRect(QRectF(right - 30, 26, max(28 * min(share, 1.0), 4.0), 4), 2, 2)


def paint_mark(painter: QPainter, width: float, palette: Palette) -> None:
    """Paint the mark of a problem at the upper right corner."""
    painter.setPen(pen(palette.background, 1.5, False))
    painter.setBrush(QColor(palette.bad))
    painter.drawEllipse(QPointF(width - 4, 4), 5, 5)
    painter.setPen(QColor(palette.node))
    painter.setFont(font(8, True))
    painter.drawText(QRectF(width - 9, -1, 10, 10), Qt.AlignmentFlag.AlignCenter, "!")


_elided: dict[tuple[str, float, int, int], str] = {}


def write(painter: QPainter, text: str, face: QFont, colour: str, box: QRectF) -> None:
    """Paint one line of text, elided to its box."""
    key = (text, face.pointSizeF(), int(face.weight()), int(box.width()))
    shown = _elided.get(key)
    if shown is None:
        if len(_elided) > 20_000:
            _elided.clear()
        shown = _elided[key] = QFontMetricsF(face).elidedText(text, Qt.TextElideMode.ElideRight, box.width())
    painter.setFont(face)
    painter.setPen(QColor(colour))
    painter.drawText(box, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, shown)
