"""Asks the worker for one analysis of the present graph, and hears its parts as they are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from espalier.model.document.project import keys_of
from espalier.model.document.recipe import Step
from espalier.passes.jobs.kinds import TERMINAL, AnalyseJob, Done, Found, JobEvent

if TYPE_CHECKING:
    from espalier.app.session.session import Session


class Asking(QObject):
    """One analysis at a time; `found` tells each part, `ended` whether all went well."""

    found = Signal(object)
    ended = Signal(bool)

    def __init__(self, session: Session, parent: QObject) -> None:
        super().__init__(parent)
        self._session = session
        self._job = 0
        session.job_event.connect(self._heard)
        session.opened.connect(self._forget)

    @property
    def busy(self) -> bool:
        """Whether an answer is on its way."""
        return bool(self._job)

    def ask(self, title: str, step: Step) -> None:
        """Run an analysis on the graph as it is; a job of before is stopped. Raises ProjectError without a document."""
        self.stop()
        document = self._session.open_document
        source, graph = document.project.source, document.graph
        places = document.store.locate(keys_of(graph))
        job = AnalyseJob(graph, step, places, document.store.folder, source)
        self._session.submit(title, job, _nothing)
        self._job = self._session.jobs[-1].id

    def stop(self) -> None:
        """Stop what runs."""
        if self._job:
            self._session.cancel(self._job)

    def _forget(self) -> None:
        self._job = 0

    def _heard(self, heard: JobEvent) -> None:
        if not self._job or heard.job.id != self._job:
            return
        if isinstance(heard.event, Found):
            self.found.emit(heard.event.part)
        elif isinstance(heard.event, TERMINAL):
            self._job = 0
            self.ended.emit(isinstance(heard.event, Done))


_nothing: Callable[[object], None] = lambda _: None  # noqa: E731 (what is found has been told)
