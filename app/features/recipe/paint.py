"""Painting of a recipe line: check mark, title, options, result."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QAbstractItemModel, QEvent, QModelIndex, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import QAbstractItemView, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from espalier.app.widgets.forms.fields import tokens

Index = QModelIndex | QPersistentModelIndex
LINE = Qt.ItemDataRole.UserRole
TITLE_HEIGHT, DETAIL_HEIGHT, PADDING, MARK_WIDTH = 18, 15, 5, 34


@dataclass(frozen=True, slots=True)
class Line:
    """A row as it is painted; `step` is None for the trace."""

    title: str
    summary: str
    result: str
    step: int | None
    enabled: bool = True
    error: str = ""


def _small(font: QFont) -> QFont:
    small = QFont(font)
    small.setPixelSize(11)
    return small


def mark_rect(row: QRect) -> QRect:
    """Rectangle of the check mark in a row."""
    return QRect(row.left() + 12, row.top() + PADDING + 2, 14, 14)


class RecipePainter(QStyledItemDelegate):
    """Paints two or three lines per step; long options wrap once and are complete in the tooltip."""

    def _wrapped(self, line: Line, width: int, font: QFont) -> list[str]:
        metrics = QFontMetrics(_small(font))
        head, parts = "", line.summary.split(" ")
        while parts and metrics.horizontalAdvance(f"{head} {parts[0]}") < width:
            head = f"{head} {parts.pop(0)}".strip()
        rest = metrics.elidedText(" ".join(parts), Qt.TextElideMode.ElideRight, width)
        return [t for t in (head, rest) if t]

    def _texts(self, option: QStyleOptionViewItem, index: Index) -> list[str]:
        line: Line = index.data(LINE)
        width = (option.rect.width() or 200) - MARK_WIDTH - 12
        return [*self._wrapped(line, width, option.font), *([line.result] if line.result else [])]

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        view = self.parent()
        option.rect.setWidth(view.viewport().width() if isinstance(view, QAbstractItemView) else 200)
        return QSize(100, 2 * PADDING + TITLE_HEIGHT + DETAIL_HEIGHT * len(self._texts(option, index)))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one row."""
        line: Line = index.data(LINE)
        theme = tokens(self.parent())  # type: ignore[arg-type]
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(option.rect, QColor(theme.accent_ground))
        colour = theme.bad if line.error else theme.text if line.enabled else theme.muted
        self._mark(painter, mark_rect(option.rect), line, theme.bad if line.error else theme.accent, theme.muted)
        font = QFont(option.font)
        font.setStrikeOut(not line.enabled)
        painter.setFont(font)
        painter.setPen(QColor(colour))
        rect = option.rect.adjusted(MARK_WIDTH, PADDING, -12, 0)
        rect.setHeight(TITLE_HEIGHT)
        painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter, line.title)
        painter.setFont(_small(option.font))
        painter.setPen(QColor(theme.muted))
        rect.setHeight(DETAIL_HEIGHT)
        rect.translate(0, TITLE_HEIGHT)
        for text in self._texts(option, index):
            painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter, text)
            rect.translate(0, DETAIL_HEIGHT)
        painter.restore()

    def _mark(self, painter: QPainter, rect: QRect, line: Line, colour: str, faint: str) -> None:
        pen = QPen(QColor(colour), 1.6)
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        painter.setPen(pen)
        x, y = rect.left(), rect.top()
        if line.error:
            painter.drawLine(x + 3, y + 3, x + 11, y + 11)
            painter.drawLine(x + 11, y + 3, x + 3, y + 11)
        elif line.enabled:
            painter.drawLine(x + 2, y + 8, x + 5, y + 11)
            painter.drawLine(x + 5, y + 11, x + 12, y + 3)
        else:
            painter.setPen(QPen(QColor(faint), 1.4))
            painter.drawRoundedRect(rect.adjusted(1, 1, -1, -1), 3, 3)

    def editorEvent(self, event: QEvent, model: QAbstractItemModel, option: QStyleOptionViewItem, index: Index) -> bool:
        if isinstance(event, QMouseEvent) and event.type() == QEvent.Type.MouseButtonRelease:
            near = mark_rect(option.rect).adjusted(-6, -4, 6, 4)
            if near.contains(event.position().toPoint()):
                return model.setData(index, None, Qt.ItemDataRole.CheckStateRole)  # type: ignore[arg-type]
        return False
