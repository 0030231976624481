"""Small log-log charts for the pictures of answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPen, QPolygonF

from espalier.app.features.kernels.charts.answers.picture import CENTRE, LEFT, RIGHT, Sheet
from espalier.app.number_text import NOT_MEASURED, THIN
from espalier.app.theme import PLOT_WIDTH
from espalier.app.translation import tr
from espalier.app.widgets.charts.log_chart import every_nth, round_numbers

AXIS, FOOT, HEAD = 54.0, 20.0, 40.0  # pixels of the y axis, the x axis, and of title and legend

Ticks = Callable[[float, float, int], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Curve:
    """A named line; `dots`: draw its points, `dashed`: computed, not measured."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    dots: bool = True
    dashed: bool = False


def draw_curves(
    sheet: Sheet, box: QRectF, title: str, curves: Sequence[Curve], x: Callable[[float], str],
    y: Callable[[float], str], mark: tuple[float, float, str] | None = None, ticks: Ticks = round_numbers,
) -> None:  # fmt: skip
    """Draw curves in a box; `x` and `y` format the axes' values, `ticks` gives those of y; `mark`: a labelled point."""
    sheet.text(QRectF(box.x(), box.y(), box.width(), 18), title, size=12, bold=True)
    _legend(sheet, box, [c for c in curves if c.points])
    inner = QRectF(box.x() + AXIS, box.y() + HEAD, box.width() - AXIS - 8, box.height() - HEAD - FOOT)
    points = [p for c in curves for p in c.points if p[0] > 0 and p[1] > 0]
    if not points or inner.height() < 20:
        sheet.line(inner.bottomLeft(), inner.bottomRight())
        sheet.text(inner, tr(NOT_MEASURED), sheet.look.muted, align=CENTRE)
        return
    project = _scaled(inner, points)
    _axes(sheet, inner, points, project, x, y, ticks)
    for curve in curves:
        _line(sheet, curve, project)
    if mark:
        at = project(mark[0], mark[1])
        sheet.line(QPointF(at.x(), inner.top()), QPointF(at.x(), inner.bottom()), sheet.look.muted, dashed=True)
        left = at.x() > inner.center().x()
        room = QRectF(inner.left(), inner.bottom() - 18, at.x() - inner.left() - 4, 16) if left else QRectF(
            at.x() + 4, inner.bottom() - 18, inner.right() - at.x() - 4, 16)  # fmt: skip
        sheet.text(room, mark[2], sheet.look.text, align=RIGHT if left else LEFT)


def _legend(sheet: Sheet, box: QRectF, curves: Sequence[Curve]) -> None:
    x = box.x()
    for curve in curves:
        if box.right() - x < 30:
            return
        colour = sheet.colour(curve.colour)
        used = sheet.text(QRectF(x, box.y() + 18, box.right() - x, 16), curve.name, colour.name())
        x += used + 12


def _scaled(inner: QRectF, points: Sequence[tuple[float, float]]) -> Callable[[float, float], QPointF]:
    (left, right), (low, high) = (_ends([p[i] for p in points]) for i in (0, 1))

    def project(x: float, y: float) -> QPointF:
        across = (math.log10(x) - left) / (right - left)
        up = (math.log10(y) - low) / (high - low)
        return QPointF(inner.left() + across * inner.width(), inner.bottom() - up * inner.height())

    return project


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max((high - low) * 0.05, 0.05)
    return low - room, high + room


def _axes(
    sheet: Sheet, inner: QRectF, points: Sequence[tuple[float, float]], project: Callable[[float, float], QPointF],
    x: Callable[[float], str], y: Callable[[float], str], ticks: Ticks,
) -> None:  # fmt: skip
    xs, ys = sorted({p[0] for p in points}), [p[1] for p in points]
    for value in ticks(min(ys), max(ys), max(2, int(inner.height() / 24))):
        at = project(xs[0], value).y()
        if inner.top() - 4 <= at <= inner.bottom() + 4:
            sheet.line(QPointF(inner.left(), at), QPointF(inner.right(), at))
            sheet.text(QRectF(inner.left() - AXIS, at - 8, AXIS - 6, 16), y(value), sheet.look.muted, 10.5, RIGHT)
    limit = max(2, int(inner.width() / 56))
    named = every_nth(xs, limit) if len(xs) <= 12 else round_numbers(xs[0], xs[-1], limit)
    for value in named:
        at = min(max(project(value, ys[0]).x(), inner.left()), inner.right())
        sheet.text(QRectF(at - 28, inner.bottom() + 4, 56, 14), x(value), sheet.look.muted, 10.5, CENTRE)


def _line(sheet: Sheet, curve: Curve, project: Callable[[float, float], QPointF]) -> None:
    points = [project(*p) for p in curve.points if p[0] > 0 and p[1] > 0]
    colour, painter = sheet.colour(curve.colour), sheet.painter
    pen = QPen(colour, PLOT_WIDTH)
    if curve.dashed:
        pen.setStyle(Qt.PenStyle.DashLine)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawPolyline(QPolygonF(points))
    if curve.dots:
        painter.setPen(QPen(QColor(sheet.look.panel), 1))
        painter.setBrush(colour)
        for at in points:
            painter.drawEllipse(at, 3.5, 3.5)


def binary_ticks(low: float, high: float, count: int) -> list[float]:
    """At most `most` powers of two between low and high."""
    powers = [2.0**p for p in range(math.floor(math.log2(low)), math.ceil(math.log2(high)) + 1)]
    return every_nth([v for v in powers if 0.8 * low <= v <= 1.25 * high], count)


def binary(value: float) -> str:
    """Format bytes with a binary unit: 512 B, 64 KiB, 16 MiB."""
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= size:
            return f"{value / size:.3g}{THIN}{unit}"
    return f"{value:.3g}{THIN}B"
