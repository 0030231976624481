"""Autosave: while there are unsaved edits a copy of the project is kept, and offered after a crash."""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from app.settings import data_folder
from model.document import Document, State
from model.recipe import Recipe
from passes.jobs import JobInfo, SaveJob

if TYPE_CHECKING:
    from app.session import Session

EVERY = 30_000  # milliseconds


@dataclass(frozen=True, slots=True)
class Leftover:
    """A copy that a run which is gone left behind."""

    file: Path
    note: Path
    title: str
    original: str
    when: str
    source: str = ""  # what was opened, where the copy tells


def title_of(document: Document) -> str:
    """By what name a copy of it is offered."""
    return document.path.name if document.path else document.project.source.name


def is_copy(job: JobInfo) -> bool:
    """Whether a job only writes such a copy, which is nobody's business while it works."""
    return isinstance(job.job, SaveJob) and job.job.path.parent == data_folder("recovery").resolve()


def leftovers() -> list[Leftover]:
    """Copies of runs that no longer live, newest first; copies without a note are deleted."""
    folder = data_folder("recovery")
    for file in folder.glob("*.espalier"):
        if not file.with_suffix(".json").exists() and not _alive(_pid(file)):
            file.unlink(missing_ok=True)
    notes = sorted(folder.glob("*.json"), key=lambda p: p.stat().st_mtime, reverse=True)
    return [found for note in notes if (found := _read(note))]


def _pid(file: Path) -> int:
    head = file.name.partition("-")[0]
    return int(head) if head.isdigit() else 0


def _read(note: Path) -> Leftover | None:
    try:
        data = json.loads(note.read_text(encoding="utf-8"))
        pid, file = int(data["pid"]), note.with_suffix(".espalier")
        if _alive(pid) or not file.exists():
            return None
        return Leftover(
            file, note, str(data["title"]), str(data["path"]), str(data["when"]), str(data.get("source", ""))
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def holds(leftover: Leftover, document: Document) -> bool:
    """Whether it is a copy of this model: sources in two places may have one name."""
    of_it = (leftover.title, leftover.original) == (title_of(document), str(document.path or ""))
    return of_it and leftover.source in ("", document.project.source.spec)


def discard(leftover: Leftover) -> None:
    """Delete a copy."""
    for path in (leftover.file, leftover.note):
        path.unlink(missing_ok=True)


class Recovery(QObject):
    """Keeps the copy of this run up to date.

    A copy is forgotten (its note goes) when nothing is unsaved, but its file stays until the document
    closes, because tensors of the document may be mapped from it.
    """

    def __init__(self, session: Session, folder: Path | None = None, every: int = EVERY) -> None:
        super().__init__(session)
        self._session = session
        folder = folder or data_folder("recovery")
        self.file = folder / f"{os.getpid()}-{time.time_ns()}.espalier"
        self.note = self.file.with_suffix(".json")
        self._kept: tuple[State, dict[str, bytes]] | None = None
        self._wanted: Leftover | None = None
        self._held: Leftover | None = None
        self._clock = QTimer(self, interval=every)
        self._clock.timeout.connect(self.keep)
        session.changed.connect(self.look)
        session.saved.connect(self.forget)
        session.opened.connect(self._opened)

    @property
    def recovered(self) -> bool:
        """Whether the open document came out of a copy."""
        return self._held is not None

    def look(self) -> None:
        """Begin to keep copies while something is unsaved."""
        document = self._session.document
        if document and document.dirty:
            if not self._clock.isActive():
                self._clock.start()
        else:
            self.forget()

    def keep(self) -> None:
        """Write the copy now, in the worker, unless it holds this state already."""
        document = self._session.document
        if document is None or not document.dirty:
            return
        now = document.present, document.project.extras
        if self._kept == now:
            return
        with contextlib.suppress(OSError):  # a full disk must not stop the work
            _write_note(self.note, title_of(document), str(document.path or ""), document.project.source.spec)
            self._kept = now
            self._session.save_as(self.file, copy=True)

    def forget(self) -> None:
        """Nothing is unsaved: offer nothing after a crash."""
        self._clock.stop()
        self._kept = None
        for note in (self.note, *([self._held.note] if self._held else [])):
            note.unlink(missing_ok=True)

    def end(self) -> None:
        """The document is gone: delete everything."""
        self.forget()
        self.file.unlink(missing_ok=True)
        if self._held:
            discard(self._held)
        self._held = None

    def recover(self, leftover: Leftover) -> None:
        """Open a copy as unsaved work on its original."""
        self._wanted = leftover
        self._session.open(str(leftover.file))

    def _opened(self) -> None:
        self.end()
        document, leftover = self._session.document, self._wanted
        if document is None or leftover is None or document.path != leftover.file.resolve():
            return
        self._wanted, self._held = None, leftover
        unsaved = {"": b""}  # no file holds it: studies, which are no steps, are unsaved too until they are saved
        document.saved(leftover.file, State(Recipe(), document.project.base), unsaved)
        document.path = Path(leftover.original) if leftover.original else None
        with contextlib.suppress(OSError):
            _write_note(leftover.note, leftover.title, leftover.original, leftover.source)
        self._clock.start()


def _write_note(note: Path, title: str, path: str, source: str) -> None:
    """Say whose copy it is: of this run."""
    when = time.strftime("%d %B, %H:%M")
    data = {"pid": os.getpid(), "title": title, "path": path, "source": source, "when": when}
    note.write_text(json.dumps(data), encoding="utf-8")
