"""Base class of the searches and sweeps of a document: stores their results in the project and yields to other jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.app.jobs.queue import Rest
from espalier.model.document.document import Document
from espalier.passes.jobs.kinds import JobEvent, JobInfo

if TYPE_CHECKING:
    from espalier.app.session.session import Session


class Run(Protocol):
    """A named run, with or without a job."""

    name: str
    job: JobInfo | None
    gives_way: bool


class DocumentRuns(QObject):
    """`listed`: the list of runs has changed; `stored`: the project holds the new results.

    `pause`: milliseconds between a new result and its storage.
    """

    listed = Signal()
    stored = Signal()

    def __init__(self, session: Session, pause: int) -> None:
        super().__init__(session)
        self._session = session
        self._unwritten: set[str] = set()  # runs with results that the project lacks
        self._unsaved: set[str] = set()  # runs with results in the project that its file lacks
        self._write_timer = QTimer(self, singleShot=True, interval=pause)
        self._write_timer.timeout.connect(self.write)
        session.opened.connect(self._read)
        session.saving.connect(self.write)
        session.saved.connect(self._saved)
        session.job_event.connect(self._on_job_event)

    # -- to be implemented

    def _read(self) -> None:
        """Read the runs of a newly opened document."""
        raise NotImplementedError

    def _keep(self, document: Document, name: str) -> None:
        """Store a run in the project."""
        raise NotImplementedError

    def _on_job_event(self, job_event: JobEvent) -> None:
        """Handle an event of any job."""
        raise NotImplementedError

    # -- shared

    def _forget(self) -> None:
        """Reset for another document."""
        self._write_timer.stop()
        self._unwritten.clear()
        self._unsaved.clear()

    def _note(self, run: Run) -> None:
        """Note a new result of a run.

        The first unsaved result is stored after the pause, which marks the document as changed. Later ones are stored
        on saving or at the end of the run: storing all trials at each result would cost more with every trial.
        """
        self._unwritten.add(run.name)
        if run.name not in self._unsaved and not self._write_timer.isActive():
            self._write_timer.start()

    def _saved(self) -> None:
        self._unsaved.clear()
        if self._unwritten:
            self._write_timer.start()

    def write(self) -> None:
        """Store the new results in the project."""
        self._write_timer.stop()
        document = self._session.document
        names, self._unwritten = self._unwritten, set()
        for name in names if document else ():
            self._keep(document, name)  # type: ignore[arg-type]
            self._unsaved.add(name)
        if names and document:
            self.stored.emit()

    def _rest(self, run: Any, result: Any) -> Rest | None:
        """The remaining job of a run that yielded, given the worker's result; None if it is complete."""
        raise NotImplementedError

    def _give_way(self, run: Run) -> None:
        """Yield to a queued job; the run is queued again behind it."""
        if run.job and not run.gives_way and self._session.blocks(run.job.id):
            self._split(run)

    def _split(self, run: Run) -> bool:
        """End the running part of a run, whose job continues with the rest; returns False if it does not run."""
        yields = run.job is not None and self._session.give_way(run.job.id, partial(self._continue, run))
        run.gives_way = run.gives_way or yields
        return yields

    def _continue(self, run: Run, result: Any) -> Rest | None:
        run.gives_way = False
        return self._rest(run, result)
