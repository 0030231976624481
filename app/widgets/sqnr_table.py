"""The heat map of SQNR: one row per weight, one column per format; a click or Enter chooses a cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
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

from espalier.app.number_text import count
from espalier.app.theme import ROW, rgb
from espalier.app.translation import tr
from espalier.app.widgets.asking import header_text, offer_meaning
from espalier.app.widgets.drag_handle import offer_table
from espalier.app.widgets.forms.fields import tokens
from espalier.app.widgets.table import to_text
from espalier.model.formats.base import Format
from espalier.passes.analysis.format_sqnr import WeightSqnr

Index = QModelIndex | QPersistentModelIndex
_ROOT = QModelIndex()
MAX_DB = 50.0  # at the end of the colour scale
CELL, NAMES = 58, 250  # pixels: width of a cell, and of the names at most
Display = Qt.ItemDataRole.DisplayRole


def sqnr_text(value: float | None) -> str:
    """`42.1`; `exact` for an infinite SQNR; `no signal` for None."""
    if value is None:
        return tr("no signal")
    return tr("exact") if math.isinf(value) else f"{value:.1f}".replace("-", "−")


class SqnrModel(QAbstractTableModel):
    """Rows in the order of arrival; `order`: their indices in the present sort order."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.columns: tuple[str, ...] = ()
        self.rows: list[WeightSqnr] = []
        self.order: list[int] = []
        self.names: Mapping[str, str] = {}
        self.used: Mapping[str, Format] = {}
        self._sort: tuple[int, bool] | None = None

    def begin(self, columns: Sequence[str], names: Mapping[str, str]) -> None:
        """Reset to no rows with these columns; `names`: node id → displayed name."""
        self.beginResetModel()
        self.columns, self.names, self.rows, self.order, self._sort = tuple(columns), names, [], [], None
        self.endResetModel()

    def add(self, row: WeightSqnr) -> None:
        """Append a row, at the end until the next sort."""
        index = len(self.rows)
        self.beginInsertRows(_ROOT, index, index)
        self.rows.append(row)
        self.order.append(index)
        self.endInsertRows()

    def use(self, formats: Mapping[str, Format]) -> None:
        """Mark the cells of the present formats of nodes."""
        self.used = formats
        if self.rows:
            self.dataChanged.emit(self.index(0, 0), self.index(len(self.rows) - 1, len(self.columns) - 1))

    def arrange(self, column: int | None, best_first: bool = True) -> None:
        """Sort by a column; None: in the order of the model."""
        self.layoutAboutToBeChanged.emit()
        self._sort = None if column is None else (column, best_first)
        self.order = list(range(len(self.rows)))
        if column is not None:
            self.order.sort(key=lambda i: _sort_key(self.rows[i].sqnr[column]), reverse=best_first)
        self.layoutChanged.emit()

    def row(self, place: int) -> WeightSqnr:
        """The row displayed at index `place`."""
        return self.rows[self.order[place]]

    def table(self) -> tuple[list[dict[str, Any]], list[str]]:
        """(rows, columns) for text and files, in dB; `inf` if exact."""
        rows = [self.row(i) for i in range(len(self.rows))]
        columns = ["node", "elements", *self.columns]
        return [dict(zip(columns, (r.node, r.elements, *r.sqnr), strict=True)) for r in rows], columns

    def rowCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Display) -> object:
        """The data of a cell; UserRole: the SQNR in dB."""
        row = self.row(index.row())
        value = row.sqnr[index.column()]
        if role == Display:
            return sqnr_text(value)
        if role == Qt.ItemDataRole.UserRole:
            return value
        if role == Qt.ItemDataRole.ToolTipRole:
            return self.cell_text(index)
        return None

    def cell_text(self, index: Index) -> str:
        """The node, format, SQNR and bits of a cell."""
        row = self.row(index.row())
        fmt, value = row.formats[index.column()], row.sqnr[index.column()]
        loss = f"{sqnr_text(value)} dB" if value is not None and not math.isinf(value) else sqnr_text(value)
        return tr("{} · {} · {} · {:g} bits an element", self.names.get(row.node, row.node), fmt.label, loss, fmt.bits)

    def marked(self, index: Index) -> bool:
        """Whether the node has the format of this cell at present."""
        row = self.row(index.row())
        return self.used.get(row.node) == row.formats[index.column()]

    def headerData(self, section: int, side: Qt.Orientation, role: int = Display) -> object:
        if section >= (self.columnCount() if side == Qt.Orientation.Horizontal else self.rowCount()):
            return None  # while the model is reset, one header asks with the sections that it had before
        if side == Qt.Orientation.Horizontal:
            return self._column_header(section, role)
        row = self.row(section)
        if role == Display:
            return self.names.get(row.node, row.node)
        if role == Qt.ItemDataRole.ToolTipRole:
            return tr("{}: {} elements", row.node, count(row.elements))
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft)
        return None

    def _column_header(self, section: int, role: int) -> object:
        name = self.columns[section]
        if role == Display:
            arrow = "" if self._sort is None or self._sort[0] != section else " ↓" if self._sort[1] else " ↑"
            return f"{two_lines(name)}{arrow}"
        if role == Qt.ItemDataRole.ToolTipRole:
            own = tr("; its parameter is fitted to each weight") if name.endswith(" fitted") else ""
            return tr("{}{}. Click to use it everywhere or to sort by it.", name, own)
        return None


