"""The heat map of SQNR: one row a weight, one column a format, coloured cells that are chosen by click or key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QRect, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFont,
    QFontMetrics,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPen,
)
from PySide6.QtWidgets import QAbstractItemView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QTableView, QWidget

from espalier.app.theme import ROW, rgb
from espalier.app.widgets.forms.fields import tokens
from espalier.app.widgets.table import to_text
from espalier.app.words import count
from espalier.model.formats.base import Format
from espalier.passes.analysis.format_sqnr import WeightSqnr

Index = QModelIndex | QPersistentModelIndex
_NOWHERE = QModelIndex()
MOST = 50.0  # dB at the end of the colours
CELL, NAMES = 58, 250
Display = Qt.ItemDataRole.DisplayRole


def words_of(value: float | None) -> str:
    """`42.1`, `exact` without any error, `no signal` where all is lost or nothing there."""
    if value is None:
        return "no signal"
    return "exact" if math.isinf(value) else f"{value:.1f}".replace("-", "−")


class SqnrModel(QAbstractTableModel):
    """Rows as they arrive; `order` is their place under the sort that is chosen."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.columns: tuple[str, ...] = ()
        self.rows: list[WeightSqnr] = []
        self.order: list[int] = []
        self.names: Mapping[str, str] = {}
        self.used: Mapping[str, Format] = {}
        self._sort: tuple[int, bool] | None = None

    def begin(self, columns: Sequence[str], names: Mapping[str, str]) -> None:
        """No rows yet, under these columns; `names` are those of the nodes as they are shown."""
        self.beginResetModel()
        self.columns, self.names, self.rows, self.order, self._sort = tuple(columns), names, [], [], None
        self.endResetModel()

    def add(self, row: WeightSqnr) -> None:
        """One more row, at the end until the next sort."""
        place = len(self.rows)
        self.beginInsertRows(_NOWHERE, place, place)
        self.rows.append(row)
        self.order.append(place)
        self.endInsertRows()

    def use(self, formats: Mapping[str, Format]) -> None:
        """The formats that nodes have now: their cells are marked."""
        self.used = formats
        if self.rows:
            self.dataChanged.emit(self.index(0, 0), self.index(len(self.rows) - 1, len(self.columns) - 1))

    def arrange(self, column: int | None, best_first: bool = True) -> None:
        """Sort by a column; None: the model's own order."""
        self.layoutAboutToBeChanged.emit()
        self._sort = None if column is None else (column, best_first)
        self.order = list(range(len(self.rows)))
        if column is not None:
            self.order.sort(key=lambda i: _height(self.rows[i].sqnr[column]), reverse=best_first)
        self.layoutChanged.emit()

    def row(self, place: int) -> WeightSqnr:
        """The row that is shown at `place`."""
        return self.rows[self.order[place]]

    def table(self) -> tuple[list[dict[str, Any]], list[str]]:
        """(rows, columns) as text and files have them: dB, `inf` where nothing is lost."""
        shown = [self.row(i) for i in range(len(self.rows))]
        heads = ["node", "elements", *self.columns]
        return [dict(zip(heads, (r.node, r.elements, *r.sqnr), strict=True)) for r in shown], heads

    def rowCount(self, parent: Index = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Display) -> object:
        """What the view asks of a cell; UserRole: the SQNR itself."""
        row = self.row(index.row())
        value = row.sqnr[index.column()]
        if role == Display:
            return words_of(value)
        if role == Qt.ItemDataRole.UserRole:
            return value
        if role == Qt.ItemDataRole.ToolTipRole:
            return self.told(index)
        return None

    def told(self, index: Index) -> str:
        """A cell in words."""
        row = self.row(index.row())
        fmt, value = row.formats[index.column()], row.sqnr[index.column()]
        loss = f"{words_of(value)} dB" if value is not None and not math.isinf(value) else words_of(value)
        return f"{self.names.get(row.node, row.node)} · {fmt.label} · {loss} · {fmt.bits:g} bits an element"

    def marked(self, index: Index) -> bool:
        """Whether the node has this format now."""
        row = self.row(index.row())
        return self.used.get(row.node) == row.formats[index.column()]

    def headerData(self, section: int, side: Qt.Orientation, role: int = Display) -> object:
        if side == Qt.Orientation.Horizontal:
            return self._column_head(section, role)
        row = self.row(section)
        if role == Display:
            return self.names.get(row.node, row.node)
        if role == Qt.ItemDataRole.ToolTipRole:
            return f"{row.node}: {count(row.elements)} elements"
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft)
        return None

    def _column_head(self, section: int, role: int) -> object:
        name = self.columns[section]
        if role == Display:
            arrow = "" if self._sort is None or self._sort[0] != section else " ↓" if self._sort[1] else " ↑"
            return f"{in_lines(name)}{arrow}"
        if role == Qt.ItemDataRole.ToolTipRole:
            own = "; its parameter is chosen for each weight" if name.endswith(" fitted") else ""
            return f"{name}{own}. Click to use it everywhere or to sort by it."
        return None


