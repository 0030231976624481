"""Table of an allocation: format of each port and divergence, one row a layer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from espalier.app.features.allocate.choices import PORTS
from espalier.app.number_text import figure
from espalier.app.theme import ROW
from espalier.app.translation import tr
from espalier.app.widgets.asking import header_text, offer_meaning
from espalier.app.widgets.charts.chart_export import table_text
from espalier.app.widgets.drag_handle import offer_table
from espalier.passes.allocation.decisions import PortRef
from espalier.passes.sensitivity.table import Candidate

Index = QModelIndex | QPersistentModelIndex
_NOWHERE = QModelIndex()
NAME, FORMAT, LEAST, KL = 120, 124, 76, 100  # pixels of a column; LEAST: of a format where room is short
RIGHT = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)


class AllocateModel(QAbstractTableModel):
    """One row a layer; emits changes only for rows whose choice changed, to keep up with a drag."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[str] = []
        self.ports: tuple[str, ...] = ()
        self._names: Mapping[str, str] = {}
        self._cells: dict[str, tuple[tuple[str, ...], float | None]] = {}

    def begin(self, places: list[PortRef], names: Mapping[str, str]) -> None:
        """Set the layers and ports, without choices."""
        self.beginResetModel()
        self.nodes = list(dict.fromkeys(n for n, _ in places))
        ports = {p for _, p in places}
        self.ports = tuple(p for p in (*PORTS, *sorted(ports - set(PORTS))) if p in ports)
        self._names, self._cells = names, {}
        self.endResetModel()

    def show_choices(self, chosen: Mapping[PortRef, Candidate], kl: Mapping[PortRef, float | None]) -> None:
        """Show the choice and divergence of each layer; None: unknown."""
        changed: list[int] = []
        for row, node in enumerate(self.nodes):
            cells = [(chosen.get((node, p)), kl.get((node, p), 0.0)) for p in self.ports]
            keys = [k for _, k in cells if k is not None]
            cell = tuple(c.label if c else "" for c, _ in cells), sum(keys) if len(keys) == len(cells) else None
            if self._cells.get(node) != cell:
                self._cells[node] = cell
                changed.append(row)
        if changed:
            last = self.columnCount() - 1
            self.dataChanged.emit(self.index(changed[0], 0), self.index(changed[-1], last))

    def rowCount(self, parent: Index = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.nodes)

    def columnCount(self, parent: Index = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.ports) + 2

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Text, tooltip or alignment of a cell."""
        node, column = self.nodes[index.row()], index.column()
        if role == Qt.ItemDataRole.TextAlignmentRole and column > len(self.ports):
            return RIGHT
        if role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return None
        if column == 0:
            return self._names.get(node, node)
        labels, kl = self._cells.get(node, (("",) * len(self.ports), 0.0))
        if column <= len(self.ports):
            return labels[column - 1]
        return (tr("unknown") if kl is None else figure(kl)) if node in self._cells else ""

    def headerData(self, section: int, side: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if side != Qt.Orientation.Horizontal or section >= self.columnCount():
            return None
        if role == Qt.ItemDataRole.TextAlignmentRole and section > len(self.ports):
            return RIGHT
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        return self.titles[section]

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles of the columns."""
        return (tr("layer"), *(PORTS.get(p, p) for p in self.ports), "KL")

    def values_of(self, row: int) -> tuple[object, ...]:
        """The cells of a row with the name of the node, and the divergence in full precision."""
        node = self.nodes[row]
        labels, kl = self._cells.get(node, (("",) * len(self.ports), None))
        return (node, *labels, "" if kl is None else kl)


class AllocateTable(QTableView):
    """The view; emits `node_wanted` at a double click or Return on a row."""

    node_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        offer_meaning(self.horizontalHeader(), partial(header_text, self.horizontalHeader()))
        self.rows = AllocateModel()
        self.rows.setParent(self)
        self.setModel(self.rows)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTextElideMode(Qt.TextElideMode.ElideLeft)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setTabKeyNavigation(False)  # Tab leaves the table
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(ROW)
        self.verticalHeader().setMinimumSectionSize(ROW)
        head = self.horizontalHeader()
        head.setHighlightSections(False)
        head.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        head.setMinimumSectionSize(40)
        head.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self.setAccessibleName(tr("Choices by layer"))
        self.handle = offer_table(self, AllocateTable.as_text)
        self.activated.connect(lambda index: self.node_wanted.emit(self.rows.nodes[index.row()]))

    def as_text(self, delimiter: str) -> str:
        """The selected rows, or all if fewer than two are selected, as delimited text."""
        chosen = sorted(i.row() for i in self.selectionModel().selectedRows())
        rows = chosen if len(chosen) > 1 else range(len(self.rows.nodes))
        return table_text((self.rows.titles, [self.rows.values_of(row) for row in rows]), delimiter)

    def fit(self) -> None:
        """Give the name column the remaining width, at least NAME pixels."""
        ports = len(self.rows.ports)
        room = self.viewport().width() - KL
        each = min(max((room - NAME) // max(ports, 1), LEAST), FORMAT)
        for i, width in enumerate((max(room - ports * each, NAME), *[each] * ports, KL)):
            if i < self.rows.columnCount():
                self.setColumnWidth(i, width)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit()
