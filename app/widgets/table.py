"""A table that sorts by value, copies as TSV and saves as CSV, for reports and problems."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QSignalBlocker,
    Qt,
    Signal,
)
from PySide6.QtGui import QGuiApplication, QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from espalier.app.cell_text import cell_text
from espalier.app.number_text import cell, column_title, row_value, shown
from espalier.app.theme import ROW
from espalier.app.widgets.asking import header_text, offer_meaning
from espalier.app.widgets.drag_handle import offer_table
from espalier.model.files import write_text

Row = dict[str, Any]
Index = QModelIndex | QPersistentModelIndex
_ROOT = QModelIndex()
ASCENDING = Qt.SortOrder.AscendingOrder


def columns_of(rows: Sequence[Row]) -> list[str]:
    """All keys in the order of their first appearance."""
    return list(dict.fromkeys(key for row in rows for key in row))


def plain(value: object) -> str:
    """A value for TSV and CSV: full precision, no thin spaces."""
    if value is None:
        return ""
    if isinstance(value, tuple | list):
        return "x".join(str(v) for v in value)
    return str(value)


def to_text(rows: Sequence[Row], columns: Sequence[str], delimiter: str) -> str:
    """The rows as delimited text, with a header line."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([plain(row.get(c)) for c in columns] for row in rows)
    return out.getvalue()


def _sort_key(value: object) -> tuple[int, Any]:
    """Sort numbers before texts before missing values."""
    if value is None or value != value:
        return 2, 0
    if isinstance(value, int | float):
        return 0, value
    return 1, cell(value).casefold()


RIGHT = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
LEFT = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)


def alignment(value: object) -> int:
    """Align numbers right and texts left."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return RIGHT if number else LEFT


class TableModel(QAbstractTableModel):
    """Rows of a report; `shown`: those that pass the filter, sorted."""

    def __init__(self) -> None:
        super().__init__()
        self.columns: list[str] = []
        self.shown: list[Row] = []
        self._rows: list[Row] = []
        self._filter = ""
        self._sort: tuple[int, Qt.SortOrder] | None = None
        self.written: tuple[str, ...] = ()  # columns in which users write: never translated

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Replace the rows."""
        self.beginResetModel()
        self._rows, self.columns, self._sort = list(rows), columns_of(rows), None
        self._arrange()
        self.endResetModel()

    def set_filter(self, text: str) -> None:
        """Show the rows that contain `text` in any cell."""
        self.beginResetModel()
        self._filter = text.casefold()
        self._arrange()
        self.endResetModel()

    def sort(self, column: int, order: Qt.SortOrder = ASCENDING) -> None:
        """Order the rows by a column."""
        self.layoutAboutToBeChanged.emit()
        self._sort = (column, order) if 0 <= column < len(self.columns) else None
        self._arrange()
        self.layoutChanged.emit()
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, max(len(self.columns) - 1, 0))

    def _arrange(self) -> None:
        text = self._filter
        rows = [r for r in self._rows if not text or any(text in cell(v).casefold() for v in r.values())]
        if self._sort:
            name, order = self.columns[self._sort[0]], self._sort[1]
            rows.sort(key=lambda r: _sort_key(r.get(name)), reverse=order != ASCENDING)
        self.shown = rows

    def rowCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(self.shown)

    def columnCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The data of a cell."""
        column = self.columns[index.column()]
        value = self.shown[index.row()].get(column)
        if role == Qt.ItemDataRole.DisplayRole:
            return shown("" if column in self.written else column, row_value(self.shown[index.row()], column))
        if role == Qt.ItemDataRole.ToolTipRole:
            text = isinstance(value, str) and column not in self.written
            return (cell_text(column, str(value)) if text else plain(value)) or None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return alignment(value)
        return None

    def headerData(self, section: int, side: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if side != Qt.Orientation.Horizontal or section >= len(self.columns):
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return column_title(self.columns[section]) + self._arrow(section)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            value = next((v for r in self._rows[:50] if (v := r.get(self.columns[section])) is not None), None)
            return alignment(value)
        return None

    def _arrow(self, section: int) -> str:
        """The arrow of the sorted column, in its title; Qt's own would cover right-aligned titles."""
        if self._sort is None or self._sort[0] != section:
            return ""
        return " ▴" if self._sort[1] == ASCENDING else " ▾"