def in_lines(name: str) -> str:
    """A column's name in two lines: what is fitted says so below."""
    head, _, tail = name.rpartition(" ") if name.endswith(" fitted") else name.partition(" ")
    return f"{head}\n{tail}"


def _height(value: float | None) -> float:
    return -math.inf if value is None else value


class HeatCells(QStyledItemDelegate):
    """Paints a cell in the colour of its value, the chosen format's with a frame."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Ground, figure, and the frame of the current cell or of the format that the node has."""
        look = tokens(self.parent())  # type: ignore[arg-type]
        value = index.data(Qt.ItemDataRole.UserRole)
        box: QRect = option.rect  # type: ignore[attr-defined]
        colour = look.chip if value is None else look.sequential(max(value, 0.0) / MOST)
        painter.fillRect(box.adjusted(0, 0, -1, -1), QColor(colour))
        painter.setPen(QColor(look.muted if value is None else ink(colour)))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, str(index.data()) if value is not None else "–")
        model = index.model()
        assert isinstance(model, SqnrModel)
        current = bool(option.state & QStyle.StateFlag.State_Selected)  # type: ignore[attr-defined]
        if current or model.marked(index):
            painter.setPen(QPen(QColor(look.accent if current else look.text), 2))
            painter.drawRect(box.adjusted(1, 1, -2, -2))


def ink(ground: str) -> str:
    """Black or white, whichever is read better on a colour (relative luminance as WCAG 2.2 has it)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb(ground))]
    return "#000000" if 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.179 else "#FFFFFF"


class SqnrTable(QTableView):
    """Arrow keys go from cell to cell; a click or Enter chooses one, Ctrl+Enter its whole column."""

    chosen = Signal(int, int)
    column_chosen = Signal(int)
    header_pressed = Signal(int)
    moved = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.heat = SqnrModel(self)
        self.setModel(self.heat)
        self.setItemDelegate(HeatCells(self))
        self.setShowGrid(False)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setAccessibleName("SQNR of formats")
        across, down = self.horizontalHeader(), self.verticalHeader()
        across.setDefaultSectionSize(CELL)
        across.setFixedHeight(38)
        across.setSectionsClickable(True)
        across.setDefaultAlignment(Qt.AlignmentFlag.AlignCenter)
        across.sectionClicked.connect(self.header_pressed)
        down.setDefaultSectionSize(ROW)
        down.setMinimumSectionSize(ROW)
        down.setFixedWidth(NAMES)
        down.setTextElideMode(Qt.TextElideMode.ElideLeft)
        self.clicked.connect(lambda index: self.chosen.emit(index.row(), index.column()))
        self.selectionModel().currentChanged.connect(lambda now, _: self.moved.emit(now))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        now = self.currentIndex()
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter) or not now.isValid():
            super().keyPressEvent(event)
        elif event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.column_chosen.emit(now.column())
        else:
            self.chosen.emit(now.row(), now.column())

    def fit(self) -> None:
        """Columns as wide as their heads in bold, which is how the column of the current cell is written."""
        font = QFont(self.font())
        font.setWeight(QFont.Weight.Bold)
        metrics = QFontMetrics(font)
        for i, name in enumerate(self.heat.columns):
            widest = max(metrics.horizontalAdvance(line) for line in in_lines(name).split("\n"))
            self.setColumnWidth(i, max(CELL, widest + 14))
        names = (metrics.horizontalAdvance(name) for name in self.heat.names.values())
        self.verticalHeader().setFixedWidth(min(max(names, default=NAMES) + 20, NAMES))

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if not self.currentIndex().isValid() and self.heat.rowCount():
            self.setCurrentIndex(self.heat.index(0, 0))

    def copy(self) -> None:
        """Put the table on the clipboard as TSV."""
        QGuiApplication.clipboard().setText(to_text(*self.heat.table(), "\t"))
