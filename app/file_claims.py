"""Claims of windows on project files: a claim file in the program's own folder, locked while its window runs.

A window that asks for a claimed project locks a second file. Windows delete their files at their end; the next start
deletes those of killed windows, and the partial files beside the projects that they name.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import platform
import time
from pathlib import Path

import xxhash

from espalier.app.locks import Locked, hold, take
from espalier.app.number_text import moment
from espalier.app.settings import data_folder
from espalier.app.translation import tr
from espalier.model.borders import read_json, tried
from espalier.model.errors import FileError
from espalier.model.leftovers import clear_parts

CLAIM, REQUEST = ".lock", ".wanted"


def claim(path: Path) -> Locked | None:
    """Claim a project file; None if another window has it. Succeeds without a lock if locking fails."""
    try:
        lock = hold(_claim_file(path))
    except (OSError, FileError):
        return Locked(path, -1)
    if lock:
        owner = {"path": str(path), "user": _user(), "host": platform.node(), "since": time.time()}
        with contextlib.suppress(OSError):  # on a full disk the lock alone suffices
            os.ftruncate(lock.handle, 0)
            os.write(lock.handle, json.dumps(owner).encode())
    return lock


def give_back(lock: Locked) -> None:
    """Delete a claim or request."""
    if lock.handle >= 0:
        with contextlib.suppress(OSError):
            lock.path.unlink(missing_ok=True)
    lock.release()


def holder(path: Path) -> str:
    """The user and host of the claim on a file and its time, as a phrase; empty if the claim cannot be read."""

    def read() -> str:
        owner = read_json(_claim_file(path))
        return tr("{} on {}, since {}", str(owner["user"])[:80], str(owner["host"])[:80], moment(float(owner["since"])))

    return tried(read, "")


def want(path: Path) -> Locked | None:
    """Ask the owner of a claimed file for it, until the returned lock is given back."""
    return hold(_request_file(path))


def is_wanted(path: Path) -> bool:
    """Whether a running window asks for the file."""
    request = _request_file(path)
    if not request.exists():
        return False
    try:
        if stale := take(request):  # of a killed window
            give_back(stale)
            return False
    except OSError:
        return False
    return request.exists()


def clean_up() -> None:
    """Delete the claims of killed windows, and the partial files beside the projects that they name."""
    folders = set[Path]()
    for file in data_folder("locks").glob(f"*{CLAIM}"):
        with contextlib.suppress(OSError):
            if stale := take(file):
                path = tried(lambda f=file: Path(str(read_json(f)["path"])), None)
                folders |= {path.parent} if path and path.is_absolute() else set()
                give_back(stale)
    for folder in folders:
        clear_parts(folder)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # the user id has no name
        return tr("unknown user")


def _claim_file(path: Path) -> Path:
    return data_folder("locks") / f"{xxhash.xxh3_128_hexdigest(str(path).encode())}{CLAIM}"


def _request_file(path: Path) -> Path:
    return _claim_file(path).with_suffix(REQUEST)
