"""Problems panel: problems of the captured graph by node, and errors of this run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.errors import EDIT, cause
from espalier.app.number_text import plural
from espalier.app.widgets.heading import empty_state, link
from espalier.app.widgets.table import Row, Table
from espalier.model.errors import EspalierError, JobError
from espalier.passes.jobs.kinds import Done, Failed, JobEvent

if TYPE_CHECKING:
    from espalier.app.session.session import Session

EMPTY = "No problems. Operations that the capture could not trace, and errors of this run, are listed here."


class ProblemsPanel(QWidget):
    """A table of problems; a row with a node selects it."""

    counted = Signal(int)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._errors: list[Row] = []
        self._causes: list[str] = []  # of each error; it is resolved when the same action succeeds
        self.table = Table()
        self.table.setAccessibleName("Problems")
        self._counts = QLabel()
        self._counts.setProperty("role", "muted")
        self._pages = QStackedWidget()
        self._pages.addWidget(empty_state(EMPTY))
        self._pages.addWidget(self.table)
        bar = QHBoxLayout()
        bar.setContentsMargins(12, 6, 12, 4)
        bar.addWidget(self._counts, 1)
        self._tools = [link("Copy as TSV", self.table.copy), link("Clear errors", self.clear_errors)]
        for tool in self._tools:
            bar.addWidget(tool)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self._pages, 1)
        self.table.node_chosen.connect(lambda node: session.select((node,)))
        session.opened.connect(self.clear_errors)
        session.changed.connect(lambda _: self._resolve(EDIT))
        session.problem.connect(self.add_error)
        session.job_event.connect(self.on_job_event)
        self.refresh()

    def add_error(self, error: EspalierError) -> None:
        """Add an error of an edit; errors of jobs arrive with the job event."""
        if not isinstance(error, JobError):
            self._add(EDIT, error.message, error.hint, error.node)

    def on_job_event(self, job_event: JobEvent) -> None:
        """Add the error of a failed job; remove it when a job with the same cause succeeds."""
        of = cause(job_event.job)
        match job_event.event:
            case Failed(message=message, hint=hint, node=node):
                self._add(of, message, hint, node)
            case Done():
                self._resolve(of)
            case _:
                pass

    def _add(self, of: str, message: str, hint: str, node: str | None) -> None:
        when = time.strftime("%H:%M:%S")
        self._resolve(of)
        self._errors.append({"kind": f"error, {when}", "node": node, "message": message, "hint": hint})
        self._causes.append(of)
        self.refresh()

    def _resolve(self, of: str) -> None:
        remaining = [(e, c) for e, c in zip(self._errors, self._causes, strict=True) if c != of]
        if len(remaining) < len(self._errors):
            self._errors, self._causes = [e for e, _ in remaining], [c for _, c in remaining]
            self.refresh()

    def refresh(self) -> None:
        """Show the problems of the captured graph and the errors."""
        graph_problems = [
            {"kind": p.severity, "node": p.node, "message": p.message, "hint": ""} for p in self._session.problems
        ]
        rows = [*reversed(self._errors), *graph_problems]
        self.table.show_rows(rows)
        self._pages.setCurrentIndex(1 if rows else 0)
        self._counts.setText(plural(len(rows), "problem") if rows else "")
        for tool, items in zip(self._tools, (rows, self._errors), strict=True):
            tool.setVisible(bool(items))
        self.counted.emit(len(rows))

    def clear_errors(self) -> None:
        """Remove the errors; problems of the captured graph stay."""
        self._errors.clear()
        self._causes.clear()
        self.refresh()