class RowsView(QTableView):
    """A table view of selectable rows of 23 px, sorted by clicks on the header, copied by Ctrl+C, dragged out."""

    def __init__(self, model: QAbstractTableModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        model.setParent(self)
        self.setModel(model)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(ROW)
        self.verticalHeader().setMinimumSectionSize(ROW)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        offer_meaning(header, partial(header_text, header))
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setSortIndicatorClearable(True)
        header.setSortIndicator(-1, ASCENDING)
        self.setSortingEnabled(True)
        self.handle = offer_table(self, lambda view, mark: view.as_text(mark))

    def as_text(self, delimiter: str) -> str:
        """The selected rows as delimited text; all rows if fewer than two are selected."""
        raise NotImplementedError

    def copy(self) -> None:
        """Copy the selected rows to the clipboard as TSV; all rows if fewer than two are selected."""
        QGuiApplication.clipboard().setText(self.as_text("\t"))

    def chosen(self) -> list[int]:
        """The indices of the selected rows; empty if fewer than two are selected."""
        rows = sorted(i.row() for i in self.selectionModel().selectedRows())
        return rows if len(rows) > 1 else []


class Table(RowsView):
    """Rows of a report. `node_chosen`: the node of the new current row.

    `node_wanted`: the node of a row that was double-clicked or activated by Return.
    """

    node_chosen = Signal(str)
    node_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None, model: TableModel | None = None) -> None:
        self.rows = model or TableModel()
        super().__init__(self.rows, parent)
        self._fitted = True
        self.selectionModel().currentRowChanged.connect(self._choose)
        self.activated.connect(lambda _: self.want_node())

    def show_rows(self, rows: Sequence[Row], lowest_first: str = "") -> None:
        """Replace the rows and fit the columns; `lowest_first`: a column to sort by."""
        self.horizontalHeader().setSortIndicator(-1, ASCENDING)
        self.rows.set_rows(rows)
        self._fitted = False
        if self.isVisible():
            self._fit()
        if lowest_first and lowest_first in self.rows.columns:
            self.sortByColumn(self.rows.columns.index(lowest_first), ASCENDING)

    def _fit(self) -> None:
        """Fit the columns to their first rows, unless they are stretched. It is half the cost of replacing the rows, so
        it is done when the table is visible."""
        self._fitted = True
        if self.horizontalHeader().sectionResizeMode(0) == QHeaderView.ResizeMode.Stretch:
            return
        self.horizontalHeader().setResizeContentsPrecision(40)
        self.resizeColumnsToContents()
        for i in range(len(self.rows.columns)):
            self.setColumnWidth(i, min(self.columnWidth(i) + 28, 420))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self._fitted:
            self._fit()

    @property
    def node(self) -> str:
        """The node of the current row; empty if there is none."""
        current = self.currentIndex()
        return str(self.rows.shown[current.row()].get("node") or "") if current.isValid() else ""

    def want_node(self) -> None:
        """Emit `node_wanted` for the current row."""
        if self.node:
            self.node_wanted.emit(self.node)

    def mark_nodes(self, nodes: Sequence[str]) -> None:
        """Select the rows of nodes without signals, and scroll to the first."""
        selection = QItemSelection()
        wanted = set(nodes)
        for at, row in enumerate(self.rows.shown if wanted else ()):
            if row.get("node") in wanted:
                index = self.rows.index(at, 0)
                selection.select(index, self.rows.index(at, len(self.rows.columns) - 1))
        if self.node in wanted and len(wanted) == 1:
            return  # the selection came from this row
        with QSignalBlocker(self.selectionModel()):
            self.selectionModel().select(selection, QItemSelectionModel.SelectionFlag.ClearAndSelect)
        if indexes := selection.indexes():
            self.scrollTo(indexes[0])
        self.viewport().update()

    def picked(self) -> list[Row]:
        """The selected rows, or all rows if fewer than two are selected."""
        return [self.rows.shown[i] for i in self.chosen()] or self.rows.shown

    def as_text(self, delimiter: str) -> str:
        """The selected rows as delimited text; all rows if fewer than two are selected."""
        return to_text(self.picked(), self.rows.columns, delimiter)

    def save(self, path: Path) -> None:
        """Write all rows as CSV. Raises FileError."""
        write_text(path, to_text(self.rows.shown, self.rows.columns, ","))

    def _choose(self, current: QModelIndex) -> None:
        if current.isValid() and (node := self.rows.shown[current.row()].get("node")):
            self.node_chosen.emit(str(node))
