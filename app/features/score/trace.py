"""The trace of a figure: its values over the last edits. A click goes to the state after an edit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import tokens

WIDTH, HEIGHT = 72, 30  # pixels
EDGE, PITCH = 5.0, 12.0  # pixels: margin at the sides; distance of two states, as long as all fit
TOP, BOTTOM = 5.0, 6.0  # pixels above and below the values
LINE, DOT, TICK = 1.4, 2.6, 3.0  # pixels
UNDONE = 0.4  # opacity of states that were undone


@dataclass(frozen=True, slots=True)
class Values:
    """What a trace shows: a value for each state (None: not measured), the last edit of each, and its number.

    `at`: the index of the present state. `base`: the value of the baseline, whose name is `base_name`.
    """

    values: tuple[float | None, ...] = ()
    labels: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    at: int = 0
    base: float | None = None
    base_name: str = ""


class Trace(QWidget):
    """`wanted`: the number of edits that are done at the chosen state. Left and Right choose one, Return goes there."""

    wanted = Signal(int)

    def __init__(self, name: str, write: Callable[[float], str]) -> None:
        super().__init__()
        self._name, self._write = name, write
        self.shown = Values()
        self.under = -1  # the index of the state under the pointer or the key
        self.setFixedSize(WIDTH, HEIGHT)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAccessibleName(tr("{} over the last edits", name))

    def show_values(self, values: Values) -> None:
        """Draw other values."""
        if values != self.shown:
            self.shown, self.under = values, -1
            self.setAccessibleDescription(self.text(values.at))
            self.update()

    # -- geometry

    def x_of(self, index: int) -> float:
        """The position of a state: from the left, in equal distances."""
        count = len(self.shown.values)
        pitch = min(PITCH, (WIDTH - 2 * EDGE) / max(count - 1, 1))
        return EDGE + index * pitch

    def y_of(self, value: float) -> float:
        """The height of a value between the lowest and the highest one, the baseline among them."""
        known = [v for v in (*self.shown.values, self.shown.base) if v is not None]
        low, high = min(known, default=0.0), max(known, default=0.0)
        share = (value - low) / (high - low) if high > low else 0.5
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def index_at(self, x: float) -> int:
        """The state nearest to a position; -1 without states."""
        return min(range(len(self.shown.values)), key=lambda i: abs(self.x_of(i) - x), default=-1)

    def lines(self) -> list[tuple[int, int]]:
        """The pairs of neighbouring states that are joined: both are measured."""
        values = self.shown.values
        return [(i, i + 1) for i in range(len(values) - 1) if values[i] is not None and values[i + 1] is not None]

    # -- texts

    def text(self, index: int) -> str:
        """What a state says of itself: the edit, the value and the baseline."""
        shown = self.shown
        if not 0 <= index < len(shown.values):
            return ""
        value = shown.values[index]
        what = tr("not measured") if value is None else self._write(value)
        where = (
            tr("now")
            if index == shown.at
            else tr("undone")
            if index > shown.at
            else tr("after {} edits", shown.counts[index])
        )
        base = "" if shown.base is None else tr("\nThin line: {}, {}", self._write(shown.base), tr(shown.base_name))
        go = "" if index == shown.at else tr("\nClick to go there")
        return f"{shown.labels[index]}\n{self._name} {what} · {where}{base}{go}"

    # -- painting

    def paintEvent(self, event: QPaintEvent) -> None:
        look, painter = tokens(self), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_base(painter, look)
        for first, second in self.lines():
            painter.setOpacity(UNDONE if second > self.shown.at else 1.0)
            painter.setPen(QPen(QColor(look.accent), LINE))
            painter.drawLine(self._point(first), self._point(second))
        for index in range(len(self.shown.values)):
            self._paint_state(painter, look, index)
        if self.hasFocus():
            painter.setOpacity(1.0)
            painter.setPen(QPen(QColor(look.accent), 1.0))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(0.5, 0.5, WIDTH - 1, HEIGHT - 1), 3, 3)
        painter.end()

    def _paint_base(self, painter: QPainter, look: Palette) -> None:
        if self.shown.base is not None:
            painter.setPen(QPen(QColor(look.control), 1.0))
            y = round(self.y_of(self.shown.base)) + 0.5
            painter.drawLine(QPointF(EDGE - DOT, y), QPointF(WIDTH - EDGE + DOT, y))

    def _point(self, index: int) -> QPointF:
        value = self.shown.values[index]
        return QPointF(self.x_of(index), self.y_of(value if value is not None else 0.0))

    def _paint_state(self, painter: QPainter, look: Palette, index: int) -> None:
        """A dot for a value that stands alone, the present or the chosen one; a tick below where there is none."""
        present, chosen, x = index == self.shown.at, index == self.under, self.x_of(index)
        painter.setOpacity(UNDONE if index > self.shown.at and not chosen else 1.0)
        colour = QColor(look.text if chosen else look.accent)
        if self.shown.values[index] is None:
            if (present or chosen) and any(v is not None for v in self.shown.values):
                painter.fillRect(QRectF(x - 0.75, HEIGHT - TICK - 1, 1.5, TICK), colour)
            return
        joined = any(index in pair for pair in self.lines())
        if present or chosen or not joined:
            radius = DOT if present or chosen else DOT - 1
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour)
            painter.drawEllipse(self._point(index), radius, radius)

    # -- mouse and keys

    def _choose(self, index: int) -> None:
        if index != self.under:
            self.under = index
            self.setAccessibleDescription(self.text(index if index >= 0 else self.shown.at))
            self.update()

    def _go(self, index: int) -> None:
        if 0 <= index < len(self.shown.counts) and index != self.shown.at:
            self.wanted.emit(self.shown.counts[index])

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._choose(self.index_at(event.position().x()))
        QToolTip.showText(event.globalPosition().toPoint(), self.text(self.under), self)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        event.accept()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.rect().contains(event.position().toPoint()):
            self._go(self.index_at(event.position().x()))

    def event(self, event: QEvent) -> bool:
        """Qt's own tool tip would hide the one of the state under the pointer."""
        return event.type() == QEvent.Type.ToolTip or super().event(event)

    def leaveEvent(self, event: QEvent) -> None:
        self._choose(-1)

    def focusInEvent(self, event: object) -> None:
        super().focusInEvent(event)  # type: ignore[arg-type]
        self._choose(self.shown.at)

    def focusOutEvent(self, event: object) -> None:
        super().focusOutEvent(event)  # type: ignore[arg-type]
        self._choose(-1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if step is not None and self.shown.values:
            last = len(self.shown.values) - 1
            self._choose(min(max((self.under if self.under >= 0 else self.shown.at) + step, 0), last))
            QToolTip.showText(
                self.mapToGlobal(QPointF(self.x_of(self.under), 0).toPoint()), self.text(self.under), self
            )
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._go(self.under)
        else:
            super().keyPressEvent(event)
