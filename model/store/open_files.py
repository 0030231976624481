"""Files held open by identity: their bytes stay readable when another program replaces or removes them.

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

ALIGNED = 64  # bytes: what is read begins at a multiple, as vector instructions like it
_PIECE = 1 << 28  # bytes of one read; systems cut longer ones
_WINDOW = 1 << 18  # bytes of `pieces`: they stay in the processor's cache between copy and use


@dataclass(frozen=True, slots=True)
class FileId:
    """Which file a path named: another one may have its name by now."""

    device: int
    inode: int

    @staticmethod
    def of(path: Path) -> FileId | None:
        """The file that has this path now; None where there is none."""
        version = Version.of(path)
        return version and version.file

    @staticmethod
    def from_stat(found: os.stat_result) -> FileId:
        """The file of a stat."""
        return FileId(found.st_dev, found.st_ino)


@dataclass(frozen=True, slots=True)
class Version:
    """What a file was when it was looked at: after a change of its content it is another."""

    file: FileId
    size: int
    time: int  # nanoseconds, of the last change

    @staticmethod
    def of(path: Path) -> Version | None:
        """The version that has this path now; None where there is none."""
        try:
            return Version.from_stat(path.stat())
        except OSError:
            return None

    @staticmethod
    def from_stat(found: os.stat_result) -> Version:
        """The version of a stat."""
        return Version(FileId.from_stat(found), found.st_size, found.st_mtime_ns)


class HeldFile:
    """An open file. Closed when nobody refers to it any more."""

    def __init__(self, path: Path) -> None:
        self.path, self._fd = path, -1
        # Without O_NONBLOCK a named pipe would wait for a writer.
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        found = os.fstat(self._fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is no regular file")
        self.id = FileId.from_stat(found)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # at the interpreter's end `os` is gone
        if self._fd >= 0:
            close(self._fd)

    @property
    def version(self) -> Version:
        """What it is now."""
        return Version.from_stat(os.fstat(self._fd))

    def read(self, offset: int, count: int) -> NDArray[np.uint8]:
        """`count` bytes from `offset`, aligned, in memory of their own; raises ProjectError where they are cut off."""
        room = np.empty(count + ALIGNED, np.uint8)
        start = -room.ctypes.data % ALIGNED
        into, done = room[start : start + count], 0
        while done < count:
            done += self._into(into[done : done + _PIECE].data, offset + done)
        return into

    def pieces(self, offset: int, count: int) -> Iterator[memoryview]:
        """The same bytes, one piece after another in the same memory: each is gone when the next is asked for."""
        room, done = memoryview(bytearray(min(count, _WINDOW))), 0
        while done < count:
            got = self._into(room[: count - done], offset + done)
            yield room[:got]
            done += got

    def _into(self, room: memoryview, offset: int) -> int:
        """Read what fits at once; how much that was, and never nothing."""
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


class HeldFiles:
    """The files that the tensors of a store lie in, by path and identity; the newest of a path is held without one.

    Threads of the window share it: what one opens is not lost where another closes what is no longer in use.
    """

    def __init__(self) -> None:
        self._files: dict[tuple[Path, FileId | None], HeldFile] = {}
        self._lock = threading.RLock()

    def hold(self, places: Iterable[tuple[Path, FileId | None]]) -> None:
        """Open what is not held yet; `get` raises for what cannot be opened."""
        for place in places:
            with contextlib.suppress(OSError):
                self._held(*place)

    def get(self, path: Path, of: FileId | None) -> HeldFile:
        """The file of this identity, else the one that has its path now, as its content may be the same."""
        try:
            return self._held(path, of)
        except OSError as error:
            raise unreadable(path, error) from error

    def has(self, path: Path, of: FileId | None) -> bool:
        """Whether the very file of this identity is held; it is, if it has its path still."""
        with contextlib.suppress(OSError):
            return of is not None and self._held(path, of).id == of
        return False

    def _held(self, path: Path, of: FileId | None) -> HeldFile:
        with self._lock:
            if (path, of) not in self._files:
                found = HeldFile(path)
                self._files[path, of] = self._files.setdefault((path, found.id), found)
            return self._files[path, of]

    def let_go(self, used: Iterable[tuple[Path, FileId | None]]) -> None:
        """Close all but those in use."""
        kept = set(used)
        with self._lock:
            self._files = {place: file for place, file in self._files.items() if place in kept}

    def also(self, other: HeldFiles) -> None:
        """Hold what another holds."""
        with other._lock:
            theirs = dict(other._files)
        with self._lock:
            self._files |= theirs
