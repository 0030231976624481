"""Rows of a list with a title at the left and a muted detail at the right."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QSize, Qt
from PySide6.QtGui import QFont, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

DETAIL = Qt.ItemDataRole.UserRole
INSET, GAP, SMALL = 6, 16, 11  # pixels: beside the texts, between them, height of the detail


class TitleAndDetail(QStyledItemDelegate):
    """Paints the display text and the text of the role DETAIL; a row that is not enabled is muted as a whole."""

    def __init__(self, parent: QWidget, height: int) -> None:
        super().__init__(parent)
        self._height = height

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        """Any width."""
        return QSize(120, self._height)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """The detail gives way to the title."""
        palette, rect = option.palette, option.rect.adjusted(INSET, 0, -INSET, 0)
        chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        enabled = bool(index.flags() & Qt.ItemFlag.ItemIsEnabled)
        faint = palette.highlightedText().color() if chosen else palette.placeholderText().color()
        painter.save()
        if chosen:
            painter.fillRect(option.rect, palette.highlight())
        painter.setFont(option.font)
        painter.setPen(palette.highlightedText().color() if chosen else palette.text().color() if enabled else faint)
        title = str(index.data())
        painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, title)
        room = rect.width() - option.fontMetrics.horizontalAdvance(title) - GAP
        small = QFont(option.font)
        small.setPixelSize(SMALL)
        painter.setFont(small)
        painter.setPen(faint)
        detail = painter.fontMetrics().elidedText(str(index.data(DETAIL) or ""), Qt.TextElideMode.ElideRight, room)
        painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, detail)
        painter.restore()
