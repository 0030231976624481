"""Preview below the options of structured pruning: units removed from each set, and why others are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QLabel,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from espalier.app.figures.structure_cache import STRUCTURES, Same
from espalier.app.figures.tensor_chunks import Stop
from espalier.app.jobs.previews import Previews
from espalier.app.number_text import count, plural
from espalier.app.translation import error_text, tr
from espalier.app.widgets.heading import heading
from espalier.model.errors import EspalierError
from espalier.passes.saved import with_members
from espalier.passes.structure.preview import Line, outlook

if TYPE_CHECKING:
    from espalier.app.session.session import Session

COLUMNS = ("set", "units", "removed", "kept", "")
VISIBLE_ROWS = 7  # without scrolling


class StructuredPreview(QWidget):
    """Table of the sets, updated with the form; a double click selects a set's first node on the canvas."""

    able = Signal(str)  # why nothing would be removed; empty where something is

    def __init__(self, session: Session, form: Any) -> None:
        super().__init__()
        self._session, self._form = session, form
        self._lines: list[Line] = []
        self._previews = Previews(self, cache_size=8)
        self._previews.ready.connect(self._on_ready)
        self._previews.failed.connect(self._on_failed)
        self.summary = QLabel(wordWrap=True)
        self.summary.setProperty("role", "muted")
        self.table = _table()
        self.table.cellDoubleClicked.connect(lambda row, _: session.select([self._lines[row].node]))
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 6, 0, 0)
        column.setSpacing(4)
        column.addWidget(heading(tr("Preview")))
        column.addWidget(self.summary)
        column.addWidget(self.table)
        form.changed.connect(self.refresh)
        session.changed.connect(self.refresh)  # a method: it ends with this widget, where a lambda would live on
        self.refresh()

    def refresh(self) -> None:
        """Compute the preview for the current options and graph."""
        document = self._session.document
        try:
            options = with_members(self._form.value(), self._session.saved_selections.saved)
        except EspalierError:
            return
        if document is None:
            return
        graph = document.graph

        def work(_: Stop) -> list[Line]:
            return outlook(STRUCTURES.of(graph), options)

        lines = self._previews.ask("preview", (options, Same(graph)), work)
        if lines is not None:
            self._show(lines)

    def close_previews(self) -> None:
        """Cancel running previews."""
        self._previews.close()

    def _on_ready(self, _slot: str, _key: object, lines: list[Line]) -> None:
        self._show(lines)

    def _on_failed(self, _slot: str, error: object) -> None:
        self._refuse(error)

    def _show(self, lines: list[Line]) -> None:
        self._lines = lines
        removes = any(n.gone is None or n.gone for n in lines)
        self.able.emit(
            "" if removes else tr("No unit would be removed: raise the share or the count, or select other nodes.")
        )
        frozen = sum(n.held for n in lines)
        units = sum(n.units for n in lines if not n.held)
        removed = sum(n.gone or 0 for n in lines)
        global_choice = any(n.gone is None for n in lines)
        text = tr("{} of {} removed", count(removed), plural(units, "unit"))
        text = tr("The scores of all sets decide how many of each are removed") if global_choice else text
        self.summary.setText(
            f"{plural(len(lines), 'set')} · {text}" + (tr(" · {} kept whole", frozen) if frozen else "")
        )
        self.table.setRowCount(len(lines))
        for row, line in enumerate(lines):
            removed_text = "" if line.gone is None else count(line.gone)
            remaining_text = "" if line.gone is None else count(line.units - line.gone)
            for column, value in enumerate((line.name, count(line.units), removed_text, remaining_text, line.note)):
                item = QTableWidgetItem(value)
                item.setToolTip(line.note if column == len(COLUMNS) - 1 else value)
                if 0 < column < len(COLUMNS) - 1:
                    item.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
                self.table.setItem(row, column, item)
        height = self.table.verticalHeader().defaultSectionSize() * min(len(lines), VISIBLE_ROWS)
        self.table.setFixedHeight(height + self.table.horizontalHeader().sizeHint().height() + 4)
        self.table.show()

    def _refuse(self, error: object) -> None:
        self._lines = []
        self.table.hide()
        text = error_text(error)
        self.summary.setText(text.strip())
        self.able.emit(text.strip())


def _table() -> QTableWidget:
    table = QTableWidget(0, len(COLUMNS))
    table.setHorizontalHeaderLabels([tr(c) for c in COLUMNS])
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(22)
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    header = table.horizontalHeader()
    header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    header.setSectionResizeMode(len(COLUMNS) - 1, QHeaderView.ResizeMode.Stretch)
    return table
