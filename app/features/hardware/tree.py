"""Module tree of a design: the top module, its instances with node, cycles and load, and nested instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTreeWidget, QTreeWidgetItem

from espalier.app.cell_text import cell_text
from espalier.app.features.hardware.elided_table import ElidedColumns
from espalier.app.number_text import column_title, count, shown
from espalier.app.translation import tr, translated
from espalier.verilog.rtl.hierarchy import TextInstance, instances_in

Row = dict[str, Any]
COLUMNS = ("instance", "module", "node", "cycles", "busy", "waits")
HELP = translated(
    {
        "cycles": "Cycles of a sample in its slowest part",
        "busy": "Share of the interval in which it is active",
        "waits": "Maximum occupancy of this FIFO in beats",
    }
)
WIDTHS = (240, 110, 110, 74, 66, 52)
NUMBERS = ("cycles", "busy", "waits")
VALUE = Qt.ItemDataRole.UserRole
ROW, PLACE = VALUE + 1, VALUE + 2  # PLACE: (module, line) of a nested instance


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
    """Emits `picked` with the selected rows (none: the top) and `opened` with an instance to find in the top.

    Nested instances are added on expansion; `line_wanted` gives the module and line of one.
    """

    picked = Signal(list)
    opened = Signal(str)
    line_wanted = Signal(str, int)

    def __init__(self) -> None:
        super().__init__()
        self.setColumnCount(len(COLUMNS))
        self.setHeaderLabels([column_title(c) for c in COLUMNS])
        for k, name in enumerate(COLUMNS):
            self.headerItem().setToolTip(k, HELP.get(name, ""))
            if name in NUMBERS:
                self.headerItem().setTextAlignment(k, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.header().setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        self.header().setStretchLastSection(False)
        ElidedColumns(self, WIDTHS, soft=3)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setUniformRowHeights(True)
        self.setIndentation(14)
        self.setAccessibleName(tr("Modules"))
        self._items: dict[str, list[QTreeWidgetItem]] = {}
        self.itemSelectionChanged.connect(lambda: self.picked.emit(self.rows()))
        self._texts: Mapping[str, str] = {}
        self._nested: dict[str, tuple[TextInstance, ...]] = {}
        self.setExpandsOnDoubleClick(False)
        self.itemDoubleClicked.connect(lambda item, _: self._open(item))
        self.itemExpanded.connect(self._fill)

    def show_design(self, name: str, rows: Sequence[Row], texts: Mapping[str, str] | None = None) -> None:
        """Show a design in data order; `texts`: module → SystemVerilog."""
        with QSignalBlocker(self):
            self.clear()
            self.setSortingEnabled(False)
            self._items, self._texts, self._nested = {}, texts or {}, {}
            top = QTreeWidgetItem([name, name])
            self.addTopLevelItem(top)
            for index, row in enumerate(rows):
                top.addChild(self._item(index, row))
            top.setExpanded(True)
            self.header().setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
            self.header().setSortIndicatorClearable(True)
            self.setSortingEnabled(True)

    def _item(self, index: int, row: Row) -> QTreeWidgetItem:
        item = _Item()
        for k, name in enumerate(COLUMNS):
            value = row.get(name)
            item.setText(k, _cell_text(name, value))
            item.setData(k, VALUE, value)
            if name in NUMBERS:
                item.setTextAlignment(k, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            else:
                item.setToolTip(k, str(value or ""))
        item.setToolTip(0, str(row.get("stream", "")))
        item.setData(0, ROW, row)
        self._mark(item, str(row["module"]))
        self._items.setdefault(str(row["node"]), []).append(item)
        return item

    # -- nested instances

    def _inside(self, module: str) -> tuple[TextInstance, ...]:
        if module not in self._nested:
            self._nested[module] = instances_in(self._texts.get(module, ""), self._texts.keys() - {module})
        return self._nested[module]

    def _mark(self, item: QTreeWidgetItem, module: str) -> None:
        """Show the expansion arrow if the module contains instances."""
        if self._inside(module):
            item.setChildIndicatorPolicy(QTreeWidgetItem.ChildIndicatorPolicy.ShowIndicator)

    def _fill(self, item: QTreeWidgetItem) -> None:
        row = item.data(0, ROW)
        if row is None or item.childCount():
            return
        for each in self._inside(row["module"]):
            part = _Item([each.name, each.module])
            part.setData(0, VALUE, each.name)
            part.setData(1, VALUE, each.module)
            part.setData(0, ROW, {**row, "module": each.module})
            part.setData(0, PLACE, (row["module"], each.line))
            part.setToolTip(0, tr("line {} of {}.sv: a double click shows it", each.line, row["module"]))
            part.setToolTip(1, each.module)
            item.addChild(part)
            self._mark(part, each.module)

    def _open(self, item: QTreeWidgetItem) -> None:
        line = item.data(0, PLACE)
        self.line_wanted.emit(*line) if line else self.opened.emit(item.text(0))

    def select_inside(self, module: str, line: int) -> list[Row]:
        """Select the instance at a line of a module, without signals, if possible within the selected instance.

        Returns its rows; empty if there is no instance.
        """
        lines = [each.line for each in self._inside(module) if each.line <= line <= each.last]
        items = [*self.selectedItems(), *(i for items in self._items.values() for i in items)]
        parent = next((h for h in (self._instance_of(item, module) for item in items) if h), None) if lines else None
        if parent is None:
            return []
        with QSignalBlocker(self):
            self._fill(parent)
            parent.setExpanded(True)
            part = next(c for c in _parts(parent) if c.data(0, PLACE)[1] == lines[0])
            self.clearSelection()
            self.setCurrentItem(part)
        self.scrollToItem(part)
        return self.rows()

    def _instance_of(self, item: QTreeWidgetItem, module: str) -> QTreeWidgetItem | None:
        """The instance of a module that is the item, one of its ancestors or one of its descendants."""
        above: QTreeWidgetItem | None = item
        while above is not None and (row := above.data(0, ROW)):
            if row["module"] == module:
                return above
            above = above.parent()
        return self._below(item, module, ()) if item.data(0, ROW) else None

    def _below(self, item: QTreeWidgetItem, target: str, above: tuple[str, ...]) -> QTreeWidgetItem | None:
        module = item.data(0, ROW)["module"]
        if module == target:
            return item
        if module in above or not self._reaches(module, target, ()):  # an edited module may instantiate itself
            return None
        self._fill(item)
        return next((f for f in (self._below(p, target, (*above, module)) for p in _parts(item)) if f), None)

    def _reaches(self, module: str, target: str, above: tuple[str, ...]) -> bool:
        if module in above:
            return False
        return any(
            i.module == target or self._reaches(i.module, target, (*above, module)) for i in self._inside(module)
        )

    # -- selecting

    def rows(self) -> list[Row]:
        """The rows of the selected instances; a nested one has its parent's row with its own module."""
        rows = (item.data(0, ROW) for item in self.selectedItems())
        return [row for row in rows if row]

    def select_where(self, key: str, values: Iterable[str]) -> list[Row]:
        """Select the instances with one of these values, without signals; return their rows."""
        modules = set(values)
        with QSignalBlocker(self):
            self.clearSelection()
            for items in self._items.values():
                for item in items:
                    if str(item.data(0, ROW)[key]) in modules:
                        item.setSelected(True)
        chosen = self.selectedItems()
        if chosen:
            self.scrollToItem(chosen[0])
        return self.rows()


def _parts(item: QTreeWidgetItem) -> list[QTreeWidgetItem]:
    return [part for k in range(item.childCount()) if (part := item.child(k))]


def _cell_text(name: str, value: object) -> str:
    if name == "busy" and isinstance(value, float):
        return shown(name, value) if value else ""
    if isinstance(value, str):
        return cell_text(name, value)
    return count(value) if isinstance(value, int) and value else "" if value in (None, 0) else str(value)
