"""Drawing of a run's timeline: lanes of spans and the allocated memory below."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QFontMetrics,
    QImage,
    QPaintDevice,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QPolygonF,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame

from espalier.app.features.kernels.charts.run_lanes import COLOURS, Floats, Lane, Run, Span, rows_of, visible_lane
from espalier.app.figures.curves import ticks
from espalier.app.number_text import mebibytes, time_text
from espalier.app.theme import CATEGORIES, Palette, rgb
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart_export import Table, light_theme, offer_chart, write_chart
from espalier.app.widgets.charts.wave_rows import Span as Stretch
from espalier.app.widgets.forms.fields import tokens

HEAD, GAP, MEMORY, NAMES = 24, 2, 44, 74  # pixels: axis, lane gap, memory curve, lane names
HIGH = {"module": 18, "node": 22, "operation": 14, "device": 18}
READABLE = 26  # pixels from which a span is labelled
MIDDLE = Qt.AlignmentFlag.AlignVCenter


class TimelineCanvas(QAbstractScrollArea):
    """Drawing and geometry of the timeline; TimelineView adds mouse and keys."""

    def __init__(self) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        self.setAccessibleName(tr("Timeline of the run"))
        self.handle = offer_chart(self)
        self.run: Run | None = None
        self.seen = Stretch(0.0, 1.0)
        self.marked: frozenset[str] = frozenset()
        self.under: Span | None = None
        self.look = tokens(self)
        self._picture: QPixmap | None = None
        self._drawn: object = None

    def sizeHint(self) -> QSize:
        return QSize(480, 200)

    # -- content

    def show_run(self, run: Run | None) -> None:
        """Show a run from begin to end."""
        self.run, self.under = run, None
        self.seen = self.whole
        self._bound()
        self.viewport().update()

    @property
    def whole(self) -> Stretch:
        """Interval of the whole run."""
        return Stretch(0.0, self.run.length if self.run else 1.0)

    def fit(self) -> None:
        """Interval of the whole run."""
        self.see(self.whole)

    def see(self, stretch: Stretch) -> None:
        """Show an interval of time."""
        if stretch != self.seen:
            self.seen = stretch
            self.viewport().update()

    # -- geometry

    @property
    def wide(self) -> int:
        """Width of the spans' area in pixels."""
        return max(self.viewport().width() - NAMES - 8, 1)

    def x_of(self, time: Floats) -> Floats:
        """The x positions of times."""
        return NAMES + (time - self.seen.begin) / self.seen.length * self.wide

    def time_at(self, x: float) -> float:
        """The time at an x position."""
        return self.seen.begin + (x - NAMES) / self.wide * self.seen.length

    def tops(self) -> list[tuple[Lane, int]]:
        """The lanes with their y positions in the view."""
        top, lanes = HEAD - self.verticalScrollBar().value(), list[tuple[Lane, int]]()
        for lane in self.run.lanes if self.run else ():
            lanes.append((lane, top))
            top += HIGH[lane.kind] + GAP
        return lanes

    def lane_at(self, y: float) -> Lane | None:
        """The lane at a y position, or None."""
        return next((lane for lane, top in self.tops() if y >= HEAD and top <= y < top + HIGH[lane.kind]), None)

    @property
    def _memory(self) -> bool:
        return self.run is not None and len(self.run.held) > 1

    def _bound(self) -> None:
        tall = sum(HIGH[lane.kind] + GAP for lane in self.run.lanes) if self.run else 0
        room = self.viewport().height() - HEAD - (MEMORY if self._memory else 0)
        bar = self.verticalScrollBar()
        bar.setRange(0, max(tall - room, 0))
        bar.setPageStep(max(room, 1))
        bar.setSingleStep(20)

    # -- drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, area = QPainter(self.viewport()), self.viewport().rect()
        key = (self.run, self.seen, self.marked, self.look, area.size(), self.verticalScrollBar().value())
        if self._picture is None or self._drawn != key:
            ratio = self.devicePixelRatioF()
            self._picture = QPixmap(area.size() * ratio)
            self._picture.setDevicePixelRatio(ratio)
            inner = QPainter(self._picture)
            self.paint(inner)
            inner.end()
            self._drawn = key
        painter.drawPixmap(0, 0, self._picture)
        if box := self._box_under():
            painter.setClipRect(QRect(NAMES, HEAD, self.wide, self._foot - HEAD))
            painter.setPen(QPen(QColor(self.look.text), 1))
            painter.drawRect(box)
        painter.end()

    def _box_under(self) -> QRectF | None:
        """Box of the span under the pointer, or None."""
        for lane, top in self.tops() if self.under else ():
            if self.under in lane.spans[slice(*lane.among(self.under.begin, self.under.begin))]:
                left, right = self.x_of(np.array([self.under.begin, self.under.begin + self.under.length]))
                return QRectF(left, top + 0.5, max(right - left, 1.0) - 1, HIGH[lane.kind] - 1)
        return None

    @property
    def _foot(self) -> int:
        """The y position at which the lanes end."""
        return self.viewport().height() - (MEMORY if self._memory else 0)

    def paint(self, painter: QPainter) -> None:
        """Draw the timeline on the theme's background."""
        area = self.viewport().rect()
        painter.fillRect(area, QColor(self.look.panel))
        if self.run is None:
            return
        font = QFont(self.font())
        font.setPixelSize(11)
        painter.setFont(font)
        bottom = self._foot
        lanes = [(lane, top) for lane, top in self.tops() if top + HIGH[lane.kind] >= HEAD and top <= bottom]
        painter.save()
        painter.setClipRect(QRect(0, HEAD, NAMES, bottom - HEAD))
        painter.setPen(QColor(self.look.muted))
        for lane, top in lanes:
            painter.drawText(QRect(12, top, NAMES - 16, HIGH[lane.kind]), MIDDLE, lane.title)
        painter.setClipRect(QRect(NAMES, HEAD, self.wide, bottom - HEAD))
        for lane, top in lanes:
            self._paint_lane(painter, lane, top)
        painter.restore()
        if self._memory:
            self._paint_memory(painter, self.run, bottom)
        self._paint_head(painter)

    def _paint_lane(self, painter: QPainter, lane: Lane, top: int) -> None:
        """Draw narrow spans as one pixel line, the others individually."""
        visible, high = visible_lane(lane, self.seen.begin, self.seen.end, self.wide), HIGH[lane.kind]
        inks = span_colours(self.look, faint=lane.kind == "operation")
        table = np.array([rgb(c.name()) for c in inks] + [rgb(self.look.panel)], np.uint8)
        pixels = np.full((1, self.wide, 4), 255, np.uint8)
        pixels[0, :, 2::-1] = table[visible.codes]
        image = QImage(pixels.data, self.wide, 1, self.wide * 4, QImage.Format.Format_RGB32)
        painter.drawImage(QRectF(NAMES, top, self.wide, high), image, QRectF(0, 0, self.wide, 1))
        for index, left, right in zip(
            visible.large.tolist(), visible.lefts.tolist(), visible.rights.tolist(), strict=True
        ):
            box = QRectF(NAMES + left, top, right - left - 1, high)
            self._paint_span(painter, lane.spans[index], box, inks[lane.codes[index]])
        painter.setPen(QPen(QColor(self.look.accent), 2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for index in (k for node in self.marked for k in lane.places.get(node, ()) if lane.kind != "operation"):
            span = lane.spans[index]
            left, right = self.x_of(np.array([span.begin, span.begin + span.length]))
            painter.drawRect(QRectF(left + 1, top + 1, max(right - left - 3, 1.0), high - 2))

    def _paint_span(self, painter: QPainter, span: Span, box: QRectF, fill: QColor) -> None:
        painter.fillRect(box, fill)
        if span.rounds:
            painter.fillRect(box, QBrush(QColor(self.look.panel), Qt.BrushStyle.BDiagPattern))
        if box.width() >= READABLE:
            left = max(box.left(), float(NAMES))
            box_text = QRectF(left + 4, box.top(), min(box.right(), NAMES + self.wide) - left - 6, box.height())
            text = elided_path(span.name, painter.fontMetrics(), int(box_text.width()))
            painter.setPen(QColor(_ink(fill)))
            if len(text) > 2:
                painter.drawText(box_text, MIDDLE, text)

    def _paint_memory(self, painter: QPainter, run: Run, top: int) -> None:
        look, peak = self.look, max(float(run.held.max()), 1.0)
        painter.setPen(QColor(look.line))
        painter.drawLine(0, top, self.viewport().width(), top)
        painter.setPen(QColor(look.muted))
        painter.drawText(QRect(12, top + 4, NAMES - 12, 16), MIDDLE, "memory")
        painter.drawText(QRect(12, top + 20, NAMES - 12, 16), MIDDLE, mebibytes(peak))
        first = max(int(np.searchsorted(run.times, self.seen.begin, "right")) - 1, 0)
        after = int(np.searchsorted(run.times, self.seen.end, "right"))
        times = np.append(run.times[first:after], self.seen.end)
        levels = np.append(run.held[first:after], run.held_at(self.seen.end))
        xs, ys = self.x_of(times), top + MEMORY - 4 - levels / peak * (MEMORY - 10)
        points = [QPointF(max(xs[0], NAMES), top + MEMORY - 4)]
        for k in range(len(xs)):
            if k:
                points.append(QPointF(max(xs[k], NAMES), ys[k - 1]))
            points.append(QPointF(max(xs[k], NAMES), ys[k]))
        points.append(QPointF(max(xs[-1], NAMES), top + MEMORY - 4))
        painter.setPen(QPen(QColor(look.bar), 1.2))
        fill = QColor(look.bar)
        fill.setAlpha(60)
        painter.setBrush(fill)
        painter.save()
        painter.setClipRect(QRect(NAMES, top, self.wide, MEMORY))
        painter.drawPolygon(QPolygonF(points))
        painter.restore()

    def _paint_head(self, painter: QPainter) -> None:
        look, wide = self.look, self.viewport().width()
        painter.setPen(QColor(look.line))
        painter.drawLine(0, HEAD - 1, wide, HEAD - 1)
        for time in ticks(self.seen.begin, self.seen.end, max(self.wide // 110, 1)):
            x = float(self.x_of(np.array(time)))
            painter.setPen(QColor(look.line))
            painter.drawLine(QPointF(x, HEAD - 6), QPointF(x, HEAD - 1))
            painter.setPen(QColor(look.muted))
            text = time_text(time / 1e6) if time else "0"
            if x + 3 + painter.fontMetrics().horizontalAdvance(text) < wide:
                painter.drawText(QPointF(x + 3, HEAD - 8), text)

    # -- widget events

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._bound()

    def set_theme(self, palette: Palette) -> None:
        """Apply the theme's colours."""
        self.look = palette
        self.viewport().update()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange) and hasattr(self, "look"):
            self.set_theme(tokens(self))

    # -- files

    def table(self) -> Table:
        """One row per span."""
        rows = tuple(rows_of(self.run)) if self.run else ()
        return ("lane", "span", "node", "begin (µs)", "length (µs)"), rows

    def export(self, path: Path) -> None:
        """Export the view to a .png or .svg file, or all spans to a .csv; raises FileError."""
        with light_theme(self, path):
            write_chart(self.viewport(), path, self.table, self._paint_on)

    def _paint_on(self, device: QPaintDevice) -> None:
        painter = QPainter(device)
        painter.setClipRect(self.viewport().rect())
        self.paint(painter)
        painter.end()


def span_colours(look: Palette, faint: bool) -> list[QColor]:
    """The colours of COLOURS: by operation category, modules grey; `faint`: for torch operations."""
    plain = [QColor(CATEGORIES.get(name, look.chip)) for name in COLOURS]
    return [_mixed(c, QColor(look.panel), 0.45) for c in plain] if faint else plain


def elided_path(name: str, metrics: QFontMetrics, room: int) -> str:
    """The longest end of a dotted path that fits the width, else its elided last part."""
    parts = name.split(".")
    for k in range(len(parts)):
        if metrics.horizontalAdvance(text := ".".join(parts[k:])) <= room:
            return text
    return metrics.elidedText(parts[-1], Qt.TextElideMode.ElideRight, room)


def _mixed(one: QColor, other: QColor, fraction: float) -> QColor:
    rest = 1 - fraction
    red, green = fraction * one.red() + rest * other.red(), fraction * one.green() + rest * other.green()
    return QColor(round(red), round(green), round(fraction * one.blue() + rest * other.blue()))


def _ink(background: QColor) -> str:
    """Text colour with the better contrast."""
    light = 0.299 * background.red() + 0.587 * background.green() + 0.114 * background.blue()
    return "#1C2127" if light > 140 else "#FFFFFF"
