"""What searches and sweeps of a document share: heard job by job, put into the project a moment later, giving way."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.app.jobs.queue import Rest
from espalier.model.document.document import Document
from espalier.passes.jobs.kinds import JobEvent, JobInfo

if TYPE_CHECKING:
    from espalier.app.session.session import Session


class Kept(Protocol):
    """A run that is kept under its name, with or without a job at the moment."""

    name: str
    job: JobInfo | None
    gives_way: bool


class KeptRuns(QObject):
    """`listed`: the list of runs is another; `kept`: the project has what has come."""

    listed = Signal()
    kept = Signal()

    def __init__(self, session: Session, pause: int) -> None:
        super().__init__(session)
        self._session = session
        self._unwritten: set[str] = set()
        self._ahead: set[str] = set()  # runs of which the project has something that its file lacks
        self._wait = QTimer(self, singleShot=True, interval=pause)
        self._wait.timeout.connect(self.write)
        session.opened.connect(self._read)
        session.saving.connect(self.write)
        session.saved.connect(self._saved)
        session.job_event.connect(self._hear)

    # -- what each kind does for itself

    def _read(self) -> None:
        """Take the runs of another document."""
        raise NotImplementedError

    def _keep(self, document: Document, name: str) -> None:
        """Put a run into the project."""
        raise NotImplementedError

    def _hear(self, heard: JobEvent) -> None:
        """Something came of a job."""
        raise NotImplementedError

    # -- what they share

    def _forget(self) -> None:
        """Another document is open."""
        self._wait.stop()
        self._unwritten.clear()
        self._ahead.clear()

    def _note(self, run: Kept) -> None:
        """Something has come that the project lacks.

        It is told once that it is unsaved; what comes after is put into it when it is saved, or the run has ended:
        a copy of all there is at every moment would grow with the trials, which lie on disk meanwhile.
        """
        self._unwritten.add(run.name)
        if run.name not in self._ahead and not self._wait.isActive():
            self._wait.start()

    def _saved(self) -> None:
        self._ahead.clear()
        if self._unwritten:
            self._wait.start()

    def write(self) -> None:
        """Put what has come into the project, so that saving keeps it."""
        self._wait.stop()
        document = self._session.document
        names, self._unwritten = self._unwritten, set()
        for name in names if document else ():
            self._keep(document, name)  # type: ignore[arg-type]
            self._ahead.add(name)
        if names and document:
            self.kept.emit()

    def _rest(self, run: Any, result: Any) -> Rest | None:
        """What is left of a run that made room, by what the worker gave; None where nothing is."""
        raise NotImplementedError

    def _give_way(self, run: Kept) -> None:
        """Let a job that waits go first; the run queues up again behind it."""
        if run.job and not run.gives_way and any(j.state == "waiting" for j in self._session.jobs if j is not run.job):
            self._split(run)

    def _split(self, run: Kept) -> bool:
        """End this part of a run, whose job goes on with the rest; False where it does not run."""
        asked = run.job is not None and self._session.give_way(run.job.id, partial(self._onward, run))
        run.gives_way = run.gives_way or asked
        return asked

    def _onward(self, run: Kept, result: Any) -> Rest | None:
        run.gives_way = False
        return self._rest(run, result)
