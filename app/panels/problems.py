"""What is wrong or worth knowing about the graph, node by node; and errors of this run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QStackedWidget, QVBoxLayout, QWidget

from app.panels.heading import empty_state, link
from app.panels.table import Row, Table
from app.words import plural
from model.errors import EspalierError

if TYPE_CHECKING:
    from app.session import Session

EMPTY = "No problems. What the capture could not take apart, and errors of this run, would be listed here."


class ProblemsPanel(QWidget):
    """A table of problems; a row with a node selects it."""

    counted = Signal(int)

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._errors: list[Row] = []
        self.table = Table()
        self._counts = QLabel()
        self._counts.setProperty("role", "muted")
        self._pages = QStackedWidget()
        self._pages.addWidget(empty_state(EMPTY))
        self._pages.addWidget(self.table)
        bar = QHBoxLayout()
        bar.setContentsMargins(12, 6, 12, 4)
        bar.addWidget(self._counts, 1)
        self._tools = [link("Copy as TSV", self.table.copy), link("Clear errors", self._forget)]
        for tool in self._tools:
            bar.addWidget(tool)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self._pages, 1)
        self.table.node_chosen.connect(lambda node: session.select((node,)))
        session.opened.connect(self.refresh)
        session.problem.connect(self.hear)
        self.refresh()

    def hear(self, error: EspalierError) -> None:
        """Add an error of this run."""
        when = time.strftime("%H:%M:%S")
        self._errors.append(
            {"kind": f"error, {when}", "node": error.node, "message": error.message, "hint": error.hint}
        )
        self.refresh()

    def refresh(self) -> None:
        """Show the trace's problems and the errors."""
        held = [{"kind": p.severity, "node": p.node, "message": p.message, "hint": ""} for p in self._session.problems]
        rows = [*reversed(self._errors), *held]
        self.table.show_rows(rows)
        self._pages.setCurrentIndex(1 if rows else 0)
        self._counts.setText(plural(len(rows), "problem") if rows else "")
        for tool in self._tools:
            tool.setVisible(bool(rows))
        self.counted.emit(len(rows))

    def _forget(self) -> None:
        self._errors.clear()
        self.refresh()
