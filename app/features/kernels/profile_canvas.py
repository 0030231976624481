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

from espalier.app.features.kernels.charts.run_lanes import COLOURS, Floats, Lane, Run, Span, rows_of, seen_of
from espalier.app.figures.curves import ticks
from espalier.app.theme import CATEGORIES, Palette, rgb
from espalier.app.widgets.charts.picture import Table, in_light, write_chart
from espalier.app.widgets.charts.wave_rows import Span as Stretch
from espalier.app.widgets.forms.fields import tokens
from espalier.app.words import mebibytes, time_words

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
        self._picture: QPixmap | None = None
        self._drawn: object = None

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
        """Of the span under the pointer."""
        for lane, top in self.tops() if self.under else ():
            if self.under in lane.spans[slice(*lane.among(self.under.begin, self.under.begin))]:
                left, right = self.x_of(np.array([self.under.begin, self.under.begin + self.under.length]))
                return QRectF(left, top + 0.5, max(right - left, 1.0) - 1, HIGH[lane.kind] - 1)
        return None

    @property
    def _foot(self) -> int:
        """Where the lanes end."""
        return self.viewport().height() - (MEMORY if self._memory else 0)

    def paint(self, painter: QPainter) -> None:
        """Draw all on the ground of the theme."""
        area = self.viewport().rect()
        painter.fillRect(area, QColor(self.look.panel))
        if self.run is None:
            return
        font = QFont(self.font())
        font.setPixelSize(11)
        painter.setFont(font)
        foot = self._foot
        shown = [(lane, top) for lane, top in self.tops() if top + HIGH[lane.kind] >= HEAD and top <= foot]
        painter.save()
        painter.setClipRect(QRect(0, HEAD, NAMES, foot - HEAD))
        painter.setPen(QColor(self.look.muted))
        for lane, top in shown:
            painter.drawText(QRect(12, top, NAMES - 16, HIGH[lane.kind]), MIDDLE, lane.title)
        painter.setClipRect(QRect(NAMES, HEAD, self.wide, foot - HEAD))
        for lane, top in shown:
            self._paint_lane(painter, lane, top)
        painter.restore()
        if self._memory:
            self._paint_memory(painter, self.run, foot)
        self._paint_head(painter)

    def _paint_lane(self, painter: QPainter, lane: Lane, top: int) -> None:
        """Narrow spans as one line of pixels, the others one by one."""
        seen, high = seen_of(lane, self.seen.begin, self.seen.end, self.wide), HIGH[lane.kind]
        inks = inks_of(self.look, faint=lane.kind == "operation")
        table = np.array([rgb(c.name()) for c in inks] + [rgb(self.look.panel)], np.uint8)
        pixels = np.full((1, self.wide, 4), 255, np.uint8)
        pixels[0, :, 2::-1] = table[seen.codes]
        image = QImage(pixels.data, self.wide, 1, self.wide * 4, QImage.Format.Format_RGB32)
        painter.drawImage(QRectF(NAMES, top, self.wide, high), image, QRectF(0, 0, self.wide, 1))
        for place, left, right in zip(seen.large.tolist(), seen.lefts.tolist(), seen.rights.tolist(), strict=True):
            box = QRectF(NAMES + left, top, right - left - 1, high)
            self._paint_span(painter, lane.spans[place], box, inks[lane.codes[place]])
        painter.setPen(QPen(QColor(self.look.accent), 2))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for place in (k for node in self.marked for k in lane.places.get(node, ()) if lane.kind != "operation"):
            span = lane.spans[place]
            left, right = self.x_of(np.array([span.begin, span.begin + span.length]))
            painter.drawRect(QRectF(left + 1, top + 1, max(right - left - 3, 1.0), high - 2))

    def _paint_span(self, painter: QPainter, span: Span, box: QRectF, ground: QColor) -> None:
        painter.fillRect(box, ground)
        if span.rounds:
            painter.fillRect(box, QBrush(QColor(self.look.panel), Qt.BrushStyle.BDiagPattern))
        if box.width() >= READABLE:
            left = max(box.left(), float(NAMES))
            place = QRectF(left + 4, box.top(), min(box.right(), NAMES + self.wide) - left - 6, box.height())
            words = fitted(span.name, painter.fontMetrics(), int(place.width()))
            painter.setPen(QColor(_ink(ground)))
            if len(words) > 2:
                painter.drawText(place, MIDDLE, words)

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
        """Write what is seen to a .png or .svg file, or all spans to a .csv; raises FileError."""
        with in_light(self, path):
            write_chart(self.viewport(), path, self.table, self._paint_on)

    def _paint_on(self, device: QPaintDevice) -> None:
        painter = QPainter(device)
        painter.setClipRect(self.viewport().rect())
        self.paint(painter)
        painter.end()


def inks_of(look: Palette, faint: bool) -> list[QColor]:
    """Of COLOURS: by the kind of operation, modules grey; fainter, as operations of torch below their node are."""
    plain = [QColor(CATEGORIES.get(name, look.chip)) for name in COLOURS]
    return [_mixed(c, QColor(look.panel), 0.45) for c in plain] if faint else plain


def fitted(name: str, metrics: QFontMetrics, room: int) -> str:
    """As many of the last parts of a path as there is room for."""
    parts = name.split(".")
    for k in range(len(parts)):
        if metrics.horizontalAdvance(words := ".".join(parts[k:])) <= room:
            return words
    return metrics.elidedText(parts[-1], Qt.TextElideMode.ElideRight, room)


def _mixed(one: QColor, other: QColor, share: float) -> QColor:
    rest = 1 - share
    red, green = share * one.red() + rest * other.red(), share * one.green() + rest * other.green()
    return QColor(round(red), round(green), round(share * one.blue() + rest * other.blue()))


def _ink(ground: QColor) -> str:
    """Black or white, whichever is read better."""
    light = 0.299 * ground.red() + 0.587 * ground.green() + 0.114 * ground.blue()
    return "#1C2127" if light > 140 else "#FFFFFF"
