"""Problems panel: problems of the captured graph by node, and errors of this run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QHBoxLayout, QLabel, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.features.problems.state import problems_of
from espalier.app.number_text import plural
from espalier.app.translation import tr
from espalier.app.widgets.heading import empty_state, link
from espalier.app.widgets.table import Table

if TYPE_CHECKING:
    from espalier.app.session.session import Session

EMPTY = tr("No problems. Operations that the capture could not trace, and errors of this run, are listed here.")


class ProblemsPanel(QWidget):
    """A table of problems; a row with a node selects it."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._problems = problems_of(session)
        self.clear_errors = self._problems.clear_errors
        self.table = Table()
        self.table.setAccessibleName(tr("Problems"))
        self._counts = QLabel()
        self._counts.setProperty("role", "muted")
        self._pages = QStackedWidget()
        self._pages.addWidget(empty_state(EMPTY))
        self._pages.addWidget(self.table)
        bar = QHBoxLayout()
        bar.setContentsMargins(12, 6, 12, 4)
        bar.addWidget(self._counts, 1)
        self._tools = [link(tr("Copy as TSV"), self.table.copy), link(tr("Clear errors"), self.clear_errors)]
        for tool in self._tools:
            bar.addWidget(tool)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self._pages, 1)
        self.table.node_chosen.connect(lambda node: session.select((node,)))
        self._problems.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the problems of the captured graph and the errors."""
        rows = self._problems.rows
        self.table.show_rows(rows)
        self._pages.setCurrentIndex(1 if rows else 0)
        self._counts.setText(plural(len(rows), "problem") if rows else "")
        for tool, items in zip(self._tools, (rows, self._problems.errors), strict=True):
            tool.setVisible(bool(items))
