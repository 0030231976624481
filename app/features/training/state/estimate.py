"""Estimates the duration of a training by timing a few steps while the worker is idle and the panel visible."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal
from shiboken6 import Shiboken

from espalier.app.features.training.state.run_text import estimate_text
from espalier.app.session.analysis_requests import AnalysisRequests
from espalier.app.translation import tr
from espalier.model.errors import EspalierError
from espalier.passes.training.options import FinetuneOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.model.graph.graph import Graph

ESTIMATE = "finetune_estimate"
PAUSE = 700  # milliseconds between the last change and the timing
POLL = 150  # milliseconds between checks for other jobs
TIMING = tr("Timing a few steps …")
UNTIMED = tr("The time over several ranks is not estimated.")


class TrainingEstimate(QObject):
    """Emits `text_changed` with the estimate or a status, and `failed` with an error.

    `options`: returns the form's options or raises; `busy`: whether a training is running.
    """

    text_changed = Signal(str)
    failed = Signal(object)

    def __init__(self, session: Session, options: Callable[[], FinetuneOptions], busy: Callable[[], bool]) -> None:
        super().__init__(session)
        self._session, self._options, self._busy = session, options, busy
        self._active = False
        self._timed: tuple[Graph, FinetuneOptions] | None = None
        self._asker = AnalysisRequests(session)
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._wait.timeout.connect(self._idle)
        self._poll = QTimer(self, interval=POLL)
        self._poll.timeout.connect(self._yield_to_others)
        self._asker.answered.connect(lambda name, report, part: self.text_changed.emit(estimate_text(report.summary)))
        self._asker.failed.connect(lambda name, error: self.failed.emit(error))
        self._asker.state_changed.connect(self._on_stopped)

    def set_active(self, on: bool) -> None:
        """Set whether the panel is visible; only then the estimate starts automatically."""
        self._active = on
        if on:
            self._wait.start()
        else:
            self.drop()

    def forget(self) -> None:
        """Drop the estimate after a change of options or graph, and time again when idle."""
        self.drop()
        self._timed = None
        self._wait.start()

    def drop(self) -> None:
        """Stop a running estimate; no effect if the window was destroyed before the panel was hidden."""
        if not Shiboken.isValid(self._wait):
            return
        self._wait.stop()
        if self._asker.job(ESTIMATE) is not None:
            self._timed = None
            self._asker.drop()

    def _idle(self) -> None:
        if not self._active or self._busy():
            return
        if self._session.jobs:
            self._wait.start()
        else:
            self.ask(automatic=True)

    def ask(self, *, automatic: bool) -> None:
        """Time a few steps now; an automatic estimate ignores invalid options."""
        document = self._session.document
        try:
            options = self._options()
        except EspalierError as error:
            if not automatic:
                self.failed.emit(error)
            return
        if document is None or self._busy() or self._timed == (document.graph, options):
            return
        if options.distributed:
            self.text_changed.emit(UNTIMED)
            return
        self._timed = document.graph, options
        self._asker.ask(ESTIMATE, options)
        self.text_changed.emit(TIMING)
        self._poll.start()

    def _yield_to_others(self) -> None:
        mine = self._asker.job(ESTIMATE)
        if mine is None:
            self._poll.stop()
        elif any(j is not mine for j in self._session.jobs):
            self._poll.stop()
            self.drop()
            self.text_changed.emit("")
            self._wait.start()

    def _on_stopped(self) -> None:
        if self._asker.job(ESTIMATE) is None:  # stopped by the user
            self.text_changed.emit("")
