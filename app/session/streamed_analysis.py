"""An analysis of the present graph whose results arrive in parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from espalier.model.document.project import keys_of
from espalier.model.document.recipe import Step
from espalier.passes.jobs.kinds import TERMINAL, AnalyseJob, Done, JobEvent, PartialResult

if TYPE_CHECKING:
    from espalier.app.session.session import Session


class StreamedAnalysis(QObject):
    """Runs one analysis at a time. `part_found` carries each part, `ended` whether the job succeeded."""

    part_found = Signal(object)
    ended = Signal(bool)

    def __init__(self, session: Session, parent: QObject) -> None:
        super().__init__(parent)
        self._session = session
        self._job = 0
        session.job_event.connect(self._job_event)
        session.opened.connect(self._forget)

    @property
    def busy(self) -> bool:
        """Whether an analysis is queued or running."""
        return bool(self._job)

    def ask(self, title: str, step: Step) -> None:
        """Run an analysis, after cancelling the previous one. Raises ProjectError if no document is open."""
        self.stop()
        document = self._session.open_document
        source, graph = document.project.source, document.graph
        locations = document.store.locate(keys_of(graph))
        job = AnalyseJob(graph, step, locations, document.store.folder, source)
        self._session.submit(title, job, _nothing)
        self._job = self._session.jobs[-1].id

    def stop(self) -> None:
        """Cancel the analysis."""
        if self._job:
            self._session.cancel(self._job)

    def _forget(self) -> None:
        self._job = 0

    def _job_event(self, event: JobEvent) -> None:
        if not self._job or event.job.id != self._job:
            return
        if isinstance(event.event, PartialResult):
            self.part_found.emit(event.event.part)
        elif isinstance(event.event, TERMINAL):
            self._job = 0
            self.ended.emit(isinstance(event.event, Done))


_nothing: Callable[[object], None] = lambda _: None  # noqa: E731 (the parts have been sent)
