"""The problems of the captured graph and the errors of this run, whether or not the panel exists."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from espalier.app.errors import EDIT, cause, cause_of
from espalier.app.translation import message, tr
from espalier.model.errors import EspalierError, JobError
from espalier.passes.jobs.kinds import Done, Failed, JobEvent

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.app.widgets.table import Row


def problems_of(session: Session) -> Problems:
    """The session's Problems, created once."""
    return session.findChild(Problems) or Problems(session)


class Problems(QObject):
    """Emits `changed` when the rows are others."""

    changed = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self.errors: list[Row] = []
        self._causes: list[str] = []  # of each error; it is resolved when the same action succeeds
        session.opened.connect(self.clear_errors)
        session.changed.connect(lambda _: self._resolve(EDIT))
        session.problem.connect(self.add_error)
        session.resolved.connect(self._resolve)
        session.job_event.connect(self.on_job_event)

    @property
    def rows(self) -> list[Row]:
        """The errors, newest first, then the problems of the captured graph."""
        graph_problems: list[Row] = [
            {"kind": p.severity, "node": p.node, "message": p.message, "hint": ""} for p in self._session.problems
        ]
        return [*reversed(self.errors), *graph_problems]

    def add_error(self, error: EspalierError) -> None:
        """Add an error of an edit; errors of jobs arrive with the job event."""
        if not isinstance(error, JobError):
            self._add(cause_of(error), message(error.message), message(error.hint), error.node)

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
        self.errors.append({"kind": tr("error, {}", when), "node": node, "message": message, "hint": hint})
        self._causes.append(of)
        self.changed.emit()

    def _resolve(self, of: str) -> None:
        remaining = [(e, c) for e, c in zip(self.errors, self._causes, strict=True) if c != of]
        if len(remaining) < len(self.errors):
            self.errors, self._causes = [e for e, _ in remaining], [c for _, c in remaining]
            self.changed.emit()

    def clear_errors(self) -> None:
        """Remove the errors; problems of the captured graph stay."""
        self.errors.clear()
        self._causes.clear()
        self.changed.emit()
