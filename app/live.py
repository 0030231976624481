"""Measures again after every edit, where that is quick: see the consequence at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from passes.jobs import AnalyseJob, Done, JobEvent, JobInfo, Progress

if TYPE_CHECKING:
    from app.session import Session

PAUSE = 400  # milliseconds without another edit
QUICK = 8.0  # seconds that an evaluation may take to be run unasked


def is_evaluation(job: JobInfo) -> bool:
    """Whether a job measures the score."""
    return isinstance(job.job, AnalyseJob) and job.job.step.pass_name == "evaluate"


class LiveMeasure(QObject):
    """Where the source knows its data: evaluates when a model is opened and when an edit has settled."""

    slowed = Signal(bool)  # whether an evaluation takes too long to be run unasked

    def __init__(self, session: Session, pause: int = PAUSE) -> None:
        super().__init__(session)
        self._session = session
        self.enabled = True
        self._slow = False
        self._since = (0, 0.0)
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
            if is_evaluation(job):
                self._session.cancel(job.id)
        self._wait.start()

    def _measure(self) -> None:
        document = self._session.document
        wanted = self.enabled and not self._slow and document and document.project.source.data
        if wanted and self._session.score.accuracy is None:
            self._session.evaluate()

    def _hear(self, heard: JobEvent) -> None:
        """Judge the speed by the run itself, without the loading of data before it."""
        job = heard.job
        if not is_evaluation(job):
            return
        if isinstance(heard.event, Progress) and self._since[0] != job.id:
            self._since = job.id, time.monotonic()
        elif isinstance(heard.event, Done) and self._since[0] == job.id:
            self._judge(time.monotonic() - self._since[1] > QUICK)

    def _judge(self, slow: bool) -> None:
        if slow != self._slow:
            self._slow = slow
            self.slowed.emit(slow)
