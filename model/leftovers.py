"""Temporary files and working folders of a process, and the deletion of those that killed processes left.

Each is protected by a file lock, which the system releases with its process; process numbers are not used.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: no locks, so leftovers are not deleted
    fcntl = None

PREFIX, PART, SCRATCH, WINDOW = ".espalier-", ".part", "espalier-scratch-", "espalier-window-"
WAIT, PAUSE = 10.0, 0.01  # seconds that a lock is waited for, and between two tries
_cleared = set[Path]()  # folders, each cleared once per process


@contextlib.contextmanager
def part_in(folder: Path, mode: int = 0o666) -> Generator[Path]:
    """Create a locked, empty file with a random name in `folder`; deleted at the end unless it was renamed."""
    _clear_once(folder)
    while True:  # until it is locked before another process deletes it
        part = folder / f"{PREFIX}{secrets.token_hex(8)}{PART}"
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), mode)
        if _hold(handle, part):
            break
    try:
        yield part
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        _release(handle)


@contextlib.contextmanager
def part_folder_in(folder: Path) -> Generator[Path]:
    """Create a locked folder, as `part_in` does for files."""
    _clear_once(folder)

    def make() -> Path:
        part = folder / f"{PREFIX}{secrets.token_hex(8)}{PART}"
        part.mkdir()
        return part

    part, handle = _locked_folder(make)
    try:
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)
        _release(handle)


@contextlib.contextmanager
def locked(folder: Path) -> Generator[None]:
    """Hold the lock of a folder, also if it is replaced meanwhile; without it after WAIT seconds, or on some systems.

    The working folders of a process are locked by it already. Raises FileNotFoundError.
    """
    own = folder.name.startswith((PREFIX, SCRATCH, WINDOW))
    handle, end = None, time.monotonic() + (0 if own else WAIT)
    while fcntl is not None and handle is None and time.monotonic() < end:
        handle = os.open(folder, os.O_RDONLY)
        try:
            _lock(handle, wait=False)
            if os.stat(folder).st_ino == os.fstat(handle).st_ino:
                break
        except BlockingIOError:
            time.sleep(PAUSE)
        except OSError:  # a file system without locks
            break
        _release(handle)
        handle = None
    try:
        yield
    finally:
        _release(handle)


class Scratch:
    """A working folder of this process in the system's temporary folder. After a kill the next process deletes it."""

    def __init__(self, prefix: str = SCRATCH) -> None:
        self._handle: int | None
        self.folder, self._handle = _locked_folder(lambda: Path(tempfile.mkdtemp(prefix=prefix)))

    def close(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.release()

    def release(self) -> None:
        """Unlock the folder without deleting it; the next process that clears deletes it."""
        handle, self._handle = self._handle, None
        _release(handle)


@contextlib.contextmanager
def scratch() -> Generator[Path]:
    """A working folder within the context."""
    working = Scratch()
    try:
        yield working.folder
    finally:
        working.close()


def _clear_once(folder: Path) -> None:
    if folder not in _cleared:
        _cleared.add(folder)
        clear_parts(folder)


def clear_parts(folder: Path) -> int:
    """Delete partial files of killed processes in `folder`; returns their number."""
    return _clear(folder, PREFIX, PART)


def clear_scratch(prefix: str = SCRATCH) -> int:
    """Delete the working folders of killed processes; returns their number."""
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
    """Delete a file or folder of this user unless it is locked."""
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
    except OSError:  # locked, of another user, missing, or without support for locks
        return False
    else:
        return True
    finally:
        _release(handle)


def _hold(handle: int, path: Path) -> bool:
    """Lock a file until this process ends; False if another process deleted it before."""
    if fcntl is None:
        return True
    with contextlib.suppress(OSError):  # a file system without locks: no process clears there
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


def _locked_folder(make: Callable[[], Path]) -> tuple[Path, int | None]:
    """Create a locked folder; returns it and its handle. Repeats if another process deletes it before it is locked."""
    while True:
        path = make()
        if fcntl is None:
            return path, None
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(path, os.O_RDONLY)
            if _hold(handle, path):
                return path, handle


def _release(handle: int | None) -> None:
    if handle is not None:
        with contextlib.suppress(OSError):
            os.close(handle)
