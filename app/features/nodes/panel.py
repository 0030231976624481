"""Nodes panel: a table of all nodes with their facts and choices, linked with the selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QItemSelection, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QSizePolicy, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.features.nodes.rows import Row, rows_of
from espalier.app.number_text import column_title, plural
from espalier.app.translation import error_text, tr
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.heading import Elided, empty_state, link
from espalier.app.widgets.table import Table
from espalier.model.errors import EspalierError
from espalier.model.graph.graph import Graph
from espalier.passes.query import find_nodes, selection_of

if TYPE_CHECKING:
    from pathlib import Path

    from espalier.app.session.session import Session

EMPTY = tr("No model is open. Its nodes are listed here with all that is known of them.")
HINT = tr("Filter: text, /pattern/ or bits <= 4 and params > 1e5")
PAUSE = 120  # milliseconds after a key until the rows are filtered


class NodesPanel(QWidget):
    """`overlay_wanted(title, values)`: colour the graph by a column. `bars_wanted(title, values)`: draw bars on the
    nodes by a column. `node_wanted(node)`: show a node on the canvas."""

    save_wanted = Signal()
    overlay_wanted = Signal(str, dict)
    bars_wanted = Signal(str, dict)
    node_wanted = Signal(str)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._graph: Graph | None = None  # whose rows are shown
        self._rows: list[Row] = []
        self.table = Table()
        self.table.rows.written = ("title", "note")
        self.table.setAccessibleName(tr("Nodes"))
        self.field = QLineEdit(placeholderText=HINT, clearButtonEnabled=True)
        self.field.setAccessibleName(tr("Filter of the nodes"))
        self.message = Elided("", "muted")
        self._counts = QLabel()
        self._counts.setProperty("role", "muted")
        self.colour = Choice()
        self.colour.setAccessibleName(tr("Colour the graph by"))
        self.bars = Choice()
        self.bars.setAccessibleName(tr("Bars on the nodes of the graph"))
        self._pages = QStackedWidget()
        self._pages.addWidget(empty_state(EMPTY))
        self._pages.addWidget(self.table)
        self._pause = QTimer(self, singleShot=True, interval=PAUSE)
        self._build()
        self._connect()
        self.refresh()

    def _build(self) -> None:
        self.field.setFixedHeight(25)
        self.field.setMinimumWidth(220)
        self.field.setMaximumWidth(420)
        self.colour.setFixedHeight(25)
        self.bars.setFixedHeight(25)
        self.message.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        bar = QHBoxLayout()
        bar.setContentsMargins(12, 6, 12, 4)
        bar.setSpacing(8)
        bar.addWidget(self.field, 2)
        bar.addWidget(self._counts)
        bar.addWidget(self.message, 1)
        self._tools = [link(tr("Select all"), self.select_all), link(tr("Copy as TSV"), self.table.copy),
                       link(tr("Save as CSV…"), self.save_wanted.emit)]  # fmt: skip
        for widget in (QLabel(tr("Colour by")), self.colour, QLabel(tr("Bars")), self.bars, *self._tools):
            bar.addWidget(widget)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self._pages, 1)

    def _connect(self) -> None:
        self._pause.timeout.connect(self._filter)
        self.field.textChanged.connect(lambda _: self._pause.start())
        self.table.selectionModel().selectionChanged.connect(self._select)
        self.table.node_wanted.connect(self.node_wanted)
        self.colour.edited.connect(self._colour_by)
        self.bars.edited.connect(self._show_bars)
        self._session.opened.connect(self._reset)
        self._session.changed.connect(lambda _: self.refresh())
        self._session.selection_changed.connect(lambda ids: self.table.mark_nodes(ids))

    # -- what is shown

    def _reset(self) -> None:
        """Show all nodes of another document, in the colours of the canvas."""
        self.field.clear()
        for choice in (self.colour, self.bars):
            choice.put("")
        self.refresh()

    def refresh(self) -> None:
        """Show the nodes of the present graph, once somebody looks."""
        document = self._session.document
        if document is None:
            self._graph, self._rows = None, []
        elif self.isVisible() and self._graph is not document.graph:
            self._graph, self._rows = document.graph, rows_of(document.graph)
            numbers = [c for c in self._columns() if any(isinstance(r.get(c), int | float) for r in self._rows)]
            for choice in (self.colour, self.bars):
                chosen = choice.get() if choice.currentIndex() > 0 else ""
                choice.offer(("", *numbers), (tr("nothing"), *map(column_title, numbers)))
                choice.put(chosen if chosen in numbers else "")
            self._filter()
        self._pages.setCurrentIndex(int(document is not None))
        for tool in (self.field, self.colour, self.bars, *self._tools):
            tool.setEnabled(document is not None)

    def _columns(self) -> list[str]:
        return list(self._rows[0]) if self._rows else []

    def _filter(self) -> None:
        """Show the rows that the text in the field means."""
        graph, text = self._graph, self.field.text().strip()
        if graph is None:
            return
        rows, message = self._rows, ""
        try:
            if (select := selection_of(text)) is not None:
                ids = set(find_nodes(graph, select))
                rows, text = [r for r in rows if r["node"] in ids], ""
        except EspalierError as error:
            rows, text, message = [], "", error_text(error)
        self.table.show_rows(rows)
        self.table.rows.set_filter(text)
        self.message.show_text(message)
        self._counts.setText(tr("{} of {}", len(self.table.rows.shown), plural(len(self._rows), "node")))
        self.table.mark_nodes(self._session.selection)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    # -- what is done

    def _select(self, chosen: QItemSelection, deselected: QItemSelection) -> None:
        """The nodes of the selected rows are selected everywhere."""
        ids = self.table.rows.shown
        rows = sorted(i.row() for i in self.table.selectionModel().selectedRows() if i.row() < len(ids))
        if rows:
            self._session.select(str(ids[i]["node"]) for i in rows)

    def select_all(self) -> None:
        """Select the nodes of all rows that are shown."""
        self._session.select(str(row["node"]) for row in self.table.rows.shown)

    def _values(self, column: str) -> dict[str, float]:
        """The numbers of a column by node."""
        return {str(r["node"]): float(v) for r in self._rows if isinstance(v := r.get(column), int | float)}

    def _colour_by(self) -> None:
        """Colour the graph by the numbers of a column."""
        column = self.colour.get()
        self.overlay_wanted.emit(column_title(column) if column else "", self._values(column))

    def _show_bars(self) -> None:
        """Draw bars for the numbers of a column."""
        column = self.bars.get()
        self.bars_wanted.emit(column_title(column) if column else "", self._values(column))

    def save(self, path: Path) -> None:
        """Write the rows that are shown as CSV; raises FileError."""
        self.table.save(path)
