"""Files kept open by identity, so that their bytes stay readable when another program replaces or removes them.

Read by position, never memory-mapped: touching a map of a file that was truncated kills the process (SIGBUS).
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import ProjectError

ALIGNED = 64  # bytes: alignment of buffers, for vector instructions
_PIECE = 1 << 28  # bytes of one read, as systems limit longer ones
_WINDOW = 1 << 18  # bytes of one of `pieces`, which fits into the CPU cache


@dataclass(frozen=True, slots=True)
class FileId:
    """The identity of a file, independent of its path."""

    device: int
    inode: int

    @staticmethod
    def of(path: Path) -> FileId | None:
        """The file at this path; None if there is none."""
        version = Version.of(path)
        return version and version.file

    @staticmethod
    def from_stat(found: os.stat_result) -> FileId:
        """The identity from a stat result."""
        return FileId(found.st_dev, found.st_ino)


@dataclass(frozen=True, slots=True)
class Version:
    """The version of a file: identity, size and time of the last change."""

    file: FileId
    size: int
    time: int  # nanoseconds, of the last change

    @staticmethod
    def of(path: Path) -> Version | None:
        """The version at this path; None if there is none."""
        try:
            return Version.from_stat(path.stat())
        except OSError:
            return None

    @staticmethod
    def from_stat(found: os.stat_result) -> Version:
        """The version from a stat result."""
        return Version(FileId.from_stat(found), found.st_size, found.st_mtime_ns)


class OpenFile:
    """An open file, closed with its last reference."""

    def __init__(self, path: Path) -> None:
        self.path, self._fd = path, -1
        # Without O_NONBLOCK opening a named pipe would block.
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        found = os.fstat(self._fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is no regular file")
        self.id = FileId.from_stat(found)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # bound early: `os` may be unloaded at exit
        if self._fd >= 0:
            close(self._fd)

    @property
    def version(self) -> Version:
        """Its present version."""
        return Version.from_stat(os.fstat(self._fd))

    def read(self, offset: int, count: int) -> NDArray[np.uint8]:
        """`count` bytes from `offset` in a new aligned buffer; raises ProjectError if the file is too short."""
        room = np.empty(count + ALIGNED, np.uint8)
        start = -room.ctypes.data % ALIGNED
        into, done = room[start : start + count], 0
        while done < count:
            done += self._into(into[done : done + _PIECE].data, offset + done)
        return into

    def pieces(self, offset: int, count: int) -> Iterator[memoryview]:
        """The same bytes in pieces, each in the same buffer, so that a piece is valid until the next."""
        room, done = memoryview(bytearray(min(count, _WINDOW))), 0
        while done < count:
            got = self._into(room[: count - done], offset + done)
            yield room[:got]
            done += got

    def _into(self, room: memoryview, offset: int) -> int:
        """Read into a buffer; returns the number of bytes, at least 1."""
        try:
            got = os.preadv(self._fd, [room], offset)
            if not got:
                raise OSError(0, "it is cut off")
        except OSError as error:
            raise unreadable(self.path, error) from error
        return got


def unreadable(path: Path, error: OSError) -> ProjectError:
    """The error of weights that cannot be read."""
    message = f"The weights in {path.name} cannot be read ({error.strerror or error})."
    return ProjectError(message, "Put the file back, or open the source again.")


class OpenFiles:
    """The files of a store's tensors by path and identity; the newest of a path is stored without identity.

    Threads of the window share it: what one opens is not lost where another closes what is no longer in use.
    """

    def __init__(self) -> None:
        self._files: dict[tuple[Path, FileId | None], OpenFile] = {}
        self._lock = threading.RLock()

    def hold(self, places: Iterable[tuple[Path, FileId | None]]) -> None:
        """Open a file that is not open yet; `get` raises for one that cannot be opened."""
        for place in places:
            with contextlib.suppress(OSError):
                self._held(*place)

    def get(self, path: Path, of: FileId | None) -> OpenFile:
        """The file of this identity, or the present file at its path, as its content may be the same."""
        try:
            return self._held(path, of)
        except OSError as error:
            raise unreadable(path, error) from error

    def has(self, path: Path, of: FileId | None) -> bool:
        """Whether the file of this identity is open, or still at its path."""
        with contextlib.suppress(OSError):
            return of is not None and self._held(path, of).id == of
        return False

    def _held(self, path: Path, of: FileId | None) -> OpenFile:
        with self._lock:
            if (path, of) not in self._files:
                found = OpenFile(path)
                self._files[path, of] = self._files.setdefault((path, found.id), found)
            return self._files[path, of]

    def let_go(self, used: Iterable[tuple[Path, FileId | None]]) -> None:
        """Close all but those in use."""
        kept = set(used)
        with self._lock:
            self._files = {place: file for place, file in self._files.items() if place in kept}

    def also(self, other: OpenFiles) -> None:
        """Open the files of another."""
        with other._lock:
            theirs = dict(other._files)
        with self._lock:
            self._files |= theirs
