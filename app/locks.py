"""Files that a running window holds by a lock, which the system takes back when the window dies. No Qt in here."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

TRIES = 10


class Locked:
    """A file that this process holds, until it is released or forgotten."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path, self.handle = path, handle

    def __del__(self) -> None:
        self.release()

    def release(self) -> None:
        """Let others have it."""
        if self.handle >= 0:
            with contextlib.suppress(OSError):
                os.close(self.handle)
            self.handle = -1


def hold(path: Path) -> Locked | None:
    """Hold a file, made if need be; None where another holds it."""
    for _ in range(TRIES):
        with contextlib.suppress(FileNotFoundError):  # who had it deleted it just then
            return _lock(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def take(path: Path) -> Locked | None:
    """Hold a file that is there; None where another holds it, or it is no more."""
    try:
        return _lock(path, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        return None


def _lock(path: Path, flags: int) -> Locked | None:
    """Raises FileNotFoundError where there is none, or it was replaced or deleted meanwhile."""
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
