"""What a training will take, timed while nobody else wants the worker and somebody looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal
from shiboken6 import Shiboken

from espalier.app.features.training.state.words import will_do
from espalier.app.session.asker import Asker
from espalier.model.errors import EspalierError
from espalier.passes.training.options import FinetuneOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.model.graph.graph import Graph

ESTIMATE = "finetune_estimate"
PAUSE = 700  # milliseconds after the last change before a few steps are timed
LOOK = 150  # between two looks whether somebody else wants the worker
TIMING = "A few steps are being timed."


class TrainingEstimate(QObject):
    """`told` gives the estimate in words, or what is being done; `failed` an error.

    `wish` gives the options that the form has, or raises; `busy` says whether a training runs.
    """

    told = Signal(str)
    failed = Signal(object)

    def __init__(self, session: Session, wish: Callable[[], FinetuneOptions], busy: Callable[[], bool]) -> None:
        super().__init__(session)
        self._session, self._wish, self._busy = session, wish, busy
        self._looked_at = False
        self._known: tuple[Graph, FinetuneOptions] | None = None
        self._asker = Asker(session)
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._wait.timeout.connect(self._idle)
        self._give_way = QTimer(self, interval=LOOK)
        self._give_way.timeout.connect(self._others_first)
        self._asker.answered.connect(lambda name, report, part: self.told.emit(will_do(report.summary)))
        self._asker.failed.connect(lambda name, error: self.failed.emit(error))
        self._asker.stood.connect(self._stands)

    def look_on(self, on: bool) -> None:
        """Whether somebody sees it; only then it uses the worker unasked."""
        self._looked_at = on
        if on:
            self._wait.start()
        else:
            self.drop()

    def forget(self) -> None:
        """The options or the graph are others: time them when there is a moment."""
        self.drop()
        self._known = None
        self._wait.start()

    def drop(self) -> None:
        """Stop what is under way; nothing is when the window has gone before the panel that hides."""
        if not Shiboken.isValid(self._wait):
            return
        self._wait.stop()
        if self._asker.job(ESTIMATE) is not None:
            self._known = None
            self._asker.drop()

    def _idle(self) -> None:
        if not self._looked_at or self._busy():
            return
        if self._session.jobs:
            self._wait.start()
        else:
            self.ask(unasked=True)

    def ask(self, *, unasked: bool) -> None:
        """Time a few steps now; unasked, wrong options are nobody's business."""
        document = self._session.document
        try:
            wish = self._wish()
        except EspalierError as error:
            if not unasked:
                self.failed.emit(error)
            return
        if document is None or self._busy() or self._known == (document.graph, wish):
            return
        self._known = document.graph, wish
        self._asker.ask(ESTIMATE, wish)
        self.told.emit(TIMING)
        self._give_way.start()

    def _others_first(self) -> None:
        mine = self._asker.job(ESTIMATE)
        if mine is None:
            self._give_way.stop()
        elif any(j is not mine for j in self._session.jobs):
            self._give_way.stop()
            self.drop()
            self.told.emit("")
            self._wait.start()

    def _stands(self) -> None:
        if self._asker.job(ESTIMATE) is None:  # stopped by hand
            self.told.emit("")
