"""Measures again after every edit, where data is known and that is quick: see the consequence at once.

One job measures accuracy, loss and the divergence from the baseline; where the score is known from elsewhere, only the
divergence is measured, from the changed layer on.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from model.graph import Graph
from model.recipe import Recipe, Step
from passes.analysis.divergence import DivergenceOptions
from passes.analysis.evaluate import EvaluateOptions
from passes.base import Report
from passes.jobs import AnalyseJob, Done, JobEvent, JobInfo, Progress

if TYPE_CHECKING:
    from app.session import Session

PAUSE = 400  # milliseconds without another edit
QUICK = 8.0  # seconds that an evaluation may take to be run unasked


def _is_there(data: str) -> bool:
    """Whether data can be measured on unasked: a file that has gone since would be told at every edit."""
    return bool(data) and (data.startswith(("demo:", "hub:")) or Path(data).expanduser().exists())


def is_evaluation(job: JobInfo) -> bool:
    """Whether a job measures the score."""
    return isinstance(job.job, AnalyseJob) and job.job.step.pass_name == "evaluate"


def is_comparison(job: JobInfo) -> bool:
    """Whether a job measures the divergence of the present choices."""
    work = job.job
    return isinstance(work, AnalyseJob) and work.step.pass_name == "divergence" and not work.step.options.cells


class LiveMeasure(QObject):
    """Where data is known, the source's or that of the last measurement: evaluates on opening, and after edits."""

    slowed = Signal(bool)  # whether an evaluation takes too long to be run unasked

    def __init__(self, session: Session, pause: int = PAUSE) -> None:
        super().__init__(session)
        self._session = session
        self.enabled = True
        self._slow = False
        self._since = (0, 0.0)
        self._tried: Graph | None = None  # whose divergence was asked for last: what fails is not asked for again
        self._wait = QTimer(self, singleShot=True, interval=pause)
        self._wait.timeout.connect(self._measure)
        session.opened.connect(self._opened)
        session.changed.connect(self._changed)
        session.job_event.connect(self._hear)

    @property
    def waiting(self) -> bool:
        """Whether a measurement is about to start."""
        return self._wait.isActive()

    def _opened(self) -> None:
        self._judge(False)
        self._wait.start() if self._session.document else self._wait.stop()

    def _changed(self) -> None:
        if not self.enabled or self._slow:
            return
        for job in list(self._session.jobs):
            if is_evaluation(job) or is_comparison(job):
                self._session.cancel(job.id)
        self._tried = None
        self._wait.start()

    def _measure(self) -> None:
        wanted = self.enabled and not self._slow and _is_there(self._session.measured_on.data)
        if wanted and self._session.score.accuracy is None:
            self._session.evaluate()
        else:
            self._compare()

    def _compare(self) -> None:
        """Where the accuracy is known and it is not, measure how far the outputs are from the baseline's."""
        session, document = self._session, self._session.document
        if document is None or not document.recipe.active or not self.enabled or self._slow:
            return
        graph = document.graph
        known = session.score.accuracy is not None and session.measured_on.data
        if known and graph is not self._tried and session.measures.divergence(document.recipe) is None:
            self._tried = graph
            data, recipe = session.measured_on, document.recipe
            step, silent = Step("divergence", DivergenceOptions(**asdict(data))), lambda _: None
            take = partial(self._take, recipe, data)
            session.analyse("Divergence", step, take, failed=silent)

    def _take(self, recipe: Recipe, data: EvaluateOptions, report: Report) -> None:
        self._session.know_score(recipe, data, {"kl": report.summary.get("kl")})

    def _hear(self, heard: JobEvent) -> None:
        """Judge the speed by the run itself, without the loading of data before it."""
        job = heard.job
        if not is_evaluation(job):
            return
        if isinstance(heard.event, Progress) and self._since[0] != job.id:
            self._since = job.id, time.monotonic()
        elif isinstance(heard.event, Done):
            if self._since[0] == job.id:
                self._judge(time.monotonic() - self._since[1] > QUICK)
            self._compare()

    def _judge(self, slow: bool) -> None:
        if slow != self._slow:
            self._slow = slow
            self.slowed.emit(slow)
