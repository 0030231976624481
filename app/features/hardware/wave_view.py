"""Handshake view with wheel, mouse and keyboard navigation."""

from __future__ import annotations

import math

from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QWheelEvent

from espalier.app.features.hardware.wave_canvas import WaveCanvas
from espalier.app.number_text import count, percent
from espalier.app.translation import tr
from espalier.app.widgets.charts.wave_rows import STATES, Rows, Span
from espalier.verilog.proof.waves import State

ZOOM, PAN = 1.25, 0.12  # per wheel notch: zoom factor, share of the visible span
REPORTED = (State.TRANSFER, State.STALLED, State.STARVED)


class WaveView(WaveCanvas):
    """Emits `node_chosen` at a click on a row and `read` with a text about the cycle under the pointer."""

    node_chosen = Signal(str)
    node_wanted = Signal(str)
    read = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._drag: tuple[QPointF, Span] | None = None
        self._moved = False

    # -- input

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom over the bands, pan with Shift; scroll the rows over the names."""
        if self.rows is None or event.position().x() < self.left:
            super().wheelEvent(event)
            return
        delta = event.angleDelta()
        along = delta.x() or (delta.y() if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 0)
        if along:
            self.see(self.span.moved(-along / 120 * PAN * self.span.length, self.rows.whole))
        elif delta.y():
            at = self.cycle_at(event.position().x())
            self.see(self.span.zoomed(ZOOM ** (-delta.y() / 120), at, self.rows.whole))
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._drag, self._moved = (event.position(), self.span), False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self.rows is None:
            return
        if self._drag and event.buttons() & Qt.MouseButton.LeftButton:
            distance = event.position().x() - self._drag[0].x()
            self._moved = self._moved or abs(distance) > 3
            if self._moved:
                span = self._drag[1]
                self.see(span.moved(-distance / self.wide * span.length, self.rows.whole))
            return
        row, cycle = self.row_at(event.position().y()), math.floor(self.cycle_at(event.position().x()))
        if row >= 0 and event.position().x() >= self.left:
            self._report(row, cycle)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self.rows and not self._moved and event.button() == Qt.MouseButton.LeftButton:
            row = self.row_at(event.position().y())
            if event.position().x() >= self.left:
                self._set_cursor(math.floor(self.cycle_at(event.position().x())))
            if row >= 0:
                self._choose(row)
        self._drag = None

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        row = self.row_at(event.position().y())
        if self.rows and row >= 0 and self.rows.lane(row).node:
            self.node_wanted.emit(self.rows.lane(row).node)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left and right: one cycle, with Ctrl to the next change, with Shift pan; up and down: rows."""
        key, keys, rows = event.key(), Qt.Key, self.rows
        if rows is None:
            super().keyPressEvent(event)
        elif key in (keys.Key_Left, keys.Key_Right):
            self._step(rows, key == keys.Key_Left, event.modifiers())
        elif key in (keys.Key_Up, keys.Key_Down):
            self._choose(min(max(self.row + (1 if key == keys.Key_Down else -1), 0), len(rows.order) - 1))
        elif key in (keys.Key_Plus, keys.Key_Equal, keys.Key_Minus):
            at = self.at + 0.5 if self.span.begin <= self.at < self.span.end else sum(self._ends) / 2
            self.see(self.span.zoomed(ZOOM if key == keys.Key_Minus else 1 / ZOOM, at, rows.whole))
        elif key in (keys.Key_Home, keys.Key_End):
            self._set_cursor(int(rows.whole.begin if key == keys.Key_Home else rows.whole.end - 1), follow=True)
        elif key == keys.Key_0:
            self.fit()
        elif key in (keys.Key_Return, keys.Key_Enter) and self.row >= 0:
            self.node_wanted.emit(rows.lane(self.row).node)
        else:
            super().keyPressEvent(event)

    @property
    def _ends(self) -> tuple[float, float]:
        return self.span.begin, self.span.end

    def _step(self, rows: Rows, back: bool, modifiers: Qt.KeyboardModifier) -> None:
        sign = -1 if back else 1
        if modifiers & Qt.KeyboardModifier.ShiftModifier:
            self.see(self.span.moved(sign * PAN * self.span.length, rows.whole))
            return
        cycle = self.at if self.at >= 0 else int(self.span.begin)
        jump = modifiers & Qt.KeyboardModifier.ControlModifier and self.row >= 0
        self._set_cursor(rows.next_change(self.row, cycle, back) if jump else cycle + sign, follow=True)

    def _set_cursor(self, cycle: int, follow: bool = False) -> None:
        """Set the cursor to a cycle; `follow`: scroll it into view."""
        if self.rows is None:
            return
        whole = self.rows.whole
        self.at = min(max(cycle, int(whole.begin)), int(whole.end) - 1)
        if follow and not self.span.begin <= self.at < self.span.end:
            self.see(self.span.moved(self.at - sum(self._ends) / 2, whole))
        if self.row >= 0:
            self._report(self.row, self.at)
        self.viewport().update()

    def _choose(self, row: int) -> None:
        if self.rows and row >= 0:
            self.row = row
            self.reveal()
            lane = self.rows.lane(row)
            self.marked = frozenset({lane.node})
            self._report(row, self.at)
            self.viewport().update()
            if lane.node:
                self.node_chosen.emit(lane.node)

    def _report(self, row: int, cycle: int) -> None:
        """Emit a text on a stream's state in a cycle and its shares overall."""
        if self.rows is None:
            return
        lane, state = self.rows.lane(row), self.rows.state(row, cycle) if cycle >= 0 else None
        state_text = tr("cycle {}: {}, ", count(cycle), STATES[state]) if state is not None else ""
        shares = (f"{STATES[s]} {percent(self.rows.share(row, s), 0)}" for s in REPORTED)
        self.read.emit(f"{lane.name}: {state_text}{' · '.join(shares)}")
