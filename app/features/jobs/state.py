"""The jobs of this run as the panel lists them: they follow the session from its beginning."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.app.jobs.status import status_text
from espalier.app.session.recovery import is_copy
from espalier.app.translation import tr
from espalier.passes.jobs.kinds import (
    AnalyseJob,
    Done,
    Failed,
    JobEvent,
    JobInfo,
    LogLine,
    Metric,
    PartialResult,
    Progress,
    ReplayJob,
    SearchJob,
    Stopped,
    SweepJob,
)

if TYPE_CHECKING:
    from espalier.app.session.session import Session

MAX_ROWS = 40
TICK = 250  # milliseconds between two updates while a job runs


def series(job: JobInfo) -> object:
    """Key shared by successive jobs that repeat one request, such as the same pruning or measurement."""
    match job.job:
        case ReplayJob(recipe=recipe) if recipe.active:
            last = recipe.active[-1]
            return "replay", last.pass_name, len(recipe), getattr(last.options, "select", None)
        case AnalyseJob(step=step):
            return "analyse", step.pass_name, job.title
        case SweepJob():
            return "sweep", job.title
        case SearchJob():
            return "search", job.title
        case _:
            return job.id


def superseded(old: JobInfo, new: JobInfo) -> bool:
    """Whether a newer job replaces an entry: a repeated replay that is done, or a job that was stopped."""
    if series(old) != series(new):
        return False
    return old.state == "stopped" or (old.state == "done" and isinstance(old.job, ReplayJob))


def is_quiet(job: JobInfo) -> bool:
    """Whether a job is too small to be listed, such as a recovery copy or a page of samples."""
    return is_copy(job) or (isinstance(job.job, AnalyseJob) and job.job.step.pass_name == "data_rows")


@dataclass(slots=True)
class Entry:
    """A listed job; `failure`: why it failed."""

    job: JobInfo
    has_reported: bool = False  # whether any event of the job has arrived
    failure: str = ""


def job_list_of(session: Session) -> JobList:
    """The session's JobList, created once."""
    return session.findChild(JobList) or JobList(session)


class JobList(QObject):
    """Signals carry the number of a job: `added`, `removed` and `updated`.

    `chosen`: the log of another job is shown; `logged`: a line of it. `ticked`: running jobs have gone on. `busy`: the
    text of the running job.
    """

    added = Signal(int)
    removed = Signal(int)
    updated = Signal(int)
    chosen = Signal()
    logged = Signal(str)
    ticked = Signal()
    busy = Signal(str)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self.entries: dict[int, Entry] = {}  # oldest first
        self.choice: JobInfo | None = None
        self._clock = QTimer(self, interval=TICK)
        self._clock.timeout.connect(self._tick)
        session.job_event.connect(self.on_job_event)
        session.queued.connect(self._list_queued)

    def _list_queued(self) -> None:
        """Add waiting jobs, which have sent no event yet."""
        for job in self._session.jobs:
            if job.id not in self.entries and job.finished is None and not is_quiet(job):
                self._add(job)

    def on_job_event(self, job_event: JobEvent) -> None:
        """Update the list for an event of a job."""
        job, event = job_event.job, job_event.event
        if is_quiet(job):
            return
        entry = self.entries.get(job.id) or self._add(job)
        if not entry.has_reported:
            entry.has_reported = True
            self.choose(job.id)
        if isinstance(event, Metric) or (isinstance(event, Progress | PartialResult) and self._clock.isActive()):
            return  # too frequent to show each one; the timer updates the row
        match event:
            case LogLine(text) if job is self.choice:
                self.logged.emit(text)
            case Failed(message=message, details=details):
                entry.failure = message
                if details:
                    job.log.extend(details.rstrip().splitlines())
                self.choose(job.id)
            case Done() | Stopped():
                pass
            case _:
                self._clock.start()
        self.updated.emit(job.id)
        self._emit_busy()

    def _add(self, job: JobInfo) -> Entry:
        for number in [n for n, entry in self.entries.items() if superseded(entry.job, job)]:
            self._remove(number)  # such as those of a dragged slider
        entry = self.entries[job.id] = Entry(job)
        self.added.emit(job.id)
        for number in list(self.entries)[:-MAX_ROWS]:
            self._remove(number)
        return entry

    def _remove(self, number: int) -> None:
        del self.entries[number]
        self.removed.emit(number)

    def choose(self, number: int) -> None:
        """Choose the job whose log is shown, also after it has left the list."""
        self.choice = self.entries[number].job
        self.chosen.emit()

    def _tick(self) -> None:
        self.ticked.emit()
        if all(entry.job.finished is not None for entry in self.entries.values()):
            self._clock.stop()
        self._emit_busy()

    def _emit_busy(self) -> None:
        running = [e.job for e in self.entries.values() if e.job.state == "running"]
        if not running:
            self.busy.emit("")
            return
        others = sum(not is_quiet(j) for j in self._session.jobs) - 1
        more = tr(" · {} more", others) if others > 0 else ""
        self.busy.emit(f"{running[0].title}: {status_text(running[0], time.monotonic())}{more}")
