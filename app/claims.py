"""Which window has a project's file: a note in the program's own folder, locked for as long as that window lives.

A window that wants the file of another holds a second note. No note outlives its window's end; of one that was killed,
the next start reads where it may have left a half-written file.
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
from espalier.app.settings import data_folder
from espalier.app.words import moment
from espalier.model.borders import read_json, tried
from espalier.model.errors import FileError
from espalier.model.leftovers import clear_parts

ENDING, WANTED = ".lock", ".wanted"


def claim(path: Path) -> Locked | None:
    """The claim of a project's file; None where another window has it. Where no file can be locked, it is anybody's."""
    try:
        held = hold(_note(path))
    except (OSError, FileError):
        return Locked(path, -1)
    if held:
        told = {"path": str(path), "user": _user(), "host": platform.node(), "since": time.time()}
        with contextlib.suppress(OSError):  # on a full disk the lock holds without words
            os.ftruncate(held.handle, 0)
            os.write(held.handle, json.dumps(told).encode())
    return held


def give_back(held: Locked) -> None:
    """Let the file go."""
    if held.handle >= 0:
        with contextlib.suppress(OSError):
            held.path.unlink(missing_ok=True)
    held.release()


def holder(path: Path) -> str:
    """Whose window has a file and since when, in words; empty where its note does not tell."""

    def told() -> str:
        note = read_json(_note(path))
        return f"{str(note['user'])[:80]} on {str(note['host'])[:80]}, since {moment(float(note['since']))}"

    return tried(told, "")


def want(path: Path) -> Locked | None:
    """Ask the window that has a file for it, for as long as this is held."""
    return hold(_wish(path))


def is_wanted(path: Path) -> bool:
    """Whether a window that lives asks for the file."""
    wish = _wish(path)
    if not wish.exists():
        return False
    try:
        if left := take(wish):  # of a window that is gone
            give_back(left)
            return False
    except OSError:
        return False
    return wish.exists()


def tidy() -> None:
    """Delete the notes of windows that were killed, and what they had half written beside the files they tell of."""
    folders = set[Path]()
    for note in data_folder("locks").glob(f"*{ENDING}"):
        with contextlib.suppress(OSError):
            if left := take(note):
                path = tried(lambda n=note: Path(str(read_json(n)["path"])), None)
                folders |= {path.parent} if path and path.is_absolute() else set()
                give_back(left)
    for folder in folders:
        clear_parts(folder)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # nobody of the system's users
        return "somebody"


def _note(path: Path) -> Path:
    return data_folder("locks") / f"{xxhash.xxh3_128_hexdigest(str(path).encode())}{ENDING}"


def _wish(path: Path) -> Path:
    return _note(path).with_suffix(WANTED)
