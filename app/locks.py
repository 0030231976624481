"""Lock files (flock), which the system releases when their process ends. Free of Qt."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

TRIES = 10


class Locked:
    """A file locked by this process, until it is released or garbage-collected."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path, self.handle = path, handle

    def __del__(self) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock and close the file."""
        if self.handle >= 0:
            with contextlib.suppress(OSError):
                os.close(self.handle)
            self.handle = -1


def hold(path: Path) -> Locked | None:
    """Lock a file, creating it if missing; None if another process has locked it."""
    for _ in range(TRIES):
        with contextlib.suppress(FileNotFoundError):  # its owner deleted it meanwhile
            return _lock(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def take(path: Path) -> Locked | None:
    """Lock an existing file; None if another process has locked it, or it does not exist."""
    try:
        return _lock(path, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        return None


def _lock(path: Path, flags: int) -> Locked | None:
    """Open and lock a file. Raises FileNotFoundError if it does not exist or was replaced or deleted meanwhile."""
    handle = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_ino != path.stat().st_ino:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:
        os.close(handle)
        raise
    return Locked(path, handle)