def two_lines(name: str) -> str:
    """The name of a column in two lines, with "fitted" in the second."""
    head, _, tail = name.rpartition(" ") if name.endswith(" fitted") else name.partition(" ")
    return f"{head}\n{tail}"


def _sort_key(value: float | None) -> float:
    return -math.inf if value is None else value


class HeatCells(QStyledItemDelegate):
    """Paints a cell in the colour of its value, and a frame around the current cell and the node's present format."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint background, value and frame."""
        look = tokens(self.parent())  # type: ignore[arg-type]
        value = index.data(Qt.ItemDataRole.UserRole)
        box: QRect = option.rect  # type: ignore[attr-defined]
        colour = look.chip if value is None else look.sequential(max(value, 0.0) / MAX_DB)
        painter.fillRect(box.adjusted(0, 0, -1, -1), QColor(colour))
        painter.setPen(QColor(look.muted if value is None else text_colour(colour)))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, str(index.data()) if value is not None else "–")
        model = index.model()
        assert isinstance(model, SqnrModel)
        current = bool(option.state & QStyle.StateFlag.State_Selected)  # type: ignore[attr-defined]
        if current or model.marked(index):
            painter.setPen(QPen(QColor(look.accent if current else look.text), 2))
            painter.drawRect(box.adjusted(1, 1, -2, -2))


def text_colour(background: str) -> str:
    """Black or white, whichever has more contrast on a colour (relative luminance of WCAG 2.2)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb(background))]
    return "#000000" if 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.179 else "#FFFFFF"


class SqnrTable(QTableView):
    """Arrow keys move between cells; a click or Enter chooses a cell, Ctrl+Enter its column."""

    chosen = Signal(int, int)
    column_chosen = Signal(int)
    header_pressed = Signal(int)
    moved = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        offer_meaning(self.horizontalHeader(), partial(header_text, self.horizontalHeader()))
        self.heat = SqnrModel(self)
        self.setModel(self.heat)
        self.setItemDelegate(HeatCells(self))
        self.setShowGrid(False)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setAccessibleName(tr("SQNR of formats"))
        columns, rows = self.horizontalHeader(), self.verticalHeader()
        columns.setDefaultSectionSize(CELL)
        columns.setFixedHeight(38)
        columns.setSectionsClickable(True)
        columns.setDefaultAlignment(Qt.AlignmentFlag.AlignCenter)
        columns.sectionClicked.connect(self.header_pressed)
        rows.setDefaultSectionSize(ROW)
        rows.setMinimumSectionSize(ROW)
        rows.setFixedWidth(NAMES)
        rows.setTextElideMode(Qt.TextElideMode.ElideLeft)
        self.handle = offer_table(self, SqnrTable.as_text, keys=False)
        self.clicked.connect(lambda index: self.chosen.emit(index.row(), index.column()))
        self.selectionModel().currentChanged.connect(lambda current, _: self.moved.emit(current))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        current = self.currentIndex()
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter) or not current.isValid():
            super().keyPressEvent(event)
        elif event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.column_chosen.emit(current.column())
        else:
            self.chosen.emit(current.row(), current.column())

    def fit(self) -> None:
        """Make columns as wide as their titles in bold, which Qt uses for the column of the current cell."""
        font = QFont(self.font())
        font.setWeight(QFont.Weight.Bold)
        metrics = QFontMetrics(font)
        for i, name in enumerate(self.heat.columns):
            widest = max(metrics.horizontalAdvance(line) for line in two_lines(name).split("\n"))
            self.setColumnWidth(i, max(CELL, widest + 14))
        names = (metrics.horizontalAdvance(name) for name in self.heat.names.values())
        self.verticalHeader().setFixedWidth(min(max(names, default=NAMES) + 20, NAMES))

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if not self.currentIndex().isValid() and self.heat.rowCount():
            self.setCurrentIndex(self.heat.index(0, 0))

    def as_text(self, delimiter: str) -> str:
        """The whole table as delimited text."""
        return to_text(*self.heat.table(), delimiter)

    def copy(self) -> None:
        """Copy the table to the clipboard as TSV."""
        QGuiApplication.clipboard().setText(self.as_text("\t"))
