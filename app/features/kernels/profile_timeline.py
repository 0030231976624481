"""Timeline with wheel, mouse and keyboard navigation."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QToolTip

from espalier.app.features.kernels.charts.run_lanes import Lane, Run, Span
from espalier.app.features.kernels.profile_canvas import NAMES, TimelineCanvas
from espalier.app.number_text import mebibytes, percent, plural, time_text
from espalier.app.translation import tr
from espalier.app.widgets.charts.wave_rows import Span as Stretch

ZOOM, PAN = 1.25, 0.12  # per wheel notch: zoom factor, share of the visible interval
NEAR = 3.0  # pixels
HELP = tr(
    "Wheel: zoom; Shift and wheel or drag: move; click: select the node; double click: show it; ← →: the next node; "
    "+ −: zoom; 0: fit."
)


class TimelineView(TimelineCanvas):
    """Emits `nodes_chosen` with the nodes of a clicked span, and `node_wanted` to show its node."""

    nodes_chosen = Signal(tuple)
    node_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._drag: tuple[QPointF, Stretch] | None = None
        self._moved = False
        self._at = -1  # index of the current span in the node lane

    def show_run(self, run: Run | None) -> None:
        """Show a run from begin to end."""
        self._at = -1
        super().show_run(run)

    def mark(self, nodes: Iterable[str]) -> None:
        """Mark the spans of nodes and scroll the first into view."""
        self.marked = frozenset(nodes)
        lane = self.run.nodes if self.run else None
        if lane and self.marked:
            first = next((k for k, s in enumerate(lane.spans) if self.marked.intersection(s.nodes)), -1)
            now = (
                self._at
                if 0 <= self._at < len(lane.spans) and self.marked.intersection(lane.spans[self._at].nodes)
                else first
            )
            self._at = now
            if now >= 0:
                self._reveal(lane.spans[now])
        self.viewport().update()

    def _reveal(self, span: Span) -> None:
        if self.seen.length and not (span.begin < self.seen.end and span.begin + span.length > self.seen.begin):
            middle = span.begin + span.length / 2
            self.see(self.seen.moved(middle - (self.seen.begin + self.seen.end) / 2, self.whole))

    def span_at(self, spot: QPointF) -> tuple[Lane, Span] | None:
        """The lane and span at a position, or None."""
        lane = self.lane_at(spot.y()) if self.run and spot.x() >= NAMES else None
        span = lane.at(self.time_at(spot.x()), NEAR / self.wide * self.seen.length) if lane else None
        return (lane, span) if lane and span else None

    def tooltip(self, lane: Lane, span: Span) -> str:
        """Tooltip of a span."""
        fraction = span.length / self.run.length if self.run else 0.0
        lines = [
            span.name,
            tr(
                "{} · {} of the run · from {}",
                time_text(span.length / 1e6),
                percent(fraction),
                time_text(span.begin / 1e6),
            ),
        ]
        if span.rounds:
            lines[0] = tr("{}: rounding of an operand", span.name)
        if lane.kind in ("operation", "device") and span.nodes:
            lines.append(tr("of {}", span.nodes[0]))
        if len(span.nodes) > 1:
            lines.append(plural(len(span.nodes), "node"))
        return "\n".join(lines)

    # -- input

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom over the spans, pan with Shift; scroll the lanes over the names."""
        if self.run is None or event.position().x() < NAMES:
            super().wheelEvent(event)
            return
        delta = event.angleDelta()
        along = delta.x() or (delta.y() if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 0)
        if along:
            self.see(self.seen.moved(-along / 120 * PAN * self.seen.length, self.whole))
        elif delta.y():
            self.see(self.seen.zoomed(ZOOM ** (-delta.y() / 120), self.time_at(event.position().x()), self.whole))
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._drag, self._moved = (event.position(), self.seen), False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self.run is None:
            return
        if self._drag and event.buttons() & Qt.MouseButton.LeftButton:
            distance = event.position().x() - self._drag[0].x()
            self._moved = self._moved or abs(distance) > 3
            if self._moved:
                stretch = self._drag[1]
                self.see(stretch.moved(-distance / self.wide * stretch.length, self.whole))
            return
        hit, text = self.span_at(event.position()), ""
        under = hit[1] if hit else None
        if under is not self.under:
            self.under = under
            self.viewport().update()
        if hit:
            text = self.tooltip(*hit)
        elif event.position().x() >= NAMES and len(self.run.held) > 1:
            time = self.time_at(event.position().x())
            text = tr("{} allocated at {}", mebibytes(self.run.held_at(time)), time_text(max(time, 0.0) / 1e6))
        self.setCursor(Qt.CursorShape.PointingHandCursor if under else Qt.CursorShape.ArrowCursor)
        QToolTip.showText(event.globalPosition().toPoint(), text, self)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if not self._moved and event.button() == Qt.MouseButton.LeftButton and (hit := self.span_at(event.position())):
            self._choose(hit[1])
        self._drag = None

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        hit = self.span_at(event.position())
        if hit and hit[1].nodes:
            self.node_wanted.emit(hit[1].nodes[0])

    def _choose(self, span: Span) -> None:
        """Select the nodes of a span."""
        lane = self.run.nodes if self.run else None
        if lane and span in lane.spans:
            self._at = lane.spans.index(span)
        self.marked = frozenset(span.nodes)
        self.viewport().update()
        if span.nodes:
            self.nodes_chosen.emit(span.nodes)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Arrows: next or previous node, with Shift pan; plus, minus, 0: zoom."""
        key, keys = event.key(), Qt.Key
        lane = self.run.nodes if self.run else None
        if lane is None:
            super().keyPressEvent(event)
        elif key in (keys.Key_Left, keys.Key_Right):
            self._step(lane, -1 if key == keys.Key_Left else 1, event.modifiers())
        elif key in (keys.Key_Home, keys.Key_End):
            self._go_to(lane, 0 if key == keys.Key_Home else len(lane.spans) - 1)
        elif key in (keys.Key_Plus, keys.Key_Equal, keys.Key_Minus):
            self.see(self.seen.zoomed(ZOOM if key == keys.Key_Minus else 1 / ZOOM, self._centre(lane), self.whole))
        elif key == keys.Key_0:
            self.fit()
        elif key in (keys.Key_Return, keys.Key_Enter) and 0 <= self._at < len(lane.spans) and not event.modifiers():
            self.node_wanted.emit(lane.spans[self._at].nodes[0])
        else:
            super().keyPressEvent(event)

    def _centre(self, lane: Lane) -> float:
        """Centre of keyboard zoom: the chosen node if in view, else the middle."""
        if 0 <= self._at < len(lane.spans):
            span = lane.spans[self._at]
            middle = span.begin + span.length / 2
            if self.seen.begin <= middle <= self.seen.end:
                return middle
        return (self.seen.begin + self.seen.end) / 2

    def _step(self, lane: Lane, by: int, modifiers: Qt.KeyboardModifier) -> None:
        if modifiers & Qt.KeyboardModifier.ShiftModifier:
            self.see(self.seen.moved(by * PAN * self.seen.length, self.whole))
        else:
            self._go_to(lane, self._at + by)

    def _go_to(self, lane: Lane, at: int) -> None:
        at = min(max(at, 0), len(lane.spans) - 1)
        self._choose(lane.spans[at])
        self._at = at
        self._reveal(lane.spans[at])
