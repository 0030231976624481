"""Table of a run's rows; keeps sorting, selection and scroll position while rows arrive."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QItemSelection, QItemSelectionModel, QModelIndex, QSignalBlocker, Qt, Signal

from espalier.app.features.kernels.state.row_text import TIME, cells
from espalier.app.translation import tr
from espalier.app.widgets.table import Index, Table, TableModel, alignment
from espalier.kernels.bench.results import Row

KERNEL = "kernel"  # hidden if there is only one kernel; copies contain it
FITTED = (1, 4, 16, 64)  # row counts at which columns are resized


class _Cells(dict[str, object]):
    """A table row with its measurement."""

    def __init__(self, row: Row) -> None:
        super().__init__(cells(row))
        self.row = row


class _Model(TableModel):
    """Shows the reason instead of metrics for rows without a time."""

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if self.columns[index.column()] == TIME and (reason := self.why(index.row())):
            if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
                return reason
            if role == Qt.ItemDataRole.TextAlignmentRole:
                return alignment(reason)
        return super().data(index, role)

    def why(self, row: int) -> str:
        """Why a row has no time; empty if it has one."""
        cells_ = self.shown[row]
        return str(cells_.get("") or "") if cells_.get(TIME) is None else ""


class KernelTable(Table):
    """Table of measurements; emits `picked_row` with the chosen Row."""

    picked_row = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.rows: _Model = _Model()
        self.rows.setParent(self)
        self.setModel(self.rows)
        self.setAccessibleName(tr("Measurements"))
        self._shown: list[Row] = []
        self._cells: list[_Cells] = []
        self.selectionModel().currentRowChanged.connect(self._emit_row)
        self.rows.modelReset.connect(self._span)
        self.rows.layoutChanged.connect(self._span)

    def _fit(self) -> None:
        """Resize columns narrowly; the remark takes the remaining width."""
        header = self.horizontalHeader()
        header.setStretchLastSection(False)  # otherwise it keeps its old width
        kernel = self.rows.columns.index(KERNEL) if KERNEL in self.rows.columns else -1
        self.setColumnHidden(kernel, False)  # a hidden column has width 0
        super()._fit()
        if kernel >= 0:
            header.setResizeContentsPrecision(-1)  # measure all rows: the first are of one kernel
            self.resizeColumnToContents(kernel)
            self.setColumnWidth(kernel, self.columnWidth(kernel) + 28)
        for i in range(len(self.rows.columns) - 1):
            self.setColumnWidth(i, max(self.columnWidth(i) - 24, 40))
        self.setColumnHidden(kernel, self._single_kernel)
        header.setStretchLastSection(True)

    @property
    def _single_kernel(self) -> bool:
        """Whether all rows are of the same kernel."""
        return len({r[KERNEL] for r in self._cells}) == 1

    def _span(self) -> None:
        """Span the reason over the metric columns of rows without a time."""
        self.clearSpans()
        columns = self.rows.columns
        for row in range(len(self.rows.shown) if TIME in columns else 0):
            if self.rows.why(row):
                self.setSpan(row, columns.index(TIME), 1, len(columns) - columns.index(TIME))

    def show_run(self, rows: Sequence[Row]) -> None:
        """Show the rows of a run; appended rows keep sorting, selection and scroll position."""
        rows = list(rows)
        if self._shown and rows[: len(self._shown)] == self._shown:
            if len(rows) > len(self._shown):
                self._append(rows)
            return
        self._shown, self._cells = rows, [_Cells(r) for r in rows]
        self.show_rows(self._cells)

    def _append(self, rows: list[Row]) -> None:
        model, header = self.rows, self.horizontalHeader()
        column, order = header.sortIndicatorSection(), header.sortIndicatorOrder()
        selected = [model.shown[i.row()] for i in self.selectionModel().selectedRows()]
        at, bar = self.currentIndex(), self.verticalScrollBar()
        current = model.shown[at.row()] if at.isValid() else None
        at_bottom, position = bar.value() == bar.maximum(), bar.value()
        single = self._single_kernel
        self._cells = [*self._cells, *(_Cells(r) for r in rows[len(self._shown) :])]
        fit = single != self._single_kernel or any(len(self._shown) < n <= len(rows) for n in FITTED)
        self._shown = rows
        with QSignalBlocker(self.selectionModel()):
            model.set_rows(self._cells)
            if 0 <= column < len(model.columns):
                model.sort(column, order)
            self._restore_selection(selected, current)
        if fit and self.isVisible():
            self._fit()
        if at_bottom:
            self.scrollToBottom()
        else:
            bar.setValue(position)

    def _restore_selection(self, selected: Sequence[object], current: object) -> None:
        """Restore the selection and the current row."""
        chosen, model, flag = QItemSelection(), self.selectionModel(), QItemSelectionModel.SelectionFlag
        for i, row in enumerate(self.rows.shown):
            if any(row is h for h in selected):
                chosen.select(self.rows.index(i, 0), self.rows.index(i, len(self.rows.columns) - 1))
            if row is current:
                model.setCurrentIndex(self.rows.index(i, 0), flag.NoUpdate)
        model.select(chosen, flag.ClearAndSelect)

    def choose_row(self, row: Row) -> None:
        """Select the row of a measurement and scroll it into view."""
        index = next((i for i, c in enumerate(self.rows.shown) if isinstance(c, _Cells) and c.row is row), None)
        if index is not None:
            self.selectRow(index)
            self.scrollTo(self.rows.index(index, 0))

    def _emit_row(self, current: QModelIndex) -> None:
        if current.isValid() and isinstance(cells_ := self.rows.shown[current.row()], _Cells):
            self.picked_row.emit(cells_.row)
