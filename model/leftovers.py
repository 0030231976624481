"""What a process holds while it works (half-written files, working folders), and how the next takes away a dead one's.

Each is held by a lock that the system takes back with the process, so no process number is believed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: nothing is held, and nothing is taken for a dead process's
    fcntl = None

PREFIX, PART, SCRATCH, WINDOW = ".espalier-", ".part", "espalier-scratch-", "espalier-window-"
_cleared = set[Path]()  # folders, once in the life of a process


@contextlib.contextmanager
def part_in(folder: Path, mode: int = 0o666) -> Generator[Path]:
    """A new empty file with a random name in `folder`, held; gone at the end, where it was not renamed."""
    _clear_once(folder)
    while True:  # until none takes it away before it is held
        part = folder / f"{PREFIX}{secrets.token_hex(8)}{PART}"
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), mode)
        if _hold(handle, part):
            break
    try:
        yield part
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        _let_go(handle)


@contextlib.contextmanager
def part_folder_in(folder: Path) -> Generator[Path]:
    """The same, as a folder."""
    _clear_once(folder)

    def make() -> Path:
        part = folder / f"{PREFIX}{secrets.token_hex(8)}{PART}"
        part.mkdir()
        return part

    part, handle = _held_folder(make)
    try:
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)
        _let_go(handle)


class Scratch:
    """A working folder of this process, below the system's own for such; the next process deletes a dead one's."""

    def __init__(self, prefix: str = SCRATCH) -> None:
        self._handle: int | None
        self.folder, self._handle = _held_folder(lambda: Path(tempfile.mkdtemp(prefix=prefix)))

    def close(self) -> None:
        """Delete it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.release()

    def release(self) -> None:
        """Let the folder be; the next process that clears deletes it."""
        handle, self._handle = self._handle, None
        _let_go(handle)


@contextlib.contextmanager
def scratch() -> Generator[Path]:
    """A working folder for a while."""
    made = Scratch()
    try:
        yield made.folder
    finally:
        made.close()


def _clear_once(folder: Path) -> None:
    if folder not in _cleared:
        _cleared.add(folder)
        clear_parts(folder)


def clear_parts(folder: Path) -> int:
    """Delete what dead processes left half written in `folder`; how many."""
    return _clear(folder, PREFIX, PART)


def clear_scratch(prefix: str = SCRATCH) -> int:
    """Delete the working folders of dead processes; how many."""
    return _clear(Path(tempfile.gettempdir()), prefix, "")


def _clear(folder: Path, start: str, end: str) -> int:
    if fcntl is None:
        return 0
    count = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(start) and entry.name.endswith(end):
                count += _remove(folder / entry.name)
    return count


def _remove(path: Path) -> bool:
    """Delete a file or folder of this user's that nobody holds."""
    handle = None
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        facts = os.fstat(handle)
        if facts.st_uid != os.getuid() or not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)):
            return False
        _lock(handle, wait=False)
        if stat.S_ISDIR(facts.st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError:  # held, another's, gone, or on a file system without locks
        return False
    else:
        return True
    finally:
        _let_go(handle)


def _hold(handle: int, path: Path) -> bool:
    """Lock it for as long as this process lives; False where another took it away before."""
    if fcntl is None:
        return True
    with contextlib.suppress(OSError):  # a file system without locks: then nobody clears there
        _lock(handle, wait=True)
    try:
        if os.stat(path).st_ino == os.fstat(handle).st_ino:
            return True
    except FileNotFoundError:
        pass
    os.close(handle)
    return False


def _lock(handle: int, *, wait: bool) -> None:
    assert fcntl is not None
    fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _held_folder(make: Callable[[], Path]) -> tuple[Path, int | None]:
    """A new folder and what holds it; made again until none takes it away before it is held."""
    while True:
        path = make()
        if fcntl is None:
            return path, None
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(path, os.O_RDONLY)
            if _hold(handle, path):
                return path, handle


def _let_go(handle: int | None) -> None:
    if handle is not None:
        with contextlib.suppress(OSError):
            os.close(handle)
