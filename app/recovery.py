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
from model.document import State
from model.recipe import Recipe

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


def leftovers() -> list[Leftover]:
    """Copies of runs that no longer live, newest first."""
    notes = sorted(data_folder("recovery").glob("*.json"), key=lambda p: p.stat().st_mtime, reverse=True)
    return [found for note in notes if (found := _read(note))]


def _read(note: Path) -> Leftover | None:
    try:
        data = json.loads(note.read_text(encoding="utf-8"))
        pid, file = int(data["pid"]), note.with_suffix(".espalier")
        if _alive(pid) or not file.exists():
            return None
        return Leftover(file, note, str(data["title"]), str(data["path"]), str(data["when"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _alive(pid: int) -> bool:
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def discard(leftover: Leftover) -> None:
    """Delete a copy."""
    for path in (leftover.file, leftover.note):
        path.unlink(missing_ok=True)


class Recovery(QObject):
    """Keeps the copy of this run up to date, and deletes it when nothing is unsaved."""

    def __init__(self, session: Session, folder: Path | None = None, every: int = EVERY) -> None:
        super().__init__(session)
        self._session = session
        folder = folder or data_folder("recovery")
        self.file = folder / f"{os.getpid()}-{int(time.time())}.espalier"
        self.note = self.file.with_suffix(".json")
        self._kept: State | None = None
        self._adopt: Leftover | None = None
        self._clock = QTimer(self, interval=every)
        self._clock.timeout.connect(self.keep)
        session.changed.connect(self._changed)
        session.saved.connect(self.forget)
        session.opened.connect(self._opened)

    def _changed(self) -> None:
        document = self._session.document
        if document and document.dirty:
            if not self._clock.isActive():
                self._clock.start()
        else:
            self.forget()

    def keep(self) -> None:
        """Write the copy now, in the worker, unless it holds this state already."""
        document = self._session.document
        if document is None or not document.dirty or document.present is self._kept:
            return
        title = document.path.name if document.path else document.project.source.name
        note = {
            "pid": os.getpid(),
            "title": title,
            "path": str(document.path or ""),
            "when": time.strftime("%d %B, %H:%M"),
        }
        with contextlib.suppress(OSError):  # a full disk must not stop the work
            self.note.write_text(json.dumps(note), encoding="utf-8")
            self._kept = document.present
            self._session.save_as(self.file, copy=True)

    def forget(self) -> None:
        """Delete the copy: nothing is unsaved."""
        self._clock.stop()
        self._kept = None
        self.file.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)

    def recover(self, leftover: Leftover) -> None:
        """Open a copy as unsaved work on its original."""
        self._adopt = leftover
        self._session.open(str(leftover.file))

    def _opened(self) -> None:
        self.forget()
        document, leftover = self._session.document, self._adopt
        if document is None or leftover is None or document.path != leftover.file.resolve():
            return
        self._adopt = None
        document.saved(leftover.file, State(Recipe(), document.project.base))
        document.path = Path(leftover.original) if leftover.original else None
        self._kept = None
        self._clock.start()
        discard(leftover)
        self._session.saved.emit()
