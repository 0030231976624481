"""What is wrong or worth knowing about the graph, node by node; and errors of this run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.errors import EDIT, cause
from espalier.app.widgets.heading import empty_state, link
from espalier.app.widgets.table import Row, Table
from espalier.app.words import plural
from espalier.model.errors import EspalierError, JobError
from espalier.passes.jobs.kinds import Done, Failed, JobEvent

if TYPE_CHECKING:
    from espalier.app.session.session import Session

EMPTY = "No problems. What the capture could not take apart, and errors of this run, would be listed here."


class ProblemsPanel(QWidget):
    """A table of problems; a row with a node selects it."""

    counted = Signal(int)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._errors: list[Row] = []
        self._causes: list[str] = []  # what each error came of; it is solved when the same goes well
        self.table = Table()
        self._counts = QLabel()
        self._counts.setProperty("role", "muted")
        self._pages = QStackedWidget()
        self._pages.addWidget(empty_state(EMPTY))
        self._pages.addWidget(self.table)
        bar = QHBoxLayout()
        bar.setContentsMargins(12, 6, 12, 4)
        bar.addWidget(self._counts, 1)
        self._tools = [link("Copy as TSV", self.table.copy), link("Clear errors", self.forget)]
        for tool in self._tools:
            bar.addWidget(tool)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self._pages, 1)
        self.table.node_chosen.connect(lambda node: session.select((node,)))
        session.opened.connect(self.forget)
        session.changed.connect(lambda _: self._solve(EDIT))
        session.problem.connect(self.hear)
        session.job_event.connect(self.hear_job)
        self.refresh()

    def hear(self, error: EspalierError) -> None:
        """Add an error of an edit; those of jobs come with their job."""
        if not isinstance(error, JobError):
            self._add(EDIT, error.message, error.hint, error.node)

    def hear_job(self, heard: JobEvent) -> None:
        """Add what a job failed of; take it away when the same kind of job goes well."""
        of = cause(heard.job)
        match heard.event:
            case Failed(message=message, hint=hint, node=node):
                self._add(of, message, hint, node)
            case Done():
                self._solve(of)
            case _:
                pass

    def _add(self, of: str, message: str, hint: str, node: str | None) -> None:
        when = time.strftime("%H:%M:%S")
        self._solve(of)
        self._errors.append({"kind": f"error, {when}", "node": node, "message": message, "hint": hint})
        self._causes.append(of)
        self.refresh()

    def _solve(self, of: str) -> None:
        kept = [(e, c) for e, c in zip(self._errors, self._causes, strict=True) if c != of]
        if len(kept) < len(self._errors):
            self._errors, self._causes = [e for e, _ in kept], [c for _, c in kept]
            self.refresh()

    def refresh(self) -> None:
        """Show the trace's problems and the errors."""
        held = [{"kind": p.severity, "node": p.node, "message": p.message, "hint": ""} for p in self._session.problems]
        rows = [*reversed(self._errors), *held]
        self.table.show_rows(rows)
        self._pages.setCurrentIndex(1 if rows else 0)
        self._counts.setText(plural(len(rows), "problem") if rows else "")
        for tool, wanted in zip(self._tools, (rows, self._errors), strict=True):
            tool.setVisible(bool(wanted))
        self.counted.emit(len(rows))

    def forget(self) -> None:
        """Drop the errors; what the trace found of the graph stays."""
        self._errors.clear()
        self._causes.clear()
        self.refresh()
