"""Mouse interaction of parallel coordinates: hovered lines, brushes on axes, dragging of axes."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from typing_extensions import override

from espalier.app.features.search.charts.axes import Axis
from espalier.app.features.search.charts.painted_chart import PaintedChart
from espalier.app.translation import tr
from espalier.model.data.base import Array

TOP, FOOT, SIDE, LINE = 6, 22, 34, 14
TITLE = 84  # pixels of a title
NEAR, GRIP = 6.0, 9.0  # pick distance in pixels of a line; of an axis
FEWEST = 0.02  # share of an axis below which a brush is removed


class AxesOfTrials(PaintedChart):
    """`brushed`: mask of the trials within the brushes by index, or None without a brush."""

    brushed = Signal(object)

    def __init__(self) -> None:
        self.axes: list[Axis] = []
        self._units: Array = np.zeros((0, 0))
        self._wanted: Array = np.zeros(0, bool)
        self._drag: tuple[str, Axis, float, tuple[float, float]] | None = None
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)

    def choose_lines(self) -> None:
        """Draw the trials within the brushes."""

    @property
    def _grey(self) -> bool:
        """Whether trials outside brushes are drawn in grey."""
        return any(a.brushes for a in self.axes)

    # -- geometry

    @property
    def _heads(self) -> int:
        """Rows of titles."""
        gap = (self.width() - 2 * SIDE) / max(len(self.axes) - 1, 1)
        return min(max(int(np.ceil(TITLE / max(gap, 1.0))), 1), 4)

    @property
    def _top(self) -> float:
        return TOP + LINE * self._heads + 6

    @property
    def _bottom(self) -> float:
        return max(self.height() - 2.0, self._top + FOOT + 20)

    def _x(self, position: float) -> float:
        return SIDE + position * (self.width() - 2 * SIDE) / max(len(self.axes) - 1, 1)

    def _y(self, part: float) -> float:
        return self._top + (1 - part) * (self._bottom - self._top - FOOT)

    def heights(self, *parts: float) -> list[float]:
        """Pixels from the top of positions in 0 … 1 on an axis."""
        return [self._y(part) for part in parts]

    def _part(self, y: float) -> float:
        return 1 - (y - self._top) / (self._bottom - self._top - FOOT)

    def _rows(self, indices: Array) -> Array:
        """Pixels from the pixmap's top; missing values are at the bottom."""
        tall = self._bottom - self._top
        rows = (1 - self._units[indices]) * (tall - FOOT)
        return np.where(np.isnan(rows), tall - 5, rows)

    # -- pointing

    def near(self, at: QPointF) -> int | None:
        """The drawn trial with the nearest line."""
        if len(self.axes) < 2 or not SIDE <= at.x() <= self.width() - SIDE:
            return None
        gap = (self.width() - 2 * SIDE) / (len(self.axes) - 1)
        k = min(int((at.x() - SIDE) / gap), len(self.axes) - 2)
        indices = np.flatnonzero(self._wanted)
        if not len(indices):
            return None
        rows = self._rows(indices)
        part = (at.x() - self._x(k)) / gap
        away = np.abs(rows[:, k] * (1 - part) + rows[:, k + 1] * part + self._top - at.y())
        best = int(np.argmin(away))
        return int(indices[best]) if away[best] <= NEAR else None

    def _grip(self, at: QPointF) -> tuple[str, Axis] | None:
        """The draggable title or axis at a position."""
        for index, axis in enumerate(self.axes):
            away = abs(at.x() - self._x(index))
            row = TOP + LINE * (index % self._heads)
            if row <= at.y() < row + LINE and away < self._heads * self._x(1) / 2:
                nearest = min(range(len(self.axes)), key=lambda k: (k % self._heads != index % self._heads,
                                                                    abs(at.x() - self._x(k))))  # fmt: skip
                return "move", self.axes[nearest]
            if away <= GRIP and self._top - 4 <= at.y():
                return "brush", axis
        return None

    @override
    def cursor_at(self, at: QPointF) -> Qt.CursorShape:
        grip = self._grip(at)
        if grip:
            return Qt.CursorShape.OpenHandCursor if grip[0] == "move" else Qt.CursorShape.SizeVerCursor
        return super().cursor_at(at)

    @override
    def hover_text(self, at: QPointF) -> str:
        grip = self._grip(at)
        if grip is None:
            return super().hover_text(at)
        kind, axis = grip
        return (
            axis.name
            if kind == "move"
            else tr("{}\n{}\nDrag to choose trials", axis.name, axis.hover_text_at(self._part(at.y())))
        )

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        grip = self._grip(event.position()) if event.button() == Qt.MouseButton.LeftButton else None
        if grip is None:
            return
        kind, axis = grip
        part = self._part(event.position().y())
        if kind == "brush":
            brush = next((b for b in axis.brushes if b[0] <= part <= b[1]), None)
            more = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            if brush:
                axis.brushes.remove(brush)
                self._drag = ("shift", axis, part, brush)
            else:
                axis.brushes = axis.brushes if more else []
                self._drag = ("brush", axis, part, (part, part))
            axis.brushes.append(self._drag[3])
        else:
            self._drag = ("move", axis, self._x(self.axes.index(axis)), (0.0, 0.0))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._drag is None:
            super().mouseMoveEvent(event)
            return
        kind, axis, start, brush = self._drag
        if kind == "move":
            self._drag = (kind, axis, event.position().x(), brush)
            self.refresh()
            return
        part = min(max(self._part(event.position().y()), -0.02), 1.02)
        low, high = brush
        move = part - start
        axis.brushes[-1] = (min(start, part), max(start, part)) if kind == "brush" else (low + move, high + move)
        self._brush(axis)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        drag, self._drag = self._drag, None
        if drag is None:
            super().mouseReleaseEvent(event)
            return
        self._pressed = None
        kind, axis, where, _ = drag
        if kind == "move":
            self._move(axis, where)
            return
        axis.brushes = [b for b in axis.brushes if b[1] - b[0] >= FEWEST]
        self._brush()
        self.refresh()
        self.brushed.emit(self._wanted.copy() if self._grey else None)

    def _move(self, axis: Axis, x: float) -> None:
        """Move an axis to the drag position."""
        others = [a for a in self.axes if a is not axis]
        gap = (self.width() - 2 * SIDE) / max(len(self.axes) - 1, 1)
        position = min(max(round((x - SIDE) / gap), 0), len(others))
        self.axes = [*others[:position], axis, *others[position:]]
        self.take(None)
        self.refresh()

    def _brush(self, axis: Axis | None = None) -> None:
        """Apply changed brushes; those of the axis are drawn at once, the lines incrementally."""
        self.choose_lines()
        self.changed.emit()
        if axis is None:
            self.update()
        else:
            self.update(round(self._x(self.axes.index(axis)) - GRIP), 0, round(2 * GRIP), self.height())

    def clear_brushes(self) -> None:
        """Remove all brushes."""
        for axis in self.axes:
            axis.brushes = []
        self._brush()
        self.refresh()
        self.brushed.emit(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self._grey:
            self.clear_brushes()
        else:
            super().keyPressEvent(event)
