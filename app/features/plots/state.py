"""The jobs of the document that report metrics, whether or not the panel exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from espalier.app.jobs.status import trains
from espalier.app.translation import message, tr
from espalier.passes.jobs.kinds import TERMINAL, JobEvent, JobInfo, Metric

if TYPE_CHECKING:
    from espalier.app.session.session import Session

MAX_RUNS = 20
EMPTY = tr("No plot yet. A training (Model → Fine-tune…) draws its loss and accuracy here while it runs.")


def plotted_runs_of(session: Session) -> PlottedRuns:
    """The session's PlottedRuns, created once."""
    return session.findChild(PlottedRuns) or PlottedRuns(session)


class PlottedRuns(QObject):
    """Keeps the newest runs until the document closes.

    `started`: a run with its first metric; `measured`: a further metric; `ended`: a run has ended. `text_changed`:
    what is shown without a run. `cleared`: another document is open.
    """

    started = Signal(int)
    measured = Signal()
    ended = Signal()
    text_changed = Signal()
    cleared = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.runs: dict[int, JobInfo] = {}
        self.text = EMPTY
        session.job_event.connect(self.on_job_event)
        session.opened.connect(self._clear)

    def on_job_event(self, job_event: JobEvent) -> None:
        """Take up a job at its first metric."""
        job, is_known = job_event.job, job_event.job.id in self.runs
        if isinstance(job_event.event, Metric) and not is_known:
            self.runs[job.id] = job
            for number in list(self.runs)[:-MAX_RUNS]:
                self.runs.pop(number)
            self.started.emit(job.id)
        elif not self.runs:
            self._tell_progress(job)
        if isinstance(job_event.event, Metric):
            self.measured.emit()
        elif isinstance(job_event.event, TERMINAL) and is_known:
            self.ended.emit()

    def _tell_progress(self, job: JobInfo) -> None:
        """Say what a training does before its first metric."""
        if trains(job.job):
            running = job.state == "running"
            doing = f": {message(job.progress.text)}" if job.progress and job.progress.text else ""
            text = tr("{} is running{}. Its curves are drawn here live.", job.title, doing)
            self.text = text if running else EMPTY
            self.text_changed.emit()

    def _clear(self) -> None:
        """Discard all runs: they belong to another document."""
        self.runs.clear()
        self.text = EMPTY
        self.cleared.emit()

    def name(self, number: int) -> str:
        """The title of a run, with its number among the runs."""
        return f"{self.runs[number].title} {list(self.runs).index(number) + 1}"
