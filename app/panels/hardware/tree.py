"""The modules of a design: the top and its instances, each with its node, its cycles and how busy it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTreeWidget, QTreeWidgetItem

from app.words import count, shown

Row = dict[str, Any]
COLUMNS = ("instance", "module", "node", "cycles", "busy", "waits")
HELP = {
    "cycles": "Cycles of a sample in its slowest part",
    "busy": "The share of the interval in which it works",
    "waits": "The most beats that waited in this FIFO",
}
WIDTHS = (138, 70, 76, 56, 66, 50)
NUMBERS = ("cycles", "busy", "waits")
VALUE = Qt.ItemDataRole.UserRole


class _Item(QTreeWidgetItem):
    """Sorts by value."""

    def __lt__(self, other: QTreeWidgetItem) -> bool:
        tree = self.treeWidget()
        column = tree.sortColumn() if tree else 0
        mine, theirs = self.data(column, VALUE), other.data(column, VALUE)
        if mine is None or theirs is None:
            return mine is None and theirs is not None
        return mine < theirs


class ModuleTree(QTreeWidget):
    """`picked` tells the rows of what a person selects (none: the top), `opened` an instance to find in the top."""

    picked = Signal(list)
    opened = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setColumnCount(len(COLUMNS))
        self.setHeaderLabels(list(COLUMNS))
        for k, name in enumerate(COLUMNS):
            self.headerItem().setToolTip(k, HELP.get(name, ""))
            if name in NUMBERS:
                self.headerItem().setTextAlignment(k, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            self.setColumnWidth(k, WIDTHS[k])
        self.header().setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        self.header().setStretchLastSection(False)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setUniformRowHeights(True)
        self.setIndentation(14)
        self.setAccessibleName("Modules")
        self._items: dict[str, list[QTreeWidgetItem]] = {}
        self.itemSelectionChanged.connect(lambda: self.picked.emit(self.rows()))
        self.itemDoubleClicked.connect(lambda item, _: self.opened.emit(item.text(0)))

    def show_design(self, name: str, rows: Sequence[Row]) -> None:
        """Show another design, in the order of its data."""
        with QSignalBlocker(self):
            self.clear()
            self.setSortingEnabled(False)
            self._items = {}
            top = QTreeWidgetItem([name, name])
            self.addTopLevelItem(top)
            for place, row in enumerate(rows):
                top.addChild(self._item(place, row))
            top.setExpanded(True)
            self.header().setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
            self.header().setSortIndicatorClearable(True)
            self.setSortingEnabled(True)

    def _item(self, place: int, row: Row) -> QTreeWidgetItem:
        item = _Item()
        for k, name in enumerate(COLUMNS):
            value = row.get(name)
            item.setText(k, _words(name, value))
            item.setData(k, VALUE, value)
            if name in NUMBERS:
                item.setTextAlignment(k, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            else:
                item.setToolTip(k, str(value or ""))
        item.setToolTip(0, str(row.get("stream", "")))
        item.setData(0, VALUE + 1, row)
        self._items.setdefault(str(row["node"]), []).append(item)
        return item

    def rows(self) -> list[Row]:
        """The rows of the selected instances."""
        found = (item.data(0, VALUE + 1) for item in self.selectedItems())
        return [row for row in found if row]

    def select_where(self, key: str, values: Iterable[str]) -> list[Row]:
        """Select the instances with one of these values, telling nobody; returns their rows."""
        wanted = set(values)
        with QSignalBlocker(self):
            self.clearSelection()
            for items in self._items.values():
                for item in items:
                    if str(item.data(0, VALUE + 1)[key]) in wanted:
                        item.setSelected(True)
        chosen = self.selectedItems()
        if chosen:
            self.scrollToItem(chosen[0])
        return self.rows()


def _words(name: str, value: object) -> str:
    if name == "busy" and isinstance(value, float):
        return shown(name, value) if value else ""
    return count(value) if isinstance(value, int) and value else "" if value in (None, 0) else str(value)
