"""The rows of a run: they arrive one by one, and what is sorted, selected and in sight stays so."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QItemSelection, QItemSelectionModel, QModelIndex, QSignalBlocker, Qt, Signal

from espalier.app.features.kernels.state.words import TIME, cells
from espalier.app.widgets.table import Index, Table, TableModel, alignment
from espalier.kernels.bench.results import Row

KERNEL = "kernel"  # a column that says nothing where there is one alone; copies have it
FITTED = (1, 4, 16, 64)  # numbers of rows at which columns are fitted again


class _Cells(dict[str, object]):
    """A row of the table with its measurement beside it."""

    def __init__(self, row: Row) -> None:
        super().__init__(cells(row))
        self.row = row


class _Model(TableModel):
    """Where a row has no time, why stands in the place of its figures."""

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if self.columns[index.column()] == TIME and (why := self.why(index.row())):
            if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
                return why
            if role == Qt.ItemDataRole.TextAlignmentRole:
                return alignment(why)
        return super().data(index, role)

    def why(self, row: int) -> str:
        """Why a row has no time; empty where it has one."""
        found = self.shown[row]
        return str(found.get("") or "") if found.get(TIME) is None else ""


class KernelTable(Table):
    """`picked_row`: a row of a run was chosen, a Row."""

    picked_row = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.rows: _Model = _Model()
        self.rows.setParent(self)
        self.setModel(self.rows)
        self.setAccessibleName("Measurements")
        self._shown: list[Row] = []
        self._cells: list[_Cells] = []
        self.selectionModel().currentRowChanged.connect(self._tell)
        self.rows.modelReset.connect(self._span)
        self.rows.layoutChanged.connect(self._span)

    def _fit(self) -> None:
        """Columns narrower than a report's: there are many, and what to know takes what is left."""
        header = self.horizontalHeader()
        header.setStretchLastSection(False)  # else it keeps the width that it had
        named = self.rows.columns.index(KERNEL) if KERNEL in self.rows.columns else -1
        self.setColumnHidden(named, False)  # a hidden column is as wide as nothing
        super()._fit()
        if named >= 0:
            header.setResizeContentsPrecision(-1)  # kernels stand in order: the first rows are all of one
            self.resizeColumnToContents(named)
            self.setColumnWidth(named, self.columnWidth(named) + 28)
        for i in range(len(self.rows.columns) - 1):
            self.setColumnWidth(i, max(self.columnWidth(i) - 24, 40))
        self.setColumnHidden(named, self._alike)
        header.setStretchLastSection(True)

    @property
    def _alike(self) -> bool:
        """Whether all rows are of one kernel."""
        return len({r[KERNEL] for r in self._cells}) == 1

    def _span(self) -> None:
        """Give the reason why a row has no figures their place."""
        self.clearSpans()
        columns = self.rows.columns
        for row in range(len(self.rows.shown) if TIME in columns else 0):
            if self.rows.why(row):
                self.setSpan(row, columns.index(TIME), 1, len(columns) - columns.index(TIME))

    def show_run(self, rows: Sequence[Row]) -> None:
        """Show the rows of a run; where they only go on, nothing else moves."""
        rows = list(rows)
        if self._shown and rows[: len(self._shown)] == self._shown:
            if len(rows) > len(self._shown):
                self._go_on(rows)
            return
        self._shown, self._cells = rows, [_Cells(r) for r in rows]
        self.show_rows(self._cells)

    def _go_on(self, rows: list[Row]) -> None:
        model, header = self.rows, self.horizontalHeader()
        column, order = header.sortIndicatorSection(), header.sortIndicatorOrder()
        held = [model.shown[i.row()] for i in self.selectionModel().selectedRows()]
        at, bar = self.currentIndex(), self.verticalScrollBar()
        now = model.shown[at.row()] if at.isValid() else None
        low, place = bar.value() == bar.maximum(), bar.value()
        alike = self._alike
        self._cells = [*self._cells, *(_Cells(r) for r in rows[len(self._shown) :])]
        fit = alike != self._alike or any(len(self._shown) < n <= len(rows) for n in FITTED)
        self._shown = rows
        with QSignalBlocker(self.selectionModel()):
            model.set_rows(self._cells)
            if 0 <= column < len(model.columns):
                model.sort(column, order)
            self._choose_again(held, now)
        if fit and self.isVisible():
            self._fit()
        if low:
            self.scrollToBottom()
        else:
            bar.setValue(place)

    def _choose_again(self, held: Sequence[object], now: object) -> None:
        """Select the rows that were selected."""
        chosen, model, flag = QItemSelection(), self.selectionModel(), QItemSelectionModel.SelectionFlag
        for i, row in enumerate(self.rows.shown):
            if any(row is h for h in held):
                chosen.select(self.rows.index(i, 0), self.rows.index(i, len(self.rows.columns) - 1))
            if row is now:
                model.setCurrentIndex(self.rows.index(i, 0), flag.NoUpdate)
        model.select(chosen, flag.ClearAndSelect)

    def choose_row(self, row: Row) -> None:
        """Select the line of a measurement and bring it into sight."""
        found = next((i for i, c in enumerate(self.rows.shown) if isinstance(c, _Cells) and c.row is row), None)
        if found is not None:
            self.selectRow(found)
            self.scrollTo(self.rows.index(found, 0))

    def _tell(self, now: QModelIndex) -> None:
        if now.isValid() and isinstance(found := self.rows.shown[now.row()], _Cells):
            self.picked_row.emit(found.row)
