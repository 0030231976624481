"""Draws the handshakes of streams per pixel column, so that the cost does not depend on the number of cycles."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QImage,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame

from espalier.app.figures.curves import ticks
from espalier.app.number_text import count, percent
from espalier.app.theme import Palette, rgb
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart_export import write_widget
from espalier.app.widgets.charts.wave_rows import STATES, Rows, Span
from espalier.app.widgets.drag_handle import offer_picture
from espalier.app.widgets.forms.fields import tokens
from espalier.verilog.proof.waves import State

ROW, BAR, HEAD = 22, 12, 24  # pixels: row height, band height, axis height
NAMES, SHARE = 190, 62  # pixels: widths of the name and share columns
# Okabe and Ito's palette, safe for colour blindness; idle is background grey.
COLOURS = {State.STARVED: "#56B4E9", State.STALLED: "#D55E00", State.TRANSFER: "#009E73"}


class WaveCanvas(QAbstractScrollArea):
    """Drawing and geometry of the handshake view; WaveView adds mouse and keys."""

    def __init__(self) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        self.setAccessibleName(tr("Handshakes of the streams"))
        self.handle = offer_picture(self, lambda canvas, path: write_widget(canvas.viewport(), path))
        self.rows: Rows | None = None
        self.span, self.at, self.row = Span(0, 1), -1, -1
        self.marked: frozenset[str] = frozenset()
        self._state = State.STALLED
        self._look = tokens(self)
        self._picture: QImage | None = None
        self._drawn: object = None

    # -- content

    def show_rows(self, rows: Rows | None) -> None:
        """Show streams over all cycles."""
        self.rows, self.at, self.row, self._picture = rows, -1, -1, None
        if rows:
            self.span = rows.whole
        self._bound()
        self.viewport().update()

    def sort(self, state: State | None) -> None:
        """Sort the rows by the share of a state, shown in the column; None: data order."""
        if self.rows:
            name = self.rows.lane(self.row).name if self.row >= 0 else ""
            self._state = State.STALLED if state is None else state
            self.rows.sort(state)
            names = [self.rows.lane(k).name for k in range(len(self.rows.order))]
            self.row = names.index(name) if name in names else -1
            self._picture = None
            self.viewport().update()

    def mark(self, nodes: tuple[str, ...]) -> None:
        """Mark the rows of nodes, and bring the first into view."""
        self.marked = frozenset(nodes)
        if self.rows and nodes and (self.row < 0 or self.rows.lane(self.row).node not in nodes):
            rows = [k for k in range(len(self.rows.order)) if self.rows.lane(k).node in self.marked]
            self.row = rows[0] if rows else -1
            self.reveal()
        self.viewport().update()

    def fit(self) -> None:
        """Show all cycles."""
        if self.rows:
            self.see(self.rows.whole)

    def see(self, span: Span) -> None:
        """Show a span of cycles."""
        if span != self.span:
            self.span = span
            self.viewport().update()

    def _bound(self) -> None:
        rows = len(self.rows.order) if self.rows else 0
        bar, room = self.verticalScrollBar(), max(self.viewport().height() - HEAD, 1)
        bar.setRange(0, max(rows * ROW - room, 0))
        bar.setPageStep(room)
        bar.setSingleStep(ROW)

    def reveal(self) -> None:
        """Bring the chosen row into view."""
        if self.row >= 0:
            bar, top = self.verticalScrollBar(), self.row * ROW
            room = self.viewport().height() - HEAD - ROW
            bar.setValue(min(max(bar.value(), top - room), top))

    # -- geometry

    @property
    def left(self) -> int:
        """Left edge of the bands in pixels; the name column shrinks in a narrow view."""
        return min(NAMES, max(self.viewport().width() // 4, 70)) + SHARE

    @property
    def wide(self) -> int:
        """Width of the bands in pixels."""
        return max(self.viewport().width() - self.left - 8, 1)

    def x_of(self, cycle: float) -> float:
        """The x position at which a cycle begins."""
        return self.left + (cycle - self.span.begin) / self.span.length * self.wide

    def cycle_at(self, x: float) -> float:
        """The (fractional) cycle at an x position."""
        return self.span.begin + (x - self.left) / self.wide * self.span.length

    def row_at(self, y: float) -> int:
        """The row at a y position, or −1."""
        row = int((y - HEAD + self.verticalScrollBar().value()) // ROW)
        return row if self.rows and y >= HEAD and 0 <= row < len(self.rows.order) else -1

    def _top(self, row: int) -> int:
        return HEAD + row * ROW - self.verticalScrollBar().value()

    @property
    def _visible(self) -> range:
        """The visible rows."""
        total = len(self.rows.order) if self.rows else 0
        first = self.verticalScrollBar().value() // ROW
        return range(first, min(first + (self.viewport().height() - HEAD) // ROW + 2, total))

    # -- drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, look = QPainter(self.viewport()), self._look
        painter.fillRect(self.viewport().rect(), QColor(look.background))
        if self.rows is None:
            return
        font = QFont(self.font())
        font.setPixelSize(12)
        painter.setFont(font)
        painter.setClipRect(QRect(0, HEAD, self.viewport().width(), self.viewport().height()))
        self._paint_rows(painter, self.rows)
        painter.setClipping(False)
        self._paint_head(painter)
        self._paint_cursor(painter)
        painter.end()

    def _paint_rows(self, painter: QPainter, rows: Rows) -> None:
        look, visible, picture = self._look, self._visible, self._bands(rows)
        for index, row in enumerate(visible):
            top, lane = self._top(row), rows.lane(row)
            if row == self.row or lane.node in self.marked:
                painter.fillRect(QRect(0, top, self.viewport().width(), ROW), QColor(look.accent_ground))
            painter.setPen(QColor(look.text))
            box = QRect(12, top, self.left - SHARE - 18, ROW)
            name = lane.name if lane.name.startswith(lane.node) or not lane.node else f"{lane.name} · {lane.node}"
            text = painter.fontMetrics().elidedText(name, Qt.TextElideMode.ElideRight, box.width())
            painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, text)
            painter.setPen(QColor(look.muted))
            fraction_text = percent(rows.share(row, self._state), 0)
            right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(QRect(self.left - SHARE, top, SHARE - 12, ROW), right, fraction_text)
            band = QRectF(self.left, top + (ROW - BAR) / 2, self.wide, BAR)
            painter.drawImage(band, picture, QRectF(0, index, self.wide, 1))

    def _bands(self, rows: Rows) -> QImage:
        """One pixel line a visible row; colours are mixed by the shares of the states under each pixel."""
        visible, wide = self._visible, self.wide
        key = (visible, wide, self.span, rows.order, self._look.background)
        if self._picture is None or self._drawn != key:
            colours = _colours(self._look)
            pixels = np.full((len(visible), wide, 4), 255, np.uint8)
            background = np.array(rgb(self._look.background), float)
            for index, row in enumerate(visible):
                shares = rows.columns(row, self.span, wide)
                rest = np.clip(1 - shares.sum(-1, keepdims=True), 0, 1)
                pixels[index, :, 2::-1] = np.clip(shares @ colours + rest * background, 0, 255)
            image = QImage(pixels.data, wide, len(visible), wide * 4, QImage.Format.Format_RGB32).copy()
            self._picture, self._drawn = image, key
        return self._picture

    def _paint_head(self, painter: QPainter) -> None:
        look, wide = self._look, self.viewport().width()
        painter.fillRect(QRect(0, 0, wide, HEAD), QColor(look.panel))
        painter.setPen(QColor(look.line))
        painter.drawLine(0, HEAD - 1, wide, HEAD - 1)
        painter.setPen(QColor(look.muted))
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(QRect(12, 0, self.left, HEAD), middle, tr("stream"))
        title = STATES[self._state]
        right = Qt.AlignmentFlag.AlignRight | middle
        painter.drawText(QRect(self.left - SHARE, 0, SHARE - 12, HEAD), right, title)
        minimum = 1 if self.span.length < 40 else 0
        for cycle in ticks(self.span.begin, self.span.end, max(self.wide // 110, 1)):
            if minimum and cycle != int(cycle):
                continue
            x = self.x_of(cycle)
            painter.setPen(QColor(look.line))
            painter.drawLine(QPointF(x, HEAD - 6), QPointF(x, HEAD - 1))
            painter.setPen(QColor(look.muted))
            text = count(round(cycle))
            painter.drawText(QPointF(x + 3, HEAD - 8), text)

    def _paint_cursor(self, painter: QPainter) -> None:
        if self.at < 0:
            return
        x, each = self.x_of(self.at), self.wide / self.span.length
        if not self.left - each <= x <= self.left + self.wide:
            return
        look, high = self._look, self.viewport().height()
        if each > 3:
            background = QColor(look.accent)
            background.setAlpha(40)
            painter.fillRect(QRectF(x, HEAD, each, high), background)
        painter.setPen(QPen(QColor(look.accent), 1.2))
        painter.drawLine(QPointF(x, HEAD - 4), QPointF(x, high))
        text = tr("cycle {}", count(self.at))
        wide = painter.fontMetrics().horizontalAdvance(text) + 10
        box = QRectF(min(max(x - wide / 2, self.left), self.viewport().width() - wide), 2, wide, HEAD - 6)
        painter.setBrush(QColor(look.accent))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.drawRoundedRect(box, 3, 3)
        painter.setPen(QColor(look.on_accent))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)

    # -- widget events

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._bound()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange) and hasattr(self, "_picture"):
            self._look, self._picture = tokens(self), None
            self.viewport().update()


def _colours(look: Palette) -> np.ndarray:
    """RGB of each state, [states, 3]."""
    names = [COLOURS.get(State(k), look.line) for k in range(len(STATES))]
    return np.array([rgb(n) for n in names], float)
