"""Painting of the outline: arrows, rows, and the chips at the right of each row."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QKeyEvent, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QTreeView

from espalier.app.features.outline.model import CHIPS, Chips
from espalier.app.number_text import THIN
from espalier.app.theme import ROW, SPARSITY, Palette
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import tokens

Index = QModelIndex | QPersistentModelIndex
INDENT, LEFT, RIGHT, GAP = 13, 5, 10, 6
Flag = QStyle.StateFlag


class RowPainter(QStyledItemDelegate):
    """Paints the name at the left, elided; format, sparsity and ×N at the right, never elided."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(80, ROW)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one row."""
        widget = option.widget
        assert isinstance(widget, OutlineTree)
        look, rect = tokens(widget), option.rect
        if index.internalId() in widget.marked:
            option.state |= Flag.State_Selected
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(rect, widget.ground(option.state, look))
        ground = look.panel if option.state & Flag.State_Selected else look.chip
        right = rect.right() - RIGHT
        if not option.state & Flag.State_Open:
            chips: Chips = index.data(CHIPS)
            right = self._chips(
                painter, chips, QRect(rect.left(), rect.top(), right - rect.left(), rect.height()), (ground, look.muted)
            )
        painter.setFont(option.font)
        painter.setPen(QColor(look.text))
        name_rect = QRect(rect.left() + LEFT + 3, rect.top(), right - rect.left() - LEFT - 3 - GAP, rect.height())
        name = QFontMetrics(option.font).elidedText(str(index.data()), Qt.TextElideMode.ElideMiddle, name_rect.width())
        painter.drawText(name_rect, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, name)
        if option.state & Flag.State_HasFocus and widget.keyboard:
            painter.setPen(QPen(QColor(look.accent), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(rect.toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)
        painter.restore()

    def _chips(self, painter: QPainter, chips: Chips, room: QRect, colours: tuple[str, str]) -> int:
        """Paint the chips from the right; returns the right limit of the name."""
        font = QFont(painter.font())
        font.setPixelSize(11)
        painter.setFont(font)
        right = room.right()
        for text in (f"×{chips.twins}{tr(' differ') * chips.differ}" if chips.twins > 1 else "", chips.label):
            if text:
                right = self._chip(painter, text, right, room, colours)
        if chips.sparsity:
            right = self._sparsity(painter, chips.sparsity, right, room)
        return right

    def _chip(self, painter: QPainter, text: str, right: int, room: QRect, colours: tuple[str, str]) -> int:
        width = painter.fontMetrics().horizontalAdvance(text) + 12
        box = QRectF(right - width, room.top() + 3, width, room.height() - 6)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colours[0]))
        painter.drawRoundedRect(box, box.height() / 2, box.height() / 2)
        painter.setPen(QColor(colours[1]))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)
        return right - width - 4

    def _sparsity(self, painter: QPainter, fraction: float, right: int, room: QRect) -> int:
        text = f"{100 * fraction:.0f}{THIN}%"
        width = painter.fontMetrics().horizontalAdvance(text)
        painter.setPen(QColor(SPARSITY))
        painter.drawText(QRect(right - width, room.top(), width, room.height()), Qt.AlignmentFlag.AlignCenter, text)
        return right - width - 4


class OutlineTree(QTreeView):
    """Tree view; `activated_row` on double click and Enter. `marked`: items painted as selected."""

    activated_row = Signal(QModelIndex)

    def __init__(self) -> None:
        super().__init__()
        self.keyboard = False
        self.marked: frozenset[int] = frozenset()
        self.setHeaderHidden(True)
        self.setUniformRowHeights(True)
        self.setIndentation(INDENT)
        self.setExpandsOnDoubleClick(False)
        self.setSelectionMode(QTreeView.SelectionMode.ExtendedSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QTreeView.ScrollMode.ScrollPerPixel)
        self.setItemDelegate(RowPainter(self))
        self.setMouseTracking(True)
        self.setAccessibleName(tr("Outline of the model"))

    def ground(self, state: QStyle.StateFlag, look: Palette) -> QColor:
        """Background colour of a row."""
        if state & Flag.State_Selected:
            return QColor(look.accent_ground)
        return QColor(look.background if state & Flag.State_MouseOver else look.panel)

    def drawBranches(self, painter: QPainter, rect: QRect, index: Index) -> None:
        look = tokens(self)
        selected = index.internalId() in self.marked or self.selectionModel().isSelected(index)
        hovered = not selected and self.indexAt(self.viewport().mapFromGlobal(self.cursor().pos())) == index
        state = Flag.State_Selected if selected else Flag.State_MouseOver if hovered else Flag.State_None
        painter.fillRect(rect, self.ground(state, look))
        if self.model().rowCount(index):
            self._arrow(painter, QPointF(rect.right() - 4, rect.center().y() + 0.5), index, look)

    def _arrow(self, painter: QPainter, at: QPointF, index: Index, look: Palette) -> None:
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(look.muted))
        points = (
            ((-3.2, -1.6), (3.2, -1.6), (0.0, 2.6))
            if self.isExpanded(index)
            else ((-1.6, -3.2), (2.6, 0.0), (-1.6, 3.2))
        )
        painter.drawPolygon([QPointF(at.x() + x, at.y() + y) for x, y in points])
        painter.restore()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self.keyboard = True
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self.activated_row.emit(self.currentIndex())
            return
        super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.keyboard = False
        super().mousePressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        index = self.indexAt(event.position().toPoint())
        if index.isValid():
            self.activated_row.emit(index)
        super().mouseDoubleClickEvent(event)
