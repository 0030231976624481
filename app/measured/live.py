"""Measures again after every edit, where data is known: see the consequence at once.

One job measures accuracy, loss and the divergence from the baseline; where the score is known from elsewhere, only the
divergence is measured, from the changed layer on. What takes long waits until no edit comes, or to be asked for.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.app.measured.pace import PATIENT, QUICK, Pace, macs_of
from espalier.app.session.accuracies import Baseline
from espalier.model.data.base import source_of
from espalier.model.document.recipe import Recipe, Step
from espalier.model.graph.graph import Graph
from espalier.passes.analysis.divergence import DivergenceOptions
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import TERMINAL, AnalyseJob, Done, JobEvent, JobInfo
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session

PAUSE = 400  # milliseconds without another edit


def _is_there(data: str) -> bool:
    """Whether data can be measured on unasked: a file that has gone since would be told at every edit."""
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
    """Where data is known, the source's or that of the last measurement: evaluates on opening, and after edits.

    `expected`: processor seconds that an evaluation of the present graph takes; 0 while that is not known.
    """

    judged = Signal()  # what `due`, `expected` or `enabled` says is another

    def __init__(self, session: Session, pause: int = PAUSE) -> None:
        super().__init__(session)
        self._session = session
        self._enabled = True
        self._pace: Pace | None = None
        self.expected = 0.0
        self._pause = pause
        self._unasked: set[int] = set()  # evaluations that were begun here
        self._tried: Graph | None = None  # whose divergence was asked for last: what fails is not asked for again
        self._wait = QTimer(self, singleShot=True, interval=pause)
        self._wait.timeout.connect(self._measure)
        session.opened.connect(self._opened)
        session.changed.connect(self._changed)
        session.compared_changed.connect(self._compare_anew)
        session.queued.connect(self._make_room)
        session.job_event.connect(self._hear)

    @property
    def enabled(self) -> bool:
        """Whether edits are to be measured at all."""
        return self._enabled

    @enabled.setter
    def enabled(self, wanted: bool) -> None:
        """Measure after edits, or not."""
        self._enabled = wanted
        self.judged.emit()

    @property
    def waiting(self) -> bool:
        """Whether a measurement is about to start."""
        return self._wait.isActive() and self.expected <= QUICK

    @property
    def on_request(self) -> bool:
        """Whether an evaluation takes so long that it must be asked for."""
        return self.expected > PATIENT

    @property
    def due(self) -> bool:
        """Whether the score of the present graph is being measured, or is about to be."""
        return self.waiting or any(is_evaluation(j) for j in self._session.jobs)

    def _opened(self) -> None:
        self._pace = None
        self._expect()
        self._wait.start(self._pause) if self._session.document else self._wait.stop()
        self.judged.emit()

    def _changed(self) -> None:
        self._expect()
        if self.enabled:
            for job in list(self._session.jobs):
                if is_comparison(job) or (is_evaluation(job) and (self.expected <= QUICK or job.id in self._unasked)):
                    self._session.cancel(job.id)
            self._tried = None
            self._start()
        self.judged.emit()

    def _start(self) -> None:
        """Measure after the pause; what takes longer than a moment, once no edit has come for as long as it takes."""
        if self.on_request:
            self._wait.stop()
        else:
            self._wait.start(self._pause if self.expected <= QUICK else round(1000 * self.expected))

    def _expect(self) -> None:
        document = self._session.document
        self.expected = self._pace.seconds_of(document.graph) if self._pace and document else 0.0

    def _measure(self) -> None:
        wanted = self.enabled and not self.on_request and _is_there(self._session.measured_on.data)
        if wanted and self._session.score.accuracy is None:
            before = {j.id for j in self._session.jobs}
            if self.expected > QUICK and before:
                return  # it starts when they have ended
            self._session.evaluate()
            self._unasked = {j.id for j in self._session.jobs} - before
        else:
            self._compare()
        self.judged.emit()

    def _make_room(self) -> None:
        """Another job has come: an evaluation that nobody asked for and that takes long does not keep it waiting."""
        newest = self._session.jobs[-1]
        running = [j for j in self._session.jobs if j.id in self._unasked]
        if self.expected > QUICK and running and not is_evaluation(newest):
            for job in running:
                self._session.cancel(job.id)
        self.judged.emit()

    def _go_on(self) -> None:
        """The job that was in the way has ended."""
        if self.enabled and not self._session.jobs and self._session.score.accuracy is None:
            self._start()

    def _compare(self) -> None:
        """Where the accuracy is known and it is not, measure how far the outputs are from the baseline's."""
        session, document = self._session, self._session.document
        if document is None or not document.recipe.active or not self.enabled or self.on_request:
            return
        graph, base = document.graph, session.compared
        known = session.score.accuracy is not None and session.measured_on.data
        if known and graph is not self._tried and session.measures.divergence(document.recipe, base) is None:
            self._tried = graph
            data, recipe = session.measured_on, document.recipe
            step, silent = Step("divergence", DivergenceOptions(**asdict(data), baseline=base.name)), lambda _: None
            take = partial(self._take, recipe, data, base)
            session.analyse("Divergence", step, take, failed=silent, against=base)

    def _take(self, recipe: Recipe, data: EvaluateOptions, base: Baseline, report: Report) -> None:
        self._session.know_divergence(recipe, data, report.summary.get("kl"), base)

    def _compare_anew(self) -> None:
        """Another baseline was chosen."""
        self._tried = None
        self._compare()

    def _hear(self, heard: JobEvent) -> None:
        """Judge the pace by each evaluation itself, without the loading of data before it."""
        job, event = heard.job, heard.event
        if not isinstance(event, TERMINAL):
            return
        self._unasked.discard(job.id)
        if isinstance(event, Done) and is_evaluation(job):
            self._pace = Pace(event.seconds, macs_of(job.job.graph))  # type: ignore[union-attr]
            self._expect()
            self._compare()
        elif self.expected > QUICK and not is_evaluation(job):
            self._go_on()
        self.judged.emit()
