"""Analyses that a panel runs for itself, such as the samples of data or the time of a training.

A new request replaces the one of the same analysis; errors go to the panel only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from espalier.app.translation import translated
from espalier.model.document.recipe import Step
from espalier.model.errors import JobError
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import JobEvent, JobInfo, PartialResult, Stopped

if TYPE_CHECKING:
    from espalier.app.session.session import Session

TITLES = translated({
    "data": "Inspect the data", "data_rows": "Load samples of the data", "predictions": "Predict each sample",
    "finetune_estimate": "Time a training", "shard_plan": "Plan over devices",
    "shard_scaling": "Predict the scaling over devices", "shard_run": "Run over processes",
    "shard_links": "Measure this machine",
})  # fmt: skip


class AnalysisRequests(QObject):
    """`ask` runs an analysis on the graph; `answered` carries its name, its report and its last partial result."""

    answered = Signal(str, object, object)
    failed = Signal(str, object)
    state_changed = Signal(str)  # the name of an analysis whose job started, progressed or ended

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._jobs: dict[str, JobInfo] = {}
        self._parts: dict[int, Any] = {}
        session.job_event.connect(self._job_event)

    def ask(self, name: str, options: Any) -> None:
        """Run an analysis; cancels one of the same name."""
        self.drop(name)
        submitted: list[JobInfo] = []  # filled after the callbacks are made, which compare it with the newest job
        done, failed = partial(self._done, name, submitted), partial(self._failed, name, submitted)
        submitted.append(self._session.analyse(TITLES[name], Step(name, options), done, failed=failed))
        self._jobs[name] = submitted[0]

    def drop(self, name: str = "") -> None:
        """Cancel all analyses, or the one of a name."""
        for each in [name] if name else list(self._jobs):
            job = self._jobs.pop(each, None)
            if job and job in self._session.jobs:
                self._session.cancel(job.id)

    def job(self, name: str) -> JobInfo | None:
        """The queued or running job of an analysis."""
        return self._jobs.get(name)

    def _done(self, name: str, submitted: list[JobInfo], report: Report) -> None:
        part = self._parts.pop(submitted[0].id, None)
        if self._jobs.get(name) is submitted[0]:
            del self._jobs[name]
            self.answered.emit(name, report, part)

    def _failed(self, name: str, submitted: list[JobInfo], error: JobError) -> None:
        if self._jobs.get(name) is submitted[0]:
            del self._jobs[name]
            self.failed.emit(name, error)

    def _job_event(self, event: JobEvent) -> None:
        name = next((n for n, job in self._jobs.items() if job is event.job), "")
        if name and isinstance(event.event, PartialResult):
            self._parts[event.job.id] = event.event.part
        elif name and isinstance(event.event, Stopped):
            self._jobs.pop(name)
        if name:
            self.state_changed.emit(name)
