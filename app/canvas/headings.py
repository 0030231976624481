"""Paints collapsed groups with their bars, headers of expanded groups, and names at small zoom."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPainterPath

from espalier.app.canvas.fold_metrics import main_colour
from espalier.app.canvas.layout import CLOSED_HEIGHT, HEAD
from espalier.app.canvas.node_metrics import counts
from espalier.app.canvas.primitives import font, pen
from espalier.app.canvas.scene import Scene
from espalier.app.canvas.sprites import DETAILS_FROM, write
from espalier.app.theme import GROUP_RADIUS, NODE_LABEL, SECONDARY, Palette, mix

FAR_WIDTH, FAR_HEIGHT, FAR_LINE = (
    64,
    54,
    17,
)  # pixels: size of a group for its name at small zoom, distance of two names
FAR_TINT, FAR_NAME = 0.45, 11  # share of the colour in a collapsed group, height in pixels for its name
_RIGHT = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight


def paint_closed(painter: QPainter, scene: Scene, place: int, scale: float, palette: Palette) -> None:
    """Paint a collapsed group: name, counts, and the weight bits of its layers as bars."""
    layout = scene.layout
    number = int(layout.groups[place])
    group = layout.tree.groups[number]
    figures = scene.figures.group(layout.tree, number)
    x, y, w, h = layout.group_rects[place].tolist()
    painter.setPen(pen(palette.line))
    painter.setBrush(QColor(palette.panel))
    painter.drawRoundedRect(QRectF(x, y, w, h), GROUP_RADIUS, GROUP_RADIUS)
    code = scene.colours.code_of(figures.rows)
    if code is not None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(scene.colours.colours[code]))
        painter.drawRoundedRect(QRectF(x + 3, y + 8, 4, h - 16), 2, 2)
    if scale < DETAILS_FROM:
        triangle(painter, x + 13, y + CLOSED_HEIGHT / 2, False, palette)
        face = font(min(10 / scale, 20), True)
        write(painter, group.label, face, palette.text, QRectF(x + 24, y, w - 30, CLOSED_HEIGHT))
        return
    triangle(painter, x + 13, y + 15, False, palette)
    room = w - 30 - (7.0 * len(figures.bars) + 12 if figures.bars else 0.0)
    write(painter, group.label, font(NODE_LABEL, True), palette.text, QRectF(x + 24, y + 5, room, 19))
    metrics = QFontMetricsF(font(SECONDARY))
    texts = counts(group.size, figures.parameters, scene.figures.twins(layout.tree, number))
    text = next((t for t in texts if metrics.horizontalAdvance(t) <= room), texts[-1])
    write(painter, text, font(SECONDARY), palette.muted, QRectF(x + 24, y + 23, room, 16))
    paint_bars(painter, figures.bars, x + w - 10, y + CLOSED_HEIGHT / 2, palette)


def paint_bars(painter: QPainter, bars: tuple[float, ...], right: float, middle: float, palette: Palette) -> None:
    """Paint one bar per few layers, with the mean bits of their weights as its height (32 bits: full height)."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(palette.bar))
    for k, bits in enumerate(reversed(bars)):
        height = max(20 * min(bits, 32) / 32, 2.0)
        painter.drawRect(QRectF(right - 7 * k - 5, middle + 10 - height, 5, height))


def paint_head(painter: QPainter, scene: Scene, place: int, scale: float, palette: Palette) -> None:
    """Paint the header of an expanded group: its name at the left, its counts right of the wires that cross it."""
    layout = scene.layout
    x, y, w, _ = layout.group_rects[place].tolist()
    doors = layout.group_doors[place].tolist()
    group = layout.tree.groups[int(layout.groups[place])]
    full = scale >= DETAILS_FROM
    face, box = font(NODE_LABEL if full else min(10 / scale, 22), True), QRectF(x + 26, y, w - 38, HEAD)
    width = min(QFontMetricsF(face).horizontalAdvance(group.label), box.width())
    if doors[0] < box.x() + width + 4:
        ground = QColor(palette.group if group.depth % 2 else palette.background)
        painter.fillRect(QRectF(box.x(), y + 8, width + 3, HEAD - 16), ground)
    triangle(painter, x + 15, y + HEAD / 2, True, palette)
    write(painter, group.label, face, palette.text, box)
    if full:
        _counts(painter, scene, place, box, box.x() + width + 12, palette)


