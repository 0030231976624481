"""Measures score and divergence after every edit, if data is set.

One job measures accuracy, loss and divergence; if the score is known already, only the divergence is measured, from the
changed layer on. Slow evaluations wait for a pause between edits, or run on request only.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.app.jobs.concurrency import is_long
from espalier.app.measured.evaluation_time import DELAYED_LIMIT, IMMEDIATE_LIMIT, EvaluationTime, macs_of
from espalier.app.session.measures import Baseline
from espalier.app.translation import tr
from espalier.model.data.base import source_of
from espalier.model.document.recipe import Recipe, Step
from espalier.model.graph.graph import Graph
from espalier.passes.analysis.divergence import DivergenceOptions
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import TERMINAL, AnalyseJob, Done, JobEvent, JobInfo
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session

PAUSE = 400  # milliseconds between the last edit and the measurement


def _exists(data: str) -> bool:
    """Whether data exists: a missing file would raise an error at every edit."""
    source, name = source_of(data)
    if source is None:
        return bool(data) and Path(data).expanduser().exists()
    return not data.startswith("memory:") and all(path.exists() for path in source.files(name))


def is_evaluation(job: JobInfo) -> bool:
    """Whether a job measures the score."""
    return isinstance(job.job, AnalyseJob) and job.job.step.pass_name == "evaluate"


def is_comparison(job: JobInfo) -> bool:
    """Whether a job measures the divergence of the present choices."""
    work = job.job
    return isinstance(work, AnalyseJob) and work.step.pass_name == "divergence" and not work.step.options.cells


class LiveMeasure(QObject):
    """Evaluates on opening and after edits, on the source's data or that of the last measurement.

    `expected`: estimated processor seconds of an evaluation of the present graph; 0 if unknown.
    """

    state_changed = Signal()  # `due`, `expected` or `enabled` has changed

    def __init__(self, session: Session, pause: int = PAUSE) -> None:
        super().__init__(session)
        self._session = session
        self._enabled = True
        self._evaluation_time: EvaluationTime | None = None
        self.expected = 0.0
        self._pause = pause
        self._automatic: set[int] = set()  # ids of evaluations started automatically
        self._requested: Graph | None = None  # whose divergence was requested last; failures are not retried
        self._timer = QTimer(self, singleShot=True, interval=pause)
        self._timer.timeout.connect(self._measure)
        session.opened.connect(self._opened)
        session.changed.connect(self._changed)
        session.compared_changed.connect(self._on_baseline)
        session.queued.connect(self._yield_to_jobs)
        session.job_event.connect(self._on_event)

    @property
    def enabled(self) -> bool:
        """Whether edits are measured."""
        return self._enabled

    @enabled.setter
    def enabled(self, wanted: bool) -> None:
        """Enable or disable measuring after edits."""
        self._enabled = wanted
        self.state_changed.emit()

    @property
    def waiting(self) -> bool:
        """Whether a measurement is about to start."""
        return self._timer.isActive() and self.expected <= IMMEDIATE_LIMIT

    @property
    def on_request(self) -> bool:
        """Whether an evaluation is too slow to run automatically."""
        return self.expected > DELAYED_LIMIT

    @property
    def due(self) -> bool:
        """Whether an evaluation is running or about to start."""
        return self.waiting or any(is_evaluation(j) for j in self._session.jobs)

    def _opened(self) -> None:
        self._evaluation_time = None
        self._expect()
        self._timer.start(self._pause) if self._session.document else self._timer.stop()
        self.state_changed.emit()

    def _changed(self) -> None:
        self._expect()
        if self.enabled:
            for job in list(self._session.jobs):
                if is_comparison(job) or (
                    is_evaluation(job) and (self.expected <= IMMEDIATE_LIMIT or job.id in self._automatic)
                ):
                    self._session.cancel(job.id)
            self._requested = None
            self._start()
        self.state_changed.emit()

    def _start(self) -> None:
        """Schedule the measurement: quick ones after a pause, slow ones after as long without an edit as they take."""
        if self.on_request:
            self._timer.stop()
        else:
            self._timer.start(self._pause if self.expected <= IMMEDIATE_LIMIT else round(1000 * self.expected))

    def _expect(self) -> None:
        document = self._session.document
        self.expected = self._evaluation_time.seconds_of(document.graph) if self._evaluation_time and document else 0.0

    def _measure(self) -> None:
        wanted = self.enabled and not self.on_request and _exists(self._session.measured_on.data)
        if wanted and self._session.score.loss is None:
            before = {j.id for j in self._session.jobs}
            if self.expected > IMMEDIATE_LIMIT and self._has_short_jobs:
                return  # started after these jobs have ended
            self._session.evaluate()
            self._automatic = {j.id for j in self._session.jobs} - before
        else:
            self._compare()
        self.state_changed.emit()

    def _yield_to_jobs(self) -> None:
        """Cancel a slow automatic evaluation when another job is queued."""
        newest = self._session.jobs[-1]
        running = [j for j in self._session.jobs if j.id in self._automatic]
        if self.expected > IMMEDIATE_LIMIT and running and not is_evaluation(newest):
            for job in running:
                self._session.cancel(job.id)
        self.state_changed.emit()

    @property
    def _has_short_jobs(self) -> bool:
        """Whether a job is about to end; long ones leave room for an evaluation beside them."""
        return any(not is_long(job.job) for job in self._session.jobs)

    def _resume(self) -> None:
        """Restart the evaluation after the other jobs have ended."""
        if self.enabled and not self._has_short_jobs and self._session.score.loss is None:
            self._start()

    def _compare(self) -> None:
        """Measure the divergence from the baseline if only the accuracy is known."""
        session, document = self._session, self._session.document
        if document is None or not document.recipe.active or not self.enabled or self.on_request:
            return
        graph, base = document.graph, session.compared
        scored = session.score.loss is not None and session.measured_on.data
        if scored and graph is not self._requested and session.measures.divergence(document.recipe, base) is None:
            self._requested = graph
            data, recipe = session.measured_on, document.recipe
            step, ignore = Step("divergence", DivergenceOptions(**asdict(data), baseline=base.name)), lambda _: None
            take = partial(self._take, recipe, data, base)
            session.analyse(tr("Divergence"), step, take, failed=ignore, against=base)

    def _take(self, recipe: Recipe, data: EvaluateOptions, base: Baseline, report: Report) -> None:
        self._session.record_divergence(recipe, data, report.summary.get("kl"), base)

    def _on_baseline(self) -> None:
        """Measure the divergence from a newly chosen baseline."""
        self._requested = None
        self._compare()

    def _on_event(self, job_event: JobEvent) -> None:
        """Update the expected time by each evaluation, excluding data loading."""
        job, event = job_event.job, job_event.event
        if not isinstance(event, TERMINAL):
            return
        self._automatic.discard(job.id)
        if isinstance(event, Done) and is_evaluation(job):
            self._evaluation_time = EvaluationTime(event.seconds, macs_of(job.job.graph))  # type: ignore[union-attr]
            self._expect()
            self._compare()
        elif self.expected > IMMEDIATE_LIMIT and not is_evaluation(job):
            self._resume()
        self.state_changed.emit()
