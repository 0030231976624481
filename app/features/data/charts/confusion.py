"""Confusion matrix of a model: counts, one row per true class, shaded by the share of the row."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.number_text import count, percent
from espalier.app.theme import SMALL, Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart_export import table_text, write_widget
from espalier.app.widgets.drag_handle import offer_picture
from espalier.app.widgets.forms.fields import tokens
from espalier.model.data.base import Array

HEADER_HEIGHT, TITLE_HEIGHT = 20, 18
CAPTION = tr("Rows: true class · columns: predicted class")
MIN_LABELLED, MAX_CELL = 22, 64  # smallest cell width that shows its count, largest cell side
STEPS = {Qt.Key.Key_Left: (0, -1), Qt.Key.Key_Right: (0, 1), Qt.Key.Key_Up: (-1, 0), Qt.Key.Key_Down: (1, 0)}


class ConfusionView(QWidget):
    """`show_matrix` sets the counts; `chosen` carries the (true, predicted) class of a cell clicked or entered."""

    chosen = Signal(int, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.matrix: Array = np.zeros((0, 0), np.int64)
        self.classes: tuple[str, ...] = ()
        self.at = (0, 0)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumSize(130, 110)
        self.setMouseTracking(True)
        self.setAccessibleName(tr("Confusion matrix"))
        self.handle = offer_picture(self, write_widget, ConfusionView.as_text)

    def sizeHint(self) -> QSize:
        return QSize(220, 160)

    def as_text(self, delimiter: str) -> str:
        """The counts as delimited text, a row per true class."""
        rows = [(name, *counts) for name, counts in zip(self.classes, self.matrix.tolist(), strict=True)]
        return table_text((("true class", *self.classes), rows), delimiter)

    def show_matrix(self, matrix: Array, classes: tuple[str, ...]) -> None:
        """Draw the counts, indexed [true class, predicted class]."""
        self.matrix, self.classes, self.at = matrix, classes, (0, 0)
        self.update()

    @property
    def _left(self) -> float:
        widest = max((self.fontMetrics().horizontalAdvance(c) for c in self.classes), default=0)
        return min(widest + 10.0, self.width() * 0.4)

    def _cell(self, row: int, column: int) -> QRectF:
        side = len(self.classes)
        wide = min((self.width() - self._left) / side, MAX_CELL * 2)
        high = min((self.height() - HEADER_HEIGHT - TITLE_HEIGHT) / side, MAX_CELL)
        return QRectF(self._left + column * wide, HEADER_HEIGHT + TITLE_HEIGHT + row * high, wide, high)

    def cell_at(self, point: QPoint) -> tuple[int, int] | None:
        """The cell at a point."""
        for row in range(len(self.classes)):
            for column in range(len(self.classes)):
                if self._cell(row, column).contains(point):
                    return row, column
        return None

    def cell_text(self, row: int, column: int) -> str:
        """Tooltip text of a cell."""
        many, of = int(self.matrix[row, column]), int(self.matrix[row].sum())
        fraction_text = percent(many / of) if of else "none"
        if row == column:
            return tr(
                "{} of {} {} are predicted correctly ({})", count(many), count(of), self.classes[row], fraction_text
            )
        number = tr("{} of {}", count(many), count(of))
        return tr("{} {} are predicted as {} ({})", number, self.classes[row], self.classes[column], fraction_text)

    def paintEvent(self, event: QPaintEvent) -> None:
        if not len(self.matrix):
            return
        look, painter = tokens(self), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        font = QFont(self.font())
        font.setPixelSize(round(SMALL))
        painter.setFont(font)
        painter.setPen(QColor(look.muted))
        line = Qt.AlignmentFlag.AlignVCenter
        fits = painter.fontMetrics().horizontalAdvance(CAPTION) <= self.width()
        painter.drawText(
            QRectF(0, 0, self.width(), TITLE_HEIGHT), line, CAPTION if fits else tr("True class × predicted class")
        )
        for row in range(len(self.classes)):
            self._paint_names(painter, row)
            for column in range(len(self.classes)):
                self._paint_cell(painter, row, column, look)
        painter.end()

    def _paint_names(self, painter: QPainter, index: int) -> None:
        painter.setPen(QColor(tokens(self).muted))
        below, row_cell = self._cell(0, index), self._cell(index, 0)
        metrics, elide = painter.fontMetrics(), Qt.TextElideMode.ElideRight
        top = QRectF(below.left(), TITLE_HEIGHT, below.width(), HEADER_HEIGHT)
        painter.drawText(
            top, Qt.AlignmentFlag.AlignCenter, metrics.elidedText(self.classes[index], elide, int(top.width()))
        )
        left = QRectF(0, row_cell.top(), self._left - 6, row_cell.height())
        side = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        painter.drawText(left, side, metrics.elidedText(self.classes[index], elide, int(left.width())))

    def _paint_cell(self, painter: QPainter, row: int, column: int, look: Palette) -> None:
        box = self._cell(row, column).adjusted(1, 1, -1, -1)
        fraction = float(self.matrix[row, column]) / max(int(self.matrix[row].sum()), 1)
        ground = QColor(look.accent if row == column else look.bad)
        ground.setAlphaF(0.08 + 0.72 * fraction if fraction else 0.04)
        focused = self.hasFocus() and self.at == (row, column)
        painter.setPen(QPen(QColor(look.text), 1.5) if focused else Qt.PenStyle.NoPen)
        painter.setBrush(ground)
        painter.drawRoundedRect(box, 3, 3)
        if box.width() >= MIN_LABELLED and box.height() >= 13:
            painter.setPen(QColor(look.on_accent if fraction > 0.6 else look.text))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, count(int(self.matrix[row, column])))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        cell = self.cell_at(event.position().toPoint())
        if cell:
            self._choose(cell)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        cell = self.cell_at(event.position().toPoint())
        QToolTip.showText(event.globalPosition().toPoint(), self.cell_text(*cell) if cell else "", self)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, side = Qt.Key(event.key()), len(self.classes)
        if key in STEPS and side:
            down, right = STEPS[key]
            self.at = (self.at[0] + down) % side, (self.at[1] + right) % side
            self.setAccessibleDescription(self.cell_text(*self.at))
            self.update()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and side:
            self._choose(self.at)
        else:
            super().keyPressEvent(event)

    def _choose(self, cell: tuple[int, int]) -> None:
        self.at = cell
        self.update()
        self.chosen.emit(*cell)