def _counts(painter: QPainter, scene: Scene, place: int, box: QRectF, left: float, palette: Palette) -> None:
    """Paint the longest form of the counts that fits beside or between the wires."""
    layout = scene.layout
    number = int(layout.groups[place])
    group = layout.tree.groups[number]
    free = layout.free_in_head(place, left, box.right())
    face = font(SECONDARY)
    metrics = QFontMetricsF(face)
    painter.setFont(face)
    painter.setPen(QColor(palette.muted))
    for text in counts(
        group.size, scene.figures.group(layout.tree, number).parameters, scene.figures.twins(layout.tree, number)
    ):
        need = metrics.horizontalAdvance(text)
        end = next((b for a, b in free if b - a >= need), None)
        if end is not None:
            painter.drawText(QRectF(end - need - 1, box.y(), need + 1, HEAD), _RIGHT, text)
            return


def paint_far_heads(painter: QPainter, scene: Scene, opened: list[int], scale: float, palette: Palette) -> None:
    """Paint names at constant size at small zoom, if the group is large enough and no outer name overlaps."""
    layout = scene.layout
    face = font(11 / scale, True)
    written: dict[int, float] = {}
    for place in opened:
        x, y, w, h = layout.group_rects[place].tolist()
        number = int(layout.groups[place])
        around = layout.tree.ancestors(number)[:-1]
        near = any(g in written and (y - written[g]) * scale < FAR_LINE for g in around)
        if w * scale < FAR_WIDTH or h * scale < FAR_HEIGHT or near:
            continue
        written[number] = y
        label = layout.tree.groups[number].label
        width = min(QFontMetricsF(face).horizontalAdvance(label), w - 12 / scale)
        box = QRectF(x + 5 / scale, y + 3 / scale, width + 4 / scale, 15 / scale)
        ground = QColor(palette.panel)
        ground.setAlpha(215)
        painter.fillRect(box.adjusted(-2 / scale, 0, 0, 0), ground)
        write(painter, label, face, palette.text, box)


def paint_far_closed(painter: QPainter, scene: Scene, place: int, scale: float, palette: Palette) -> None:
    """Paint a collapsed group at small zoom: a tint of its main colour, its name in constant size where it fits."""
    layout = scene.layout
    number = int(layout.groups[place])
    x, y, w, h = layout.group_rects[place].tolist()
    colour = main_colour(scene.figures.group(layout.tree, number).rows, scene.figures, scene.colours)
    painter.setPen(pen(palette.edge))
    painter.setBrush(QColor(mix((palette.panel, colour), FAR_TINT)))
    painter.drawRect(QRectF(x, y, w, h))
    face, room = font(10 / scale, True), QRectF(x + 4 / scale, y, w - 8 / scale, min(h, CLOSED_HEIGHT))
    label = layout.tree.groups[number].label
    if min(h, CLOSED_HEIGHT) * scale >= FAR_NAME and QFontMetricsF(face).horizontalAdvance(label) <= room.width():
        write(painter, label, face, palette.text, room)


def triangle(painter: QPainter, x: float, y: float, opened: bool, palette: Palette) -> None:
    """Paint the triangle that expands or collapses a group."""
    path = QPainterPath()
    points = ((-4, -2.5), (4, -2.5), (0, 3)) if opened else ((-2.5, -4), (-2.5, 4), (3, 0))
    path.moveTo(x + points[0][0], y + points[0][1])
    for dx, dy in points[1:]:
        path.lineTo(x + dx, y + dy)
    path.closeSubpath()
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(palette.muted))
    painter.drawPath(path)
