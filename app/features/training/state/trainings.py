"""The running training of the document and how the last one ended, whether or not the panel exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from espalier.app.features.training.state.run_text import result_text
from espalier.app.jobs.status import trains
from espalier.app.translation import tr
from espalier.model.errors import EspalierError, JobError
from espalier.passes.jobs.kinds import Failed, JobEvent, JobInfo, ReplayJob

if TYPE_CHECKING:
    from espalier.app.session.session import Session

PASS = "finetune"


def trainings_of(session: Session) -> Trainings:
    """The session's Trainings, created once."""
    return session.findChild(Trainings) or Trainings(session)


class Trainings(QObject):
    """`began`: a training runs; `ended`: it has ended. `busy_changed`: whether one is queued or running.

    `result_changed`: the text of the last one's result. `failed`: the error with which one has ended.
    """

    began = Signal(object)
    ended = Signal()
    busy_changed = Signal(bool)
    result_changed = Signal()
    failed = Signal(object)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self.job: JobInfo | None = None  # the running one
        self.result = ""  # empty once the state has changed
        self.error: EspalierError | None = None  # of the last one, until the state changes
        session.opened.connect(self._forget)
        session.changed.connect(self._on_changed)
        session.job_event.connect(self._on_event)

    def _forget(self) -> None:
        self.result, self.error = "", None
        self.result_changed.emit()

    def _on_event(self, job_event: JobEvent) -> None:
        job = job_event.job
        if not isinstance(job.job, ReplayJob) or job.job.beside or not trains(job.job):
            return
        busy = job in self._session.jobs
        if busy and self.job is not job and job.state != "waiting":
            self.job = job
            self._forget()
            self.began.emit(job)
        self.busy_changed.emit(busy)
        if isinstance(job_event.event, Failed) and self.job is job:
            self._fail(job_event.event)
        if not busy and self.job is job:
            self.job = None
            self.ended.emit()

    def _on_changed(self) -> None:
        """Take the result of a training that has just ended; another edit outdates it."""
        reports = [r for r in self._session.step_reports() if r is not None and r.pass_name == PASS]
        if self.job is None:
            self._forget()
        elif reports:
            self.result = tr("{} Undo (Ctrl+Z) reverts it.", result_text(reports[-1]))
            self.result_changed.emit()

    def _fail(self, end: Failed) -> None:
        """Keep the error of the training itself: other jobs run beside it, and their errors are shown elsewhere."""
        self.error = JobError(end.message, end.hint, end.node)
        self.failed.emit(self.error)
