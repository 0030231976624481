"""Under the options of a structured pruning: which units of which sets would go, and what holds the others."""

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

from espalier.app.figures.parts import Stop
from espalier.app.figures.structure import STRUCTURES, Same
from espalier.app.jobs.previews import Previews
from espalier.app.widgets.heading import heading
from espalier.app.words import count, plural
from espalier.model.errors import EspalierError
from espalier.passes.structure.preview import Line, outlook

if TYPE_CHECKING:
    from espalier.app.session.session import Session

COLUMNS = ("set", "units", "go", "stay", "")
ROWS = 7  # shown without scrolling


class StructureOutlook(QWidget):
    """A table that follows the form; double click selects a set's first node on the canvas."""

    able = Signal(str)  # why nothing would go; empty where something does

    def __init__(self, session: Session, form: Any) -> None:
        super().__init__()
        self._session, self._form = session, form
        self._lines: list[Line] = []
        self._previews = Previews(self)
        self._previews.ready.connect(self._found)
        self._previews.failed.connect(self._failed)
        self.words = QLabel(wordWrap=True)
        self.words.setProperty("role", "muted")
        self.table = _table()
        self.table.cellDoubleClicked.connect(lambda row, _: session.select([self._lines[row].node]))
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 6, 0, 0)
        column.setSpacing(4)
        column.addWidget(heading("What goes"))
        column.addWidget(self.words)
        column.addWidget(self.table)
        form.changed.connect(self.refresh)
        session.changed.connect(self.refresh)  # a method: it ends with this widget, where a lambda would live on
        self.refresh()

    def refresh(self) -> None:
        """Look again, at the form and the graph as they are now."""
        document = self._session.document
        try:
            options = self._form.value()
        except EspalierError:
            return
        if document is None:
            return
        graph = document.graph

        def work(_: Stop) -> list[Line]:
            return outlook(STRUCTURES.of(graph), options)

        found = self._previews.ask("outlook", (options, Same(graph)), work)
        if found is not None:
            self._show(found)

    def close_previews(self) -> None:
        """Stop what still computes."""
        self._previews.close()

    def _found(self, _slot: str, _key: object, lines: list[Line]) -> None:
        self._show(lines)

    def _failed(self, _slot: str, error: object) -> None:
        self._refuse(error)

    def _show(self, lines: list[Line]) -> None:
        self._lines = lines
        goes = any(n.gone is None or n.gone for n in lines)
        self.able.emit("" if goes else "Nothing would go: raise the share or the count, or select others.")
        held = sum(n.held for n in lines)
        units = sum(n.units for n in lines if not n.held)
        gone = sum(n.gone or 0 for n in lines)
        decided = any(n.gone is None for n in lines)
        text = f"{count(gone)} of {plural(units, 'unit')} go"
        text = "The scores of all sets decide how many of each go" if decided else text
        self.words.setText(f"{plural(len(lines), 'set')} · {text}" + (f" · {held} held" if held else ""))
        self.table.setRowCount(len(lines))
        for row, line in enumerate(lines):
            go = "" if line.gone is None else count(line.gone)
            stay = "" if line.gone is None else count(line.units - line.gone)
            for column, value in enumerate((line.name, count(line.units), go, stay, line.note)):
                item = QTableWidgetItem(value)
                item.setToolTip(line.note if column == len(COLUMNS) - 1 else value)
                if 0 < column < len(COLUMNS) - 1:
                    item.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
                self.table.setItem(row, column, item)
        height = self.table.verticalHeader().defaultSectionSize() * min(len(lines), ROWS)
        self.table.setFixedHeight(height + self.table.horizontalHeader().sizeHint().height() + 4)
        self.table.show()

    def _refuse(self, error: object) -> None:
        self._lines = []
        self.table.hide()
        words = f"{error.message} {error.hint}" if isinstance(error, EspalierError) else str(error)
        self.words.setText(words.strip())
        self.able.emit(words.strip())


def _table() -> QTableWidget:
    table = QTableWidget(0, len(COLUMNS))
    table.setHorizontalHeaderLabels(COLUMNS)
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
