"""Files that a running window holds by a lock, which the system takes back when the window dies. No Qt in here."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path


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
    return _lock(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)


def take(path: Path) -> Locked | None:
    """Hold a file that is there; None where another holds it, or it is no more."""
    try:
        return _lock(path, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        return None


def _lock(path: Path, flags: int) -> Locked | None:
    handle = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_ino == path.stat().st_ino:  # else it was replaced or removed meanwhile
            return Locked(path, handle)
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(handle)
        raise
    os.close(handle)
    return None
