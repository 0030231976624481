"""Why the last change of the recipe was not applied, whether or not the panel exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from espalier.app.translation import message
from espalier.passes.jobs.kinds import Failed, JobEvent, ReplayJob, Started

if TYPE_CHECKING:
    from espalier.app.session.session import Session


def failed_edit_of(session: Session) -> FailedEdit:
    """The session's FailedEdit, created once."""
    return session.findChild(FailedEdit) or FailedEdit(session)


class FailedEdit(QObject):
    """`message` is empty once the edit is tried again, or the recipe is another one. Emits `changed`."""

    changed = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.message = ""
        session.opened.connect(lambda: self._set(""))
        session.changed.connect(lambda _: self._set(""))
        session.job_event.connect(self._on_job_event)

    def _on_job_event(self, job_event: JobEvent) -> None:
        if not isinstance(job_event.job.job, ReplayJob) or job_event.job.job.beside:
            return
        if isinstance(job_event.event, Failed):
            self._set(message(job_event.event.message))
        elif isinstance(job_event.event, Started):  # tried again
            self._set("")

    def _set(self, message: str) -> None:
        if message != self.message:
            self.message = message
            self.changed.emit()
