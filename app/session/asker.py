"""What a panel asks of the worker for itself, such as a look at data or the time of a training.

The newest wish of a kind wins, and what goes wrong is told to the panel alone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from espalier.model.document.recipe import Step
from espalier.model.errors import JobError
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import Found, JobEvent, JobInfo, Stopped

if TYPE_CHECKING:
    from espalier.app.session.session import Session

TITLES = {
    "data": "Look at the data", "data_rows": "Samples of the data", "predictions": "Predict each sample",
    "finetune_estimate": "Time a training",
}  # fmt: skip


class Asker(QObject):
    """`ask` runs an analysis of the present graph; `answered` tells its name, its report and what it found besides."""

    answered = Signal(str, object, object)
    failed = Signal(str, object)
    stood = Signal(str)  # the name of an analysis whose job began, went on or ended

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._jobs: dict[str, JobInfo] = {}
        self._parts: dict[int, Any] = {}
        session.job_event.connect(self._hear)

    def ask(self, name: str, options: Any) -> None:
        """Run the analysis; one of the same name that is under way is dropped."""
        self.drop(name)
        wish: list[JobInfo] = []
        step, done, failed = Step(name, options), partial(self._take, name, wish), partial(self._fail, name, wish)
        wish.append(self._session.analyse(TITLES[name], step, done, failed=failed))
        self._jobs[name] = wish[0]

    def drop(self, name: str = "") -> None:
        """Stop what is under way: all, or of one name."""
        for each in [name] if name else list(self._jobs):
            held = self._jobs.pop(each, None)
            if held and held in self._session.jobs:
                self._session.cancel(held.id)

    def job(self, name: str) -> JobInfo | None:
        """The job of this name that waits or runs."""
        return self._jobs.get(name)

    def _take(self, name: str, wish: list[JobInfo], report: Report) -> None:
        part = self._parts.pop(wish[0].id, None)
        if self._jobs.get(name) is wish[0]:
            del self._jobs[name]
            self.answered.emit(name, report, part)

    def _fail(self, name: str, wish: list[JobInfo], error: JobError) -> None:
        if self._jobs.get(name) is wish[0]:
            del self._jobs[name]
            self.failed.emit(name, error)

    def _hear(self, heard: JobEvent) -> None:
        name = next((n for n, job in self._jobs.items() if job is heard.job), "")
        if name and isinstance(heard.event, Found):
            self._parts[heard.job.id] = heard.event.part
        elif name and isinstance(heard.event, Stopped):
            self._jobs.pop(name)
        if name:
            self.stood.emit(name)
