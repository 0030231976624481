"""The journal of one document's unsaved edits: a line an edit, on the disk within a second, read after a crash.

The window that writes it holds a lock on it, which the system takes back when the window dies. No Qt in here.
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
from espalier.app.words import moment
from espalier.model.borders import tried
from espalier.model.document.project import recipe_from_json, recipe_to_json
from espalier.model.document.recipe import Recipe
from espalier.model.leftovers import PART, PREFIX

ENDING = ".journal"
SYNC = 0.5  # seconds after a line until the disk has it
MOST = 32 << 20  # bytes: a longer journal begins anew, once a copy holds all of it


@dataclass(frozen=True, slots=True)
class Subject:
    """What the edits are of. `opened`: what the user named; `path`: its file, empty where it was never saved.

    `version`: the version of that file that they go on from, its four numbers as text.
    """

    title: str
    path: str
    source: str
    opened: str
    version: str = ""


UNKNOWN = Subject("a model whose name is lost", "", "", "")


@dataclass(frozen=True, slots=True)
class Edits:
    """What a journal holds. `when`: seconds since 1970 of the last edit; `waiting`: what the worker had not done.

    `count` 0: no edit of it can be read. `damaged`: how many of its lines cannot. `placed`: versions that the window
    was about to give the file, each as text like that of the subject.
    """

    subject: Subject
    recipe: Recipe
    count: int
    when: float
    label: str
    waiting: tuple[str, ...] = ()
    damaged: int = 0
    placed: tuple[str, ...] = ()


class EditJournal:
    """Writes one journal. Nothing of it raises: a full disk must not stop the work; `failed` says that it did."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{secrets.token_hex(8)}{ENDING}"
        self.failed, self.cost = "", 0.0  # seconds of the processor that the last line took
        self._head = b""  # what is written with the next edit
        self._lock = threading.RLock()  # a thread that saves writes too
        self._held: Locked | None = None
        self._disk: _Disk | None = None

    def begin(self, subject: Subject) -> None:
        """Begin anew: the edits before the next one are of no use any more."""
        with self._noting():
            self._head = _line({"begin": {name: getattr(subject, name) for name in Subject.__dataclass_fields__}})
            if self._held is None:
                if (held := hold(self.path)) is None:
                    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
                self._held, self._disk = held, _Disk(held.handle)

    def adopt(self, held: Locked) -> None:
        """Go on with the journal of a window that is gone."""
        with self._noting():
            self.path, self._held, self._disk = held.path, held, _Disk(held.handle)
            size = os.fstat(held.handle).st_size
            if size and os.pread(held.handle, 1, size - 1) != b"\n":  # its last line was cut off
                os.write(held.handle, b"\n")

    def edit(self, label: str, recipe: Recipe, waiting: tuple[str, ...]) -> None:
        """Add an edit: the recipe that it led to; none where there is no journal, as `failed` says."""
        if self._held is None:
            return
        begun = time.thread_time()
        with self._noting():
            now = {"edit": label, "when": time.time(), "waiting": waiting, "recipe": recipe_to_json(recipe)}
            lines = self._head + _line(now)
            if self._head and self.long:
                self._renew(lines)
            else:
                self._write(lines)
            self._head = b""
        self.cost = time.thread_time() - begun

    def placing(self, version: str) -> None:
        """Add a version that the file is about to become, in any thread: whoever recovers the edits knows it again."""
        line = _line({"placing": version})
        with self._lock, contextlib.suppress(OSError):
            if self._head:
                self._head += line
            elif self._held is not None:
                self._write(line)

    @property
    def long(self) -> bool:
        """Whether it is to begin anew when it can."""
        return self._held is not None and os.fstat(self._held.handle).st_size > MOST

    def forget(self) -> None:
        """Nothing is unsaved: hold no edits."""
        with self._lock:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
            if self._disk:
                self._disk.end()
            if self._held:
                self._held.release()
            self._held, self._disk, self._head = None, None, b""

    @contextlib.contextmanager
    def _noting(self) -> Generator[None]:
        with self._lock:
            try:
                yield
                self.failed = ""
            except OSError as error:
                self.failed = error.strerror or str(error)

    def _write(self, lines: bytes) -> None:
        """All at once, so that the system has them whole when this process dies."""
        assert self._held is not None
        handle = self._held.handle
        size = os.fstat(handle).st_size
        if os.write(handle, lines) < len(lines):
            os.ftruncate(handle, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self._disk:
            self._disk.wanted.set()

    def _renew(self, lines: bytes) -> None:
        """Put another file, held from its beginning, in the place of this one, which is whole until then."""
        fresh = hold(self.path.with_name(f"{PREFIX}{secrets.token_hex(8)}{PART}"))
        if fresh is None:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        before, self._held = self._held, fresh
        try:
            self._write(lines)
            os.replace(fresh.path, self.path)
        except OSError:
            self._held = before
            fresh.path.unlink(missing_ok=True)
            fresh.release()
            raise
        fresh.path = self.path
        if before and self._disk:
            self._disk.end()
            before.release()
        self._disk = _Disk(fresh.handle)
        self._disk.wanted.set()


def _line(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode() + b"\n"


class _Disk:
    """Syncs a file in a thread: where that takes long, the window does not wait for it."""

    def __init__(self, handle: int) -> None:
        self.wanted, self._ended, self._handle = threading.Event(), threading.Event(), os.dup(handle)
        threading.Thread(target=self._loop, name="espalier-journal", daemon=True).start()

    def end(self) -> None:
        """No more, at once."""
        self._ended.set()
        self.wanted.set()

    def _loop(self) -> None:
        while not self._ended.is_set():
            self.wanted.wait()
            if not self._ended.wait(SYNC):
                self.wanted.clear()
                with contextlib.suppress(OSError):
                    os.fsync(self._handle)
        os.close(self._handle)


def read(path: Path) -> Edits | None:
    """What a journal holds; None where there is no edit in it. Lines that are damaged are passed over, and counted.

    Raises OSError where there is a journal that cannot be read.
    """
    subject, last, damaged, placed = UNKNOWN, None, 0, list[str]()
    try:
        lines, changed = path.read_bytes().splitlines(), path.stat().st_mtime
    except FileNotFoundError:
        return None
    for line in filter(None, lines):
        match tried(lambda text=line: _record(text), None):
            case Subject() as begun:
                subject, last, damaged = begun, None, 0
            case Edits() as edits:
                last = replace(edits, count=last.count + 1 if last else 1)
            case str() as version:
                placed.append(version)
            case _:
                damaged += 1
    if last:
        return replace(last, subject=subject, damaged=damaged, placed=tuple(placed))
    return Edits(subject, Recipe(), 0, changed, "", damaged=damaged, placed=tuple(placed)) if damaged else None


def _record(line: bytes) -> Subject | Edits | str:
    """What a line tells, a version as text; raises whatever reading it raises."""
    data = json.loads(line)
    if "begin" in data:
        return Subject(*(str(data["begin"][name]) for name in Subject.__dataclass_fields__))
    if "placing" in data:
        return str(data["placing"])
    waiting, when = tuple(str(w) for w in data["waiting"]), float(data["when"])
    moment(when)
    return Edits(UNKNOWN, recipe_from_json(data["recipe"]), 1, when, str(data["edit"]), waiting)
