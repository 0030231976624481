"""The journal of a document's unsaved edits: one line per edit, on disk within a second, read after a crash.

The window that writes it holds a lock on it, which the system releases when the window crashes. Free of Qt.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from espalier.app.locks import Locked, hold
from espalier.app.number_text import moment
from espalier.app.translation import tr
from espalier.model.borders import tried
from espalier.model.document.arrangement import UNARRANGED, Arrangement
from espalier.model.document.arrangement import from_json as arrangement_from_json
from espalier.model.document.arrangement import to_json as arrangement_to_json
from espalier.model.document.project import recipe_from_json, recipe_to_json
from espalier.model.document.recipe import Recipe
from espalier.model.leftovers import PART, PREFIX

ENDING = ".journal"
SYNC_DELAY = 0.5  # seconds from writing a line to fsync
MAX_BYTES = 32 << 20  # a longer journal is begun again once a copy holds all its edits


@dataclass(frozen=True, slots=True)
class Subject:
    """The document of the edits. `opened`: the source that the user named; `path`: its file, empty if never saved.

    `version`: the version of the file that the edits follow, its four numbers as text.
    """

    title: str
    path: str
    source: str
    opened: str
    version: str = ""


UNKNOWN = Subject(tr("a model of unknown name"), "", "", "")


@dataclass(frozen=True, slots=True)
class UnsavedEdits:
    """The contents of a journal. `when`: seconds since 1970 of the last edit; `waiting`: edits not yet applied.

    `count` is 0 if no edit can be read. `damaged`: the number of unreadable lines. `versions`: those that the window
    was about to give the file, each as text like that of the subject. `arrangement`: None if no line has one.
    """

    subject: Subject
    recipe: Recipe
    count: int
    when: float
    label: str
    waiting: tuple[str, ...] = ()
    damaged: int = 0
    versions: tuple[str, ...] = ()
    arrangement: Arrangement | None = None


class EditJournal:
    """Writes one journal. No method raises OSError; `failed` holds its message: a full disk must not stop edits."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{secrets.token_hex(8)}{ENDING}"
        self.failed, self.cost = "", 0.0  # `cost`: processor seconds of writing the last line
        self._head = b""  # written with the next edit
        self._lock = threading.RLock()  # the saver's thread writes too
        self._file: Locked | None = None
        self._sync: _Sync | None = None
        self._arranged: Arrangement | None = None  # by the lines since the beginning

    def begin(self, subject: Subject) -> None:
        """Begin a new journal: the next edit replaces all earlier ones."""
        with self._reporting_failure():
            self._arranged = None
            self._head = _line({"begin": {name: getattr(subject, name) for name in Subject.__dataclass_fields__}})
            if self._file is None:
                if (file := hold(self.path)) is None:
                    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
                self._file, self._sync = file, _Sync(file.handle)

    def adopt(self, file: Locked) -> None:
        """Continue the journal of a crashed window."""
        with self._reporting_failure():
            self.path, self._file, self._sync = file.path, file, _Sync(file.handle)
            size = os.fstat(file.handle).st_size
            if size and os.pread(file.handle, 1, size - 1) != b"\n":  # its last line was cut off
                os.write(file.handle, b"\n")

    def edit(
        self, label: str, recipe: Recipe, waiting: tuple[str, ...], arrangement: Arrangement = UNARRANGED
    ) -> None:  # fmt: skip
        """Add an edit and the state after it; does nothing if the journal could not be begun.

        The pins and frames, which may be many, are written only where they changed.
        """
        if self._file is None:
            return
        start = time.thread_time()
        with self._reporting_failure():
            edit: dict[str, Any] = {
                "edit": label,
                "when": time.time(),
                "waiting": waiting,
                "recipe": recipe_to_json(recipe),
            }
            if arrangement != self._arranged:
                edit["arrangement"] = arrangement_to_json(arrangement)
            lines = self._head + _line(edit)
            if self._head and self.long:
                self._replace(lines)
            else:
                self._write(lines)
            self._head, self._arranged = b"", arrangement
        self.cost = time.thread_time() - start

    def note_version(self, version: str) -> None:
        """Add a version that a save is about to give the file, for `version_of` after a crash. Thread-safe."""
        line = _line({"placing": version})
        with self._lock, contextlib.suppress(OSError):
            if self._head:
                self._head += line
            elif self._file is not None:
                self._write(line)

    @property
    def long(self) -> bool:
        """Whether it exceeds MAX_BYTES."""
        return self._file is not None and os.fstat(self._file.handle).st_size > MAX_BYTES

    def delete(self) -> None:
        """Delete the journal."""
        with self._lock:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
            if self._sync:
                self._sync.end()
            if self._file:
                self._file.release()
            self._file, self._sync, self._head = None, None, b""

    @contextlib.contextmanager
    def _reporting_failure(self) -> Generator[None]:
        with self._lock:
            try:
                yield
                self.failed = ""
            except OSError as error:
                self.failed = error.strerror or str(error)

    def _write(self, lines: bytes) -> None:
        """Write all lines in one call, so that a crash of the process cannot cut them."""
        assert self._file is not None
        handle = self._file.handle
        size = os.fstat(handle).st_size
        if os.write(handle, lines) < len(lines):
            os.ftruncate(handle, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self._sync:
            self._sync.requested.set()

    def _replace(self, lines: bytes) -> None:
        """Replace the journal atomically by a new, locked file with these lines."""
        fresh = hold(self.path.with_name(f"{PREFIX}{secrets.token_hex(8)}{PART}"))
        if fresh is None:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        old, self._file = self._file, fresh
        try:
            self._write(lines)
            os.replace(fresh.path, self.path)
        except OSError:
            self._file = old
            fresh.path.unlink(missing_ok=True)
            fresh.release()
            raise
        fresh.path = self.path
        if old and self._sync:
            self._sync.end()
            old.release()
        self._sync = _Sync(fresh.handle)
        self._sync.requested.set()


def _line(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode() + b"\n"


class _Sync:
    """Calls fsync in a thread, so that the window does not wait for a slow disk."""

    def __init__(self, handle: int) -> None:
        self.requested, self._ended, self._handle = threading.Event(), threading.Event(), os.dup(handle)
        threading.Thread(target=self._loop, name="espalier-journal", daemon=True).start()

    def end(self) -> None:
        """End the thread."""
        self._ended.set()
        self.requested.set()

    def _loop(self) -> None:
        while not self._ended.is_set():
            self.requested.wait()
            if not self._ended.wait(SYNC_DELAY):
                self.requested.clear()
                with contextlib.suppress(OSError):
                    os.fsync(self._handle)
        os.close(self._handle)


def read(path: Path) -> UnsavedEdits | None:
    """Read a journal; None if it does not exist or holds no edit. Damaged lines are skipped and counted.

    Raises OSError if the file cannot be read.
    """
    subject, last, damaged, versions = UNKNOWN, None, 0, list[str]()
    try:
        lines, changed = path.read_bytes().splitlines(), path.stat().st_mtime
    except FileNotFoundError:
        return None
    for line in filter(None, lines):
        match tried(lambda text=line: _record(text), None):
            case Subject() as new_subject:
                subject, last, damaged = new_subject, None, 0
            case UnsavedEdits() as edits:
                is_new = last is None or len(edits.waiting) >= len(last.waiting)  # else a queued edit was done
                arrangement = last.arrangement if last and edits.arrangement is None else edits.arrangement
                last = replace(edits, count=(last.count if last else 0) + is_new, arrangement=arrangement)
            case str() as version:
                versions.append(version)
            case _:
                damaged += 1
    if last:
        return replace(last, subject=subject, damaged=damaged, versions=tuple(versions))
    return (
        UnsavedEdits(subject, Recipe(), 0, changed, "", damaged=damaged, versions=tuple(versions)) if damaged else None
    )


def _record(line: bytes) -> Subject | UnsavedEdits | str:
    """Parse a line: a subject, an edit, or a version as text. Raises any exception if it is damaged."""
    data = json.loads(line)
    if "begin" in data:
        return Subject(*(str(data["begin"][name]) for name in Subject.__dataclass_fields__))
    if "placing" in data:
        return str(data["placing"])
    waiting, when = tuple(str(w) for w in data["waiting"]), float(data["when"])
    moment(when)
    arrangement = arrangement_from_json(data["arrangement"]) if "arrangement" in data else None
    recipe = recipe_from_json(data["recipe"])
    return UnsavedEdits(UNKNOWN, recipe, 1, when, str(data["edit"]), waiting, arrangement=arrangement)
