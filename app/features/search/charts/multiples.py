"""Small multiples: as many as can be read, in rows that scroll."""

from __future__ import annotations

import math

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QKeyEvent, QWheelEvent

from espalier.app.features.search.charts.axes import Axis
from espalier.app.features.search.charts.painted import PaintedChart

WIDE, TALL = 150, 104  # least size of one multiple
HEAD, FOOT, LEFT, GAP = 18, 18, 54, 10


class Multiples(PaintedChart):
    """A grid of boxes, one an axis."""

    def __init__(self) -> None:
        self.axes: list[Axis] = []
        self._first = 0
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)

    # -- where the multiples lie

    @property
    def _columns(self) -> int:
        most = max(int(self.width() // WIDE), 1)
        rows = math.ceil(len(self.axes) / most)
        return max(math.ceil(len(self.axes) / max(rows, 1)), 1)

    @property
    def _rows(self) -> int:
        wanted = math.ceil(len(self.axes) / self._columns)
        return max(min(wanted, self.height() // TALL), 1)

    @property
    def _shown(self) -> int:
        return self._rows * self._columns

    def _box(self, place: int) -> QRectF:
        """Where the dots of the multiple at a place of the screen lie."""
        wide, tall = (self.width() - LEFT) / self._columns, self.height() / self._rows
        row, column = divmod(place, self._columns)
        return QRectF(LEFT + column * wide + GAP / 2, row * tall + HEAD, wide - GAP, tall - HEAD - FOOT)

    def _seen(self) -> list[Axis]:
        return self.axes[self._first * self._columns :][: self._shown]

    def wheelEvent(self, event: QWheelEvent) -> None:
        self._scroll(-1 if event.angleDelta().y() > 0 else 1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        moves = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_PageDown: self._rows, Qt.Key.Key_PageUp: -self._rows}
        if event.key() in moves:
            self._scroll(moves[Qt.Key(event.key())])
        else:
            super().keyPressEvent(event)

    def _scroll(self, rows: int) -> None:
        """Show other rows of multiples."""
        most = max(math.ceil(len(self.axes) / self._columns) - self._rows, 0)
        first = min(max(self._first + rows, 0), most)
        if first != self._first:
            self._first = first
            self.take(None)
            self.refresh()
