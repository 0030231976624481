"""The timeline of a run as it is drawn: lanes of spans, and below them the memory that is held."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QFontMetrics,
    QPaintDevice,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame

from app.curve_picture import ticks
from app.fields import tokens
from app.kernels_words import time_words
from app.plots.picture import Table, in_light, write_chart
from app.plots.run_lanes import Floats, Lane, Run, Span, rows_of, visible
from app.plots.wave_rows import Span as Stretch
from app.theme import CATEGORIES, Palette
from app.words import mebibytes

HEAD, GAP, MEMORY, NAMES = 24, 2, 44, 74  # pixels: the axis, between lanes, the curve below, the lanes' names
HIGH = {"module": 18, "node": 22, "operation": 14, "device": 18}
READABLE = 26  # pixels of a span that has room for words
MIDDLE = Qt.AlignmentFlag.AlignVCenter


class TimelineCanvas(QAbstractScrollArea):
    """What is seen of a run; TimelineView puts hands on it."""

    def __init__(self) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        self.setAccessibleName("Timeline of the run")
        self.run: Run | None = None
        self.seen = Stretch(0.0, 1.0)
        self.marked: frozenset[str] = frozenset()
        self.under: Span | None = None
        self.look = tokens(self)

    def sizeHint(self) -> QSize:
        return QSize(480, 200)

    # -- what is shown

    def show_run(self, run: Run | None) -> None:
        """Show another run, whole."""
        self.run, self.under = run, None
        self.seen = self.whole
        self._bound()
        self.viewport().update()

    @property
    def whole(self) -> Stretch:
        """All of the run."""
        return Stretch(0.0, self.run.length if self.run else 1.0)

    def fit(self) -> None:
        """All of the run."""
        self.see(self.whole)

    def see(self, stretch: Stretch) -> None:
        """Another stretch of time."""
        if stretch != self.seen:
            self.seen = stretch
            self.viewport().update()

    # -- where things are

    @property
    def wide(self) -> int:
        """Pixels of the spans."""
        return max(self.viewport().width() - NAMES - 8, 1)

    def x_of(self, time: Floats) -> Floats:
        """Where a time lies."""
        return NAMES + (time - self.seen.begin) / self.seen.length * self.wide

    def time_at(self, x: float) -> float:
        """The time at a place."""
        return self.seen.begin + (x - NAMES) / self.wide * self.seen.length

    def tops(self) -> list[tuple[Lane, int]]:
        """The lanes and where each begins, from the top of the view."""
        top, found = HEAD - self.verticalScrollBar().value(), list[tuple[Lane, int]]()
        for lane in self.run.lanes if self.run else ():
            found.append((lane, top))
            top += HIGH[lane.kind] + GAP
        return found

    def lane_at(self, y: float) -> Lane | None:
        """The lane under a place."""
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
        painter = QPainter(self.viewport())
        self.paint(painter)
        painter.end()

    def paint(self, painter: QPainter) -> None:
        """Draw all on the ground of the theme."""
        area = self.viewport().rect()
        painter.fillRect(area, QColor(self.look.panel))
        if self.run is None:
            return
        font = QFont(self.font())
        font.setPixelSize(11)
        painter.setFont(font)
        foot = area.height() - (MEMORY if self._memory else 0)
        shown = [(lane, top) for lane, top in self.tops() if top + HIGH[lane.kind] >= HEAD and top <= foot]
        painter.save()
        painter.setClipRect(QRect(0, HEAD, NAMES, foot - HEAD))
        painter.setPen(QColor(self.look.muted))
        for lane, top in shown:
            painter.drawText(QRect(12, top, NAMES - 16, HIGH[lane.kind]), MIDDLE, lane.title)
        painter.setClipRect(QRect(NAMES, HEAD, self.wide, foot - HEAD))
        for lane, top in shown:
            for span, left, right in visible(lane, self.seen.begin, self.seen.end, self.x_of):
                self._paint_span(painter, lane, span, QRectF(left, top, right - left, HIGH[lane.kind]))
        painter.restore()
        if self._memory:
            self._paint_memory(painter, self.run, foot)
        self._paint_head(painter)

    def _paint_span(self, painter: QPainter, lane: Lane, span: Span, box: QRectF) -> None:
        look, ground = self.look, self.colour(lane, span)
        inner = box.adjusted(0, 0, -1 if box.width() > 3 else 0, 0)
        painter.fillRect(inner, ground)
        if span.rounds:
            painter.fillRect(inner, QBrush(QColor(look.panel), Qt.BrushStyle.BDiagPattern))
        if self._is_marked(lane, span):
            painter.setPen(QPen(QColor(look.accent), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(inner.adjusted(1, 1, -1, -1))
        if box.width() >= READABLE:
            left = max(inner.left(), float(NAMES))
            place = QRectF(left + 4, box.top(), min(inner.right(), NAMES + self.wide) - left - 6, box.height())
            words = fitted(span.name, painter.fontMetrics(), int(place.width()))
            painter.setPen(QColor(_ink(ground)))
            if len(words) > 2:
                painter.drawText(place, MIDDLE, words)

    def _is_marked(self, lane: Lane, span: Span) -> bool:
        if span is self.under:
            return True
        return lane.kind in ("node", "device") and bool(self.marked.intersection(span.nodes))

    def colour(self, lane: Lane, span: Span) -> QColor:
        """By the kind of operation; modules are grey, operations fainter than their node."""
        if not span.colour:
            return QColor(self.look.chip)
        plain = QColor(CATEGORIES.get(span.colour, CATEGORIES["other"]))
        return _mixed(plain, QColor(self.look.panel), 0.45) if lane.kind == "operation" else plain

    def _paint_memory(self, painter: QPainter, run: Run, top: int) -> None:
        look, most = self.look, max(float(run.held.max()), 1.0)
        painter.setPen(QColor(look.line))
        painter.drawLine(0, top, self.viewport().width(), top)
        painter.setPen(QColor(look.muted))
        painter.drawText(QRect(12, top + 4, NAMES - 12, 16), MIDDLE, "memory")
        painter.drawText(QRect(12, top + 20, NAMES - 12, 16), MIDDLE, mebibytes(most))
        first = max(int(np.searchsorted(run.times, self.seen.begin, "right")) - 1, 0)
        after = int(np.searchsorted(run.times, self.seen.end, "right"))
        times = np.append(run.times[first:after], self.seen.end)
        levels = np.append(run.held[first:after], run.held_at(self.seen.end))
        xs, ys = self.x_of(times), top + MEMORY - 4 - levels / most * (MEMORY - 10)
        points = [QPointF(max(xs[0], NAMES), top + MEMORY - 4)]
        for k in range(len(xs)):
            if k:
                points.append(QPointF(max(xs[k], NAMES), ys[k - 1]))
            points.append(QPointF(max(xs[k], NAMES), ys[k]))
        points.append(QPointF(max(xs[-1], NAMES), top + MEMORY - 4))
        painter.setPen(QPen(QColor(look.bar), 1.2))
        ground = QColor(look.bar)
        ground.setAlpha(60)
        painter.setBrush(ground)
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
            words = time_words(time / 1e6) if time else "0"
            if x + 3 + painter.fontMetrics().horizontalAdvance(words) < wide:
                painter.drawText(QPointF(x + 3, HEAD - 8), words)

    # -- the view itself

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._bound()

    def set_theme(self, palette: Palette) -> None:
        """Take other colours."""
        self.look = palette
        self.viewport().update()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange) and hasattr(self, "look"):
            self.set_theme(tokens(self))

    # -- files

    def table(self) -> Table:
        """A row for each span."""
        rows = tuple(rows_of(self.run)) if self.run else ()
        return ("lane", "span", "node", "begin (µs)", "length (µs)"), rows

    def export(self, path: Path) -> None:
        """Write what is seen to a .png or .svg file, or all spans to a .csv; raises OSError."""
        with in_light(self, path):
            write_chart(self.viewport(), path, self.table, self._paint_on)

    def _paint_on(self, device: QPaintDevice) -> None:
        painter = QPainter(device)
        painter.setClipRect(self.viewport().rect())
        self.paint(painter)
        painter.end()


def fitted(name: str, metrics: QFontMetrics, room: int) -> str:
    """As many of the last parts of a path as there is room for."""
    parts = name.split(".")
    for k in range(len(parts)):
        if metrics.horizontalAdvance(words := ".".join(parts[k:])) <= room:
            return words
    return metrics.elidedText(parts[-1], Qt.TextElideMode.ElideRight, room)


def _mixed(one: QColor, other: QColor, share: float) -> QColor:
    pairs = zip(one.getRgb()[:3], other.getRgb()[:3], strict=True)
    return QColor(*(round(share * a + (1 - share) * b) for a, b in pairs))


def _ink(ground: QColor) -> str:
    """Black or white, whichever is read better."""
    light = 0.299 * ground.red() + 0.587 * ground.green() + 0.114 * ground.blue()
    return "#1C2127" if light > 140 else "#FFFFFF"
