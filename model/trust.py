"""Whose code may run: what the user named may; what a file says is data, until the user allows that very code.

Allowed for good or refused for good: by the content of the code, in a file of the program's own. Allowed once: by its
path, in the environment, which workers of the same program inherit, or under the session of a window.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Generator
from enum import Enum
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Literal, cast

from espalier.model.borders import read_bytes
from espalier.model.errors import Damage, EspalierError, FileError, SourceError
from espalier.model.files import explained, write_text
from espalier.model.private import own_folder

NAMED = "ESPALIER_TRUST"  # paths, for a run of the program and its workers
SESSION = "ESPALIER_TRUST_SESSION"  # a random word of one window
MOST_FILES, MOST_FOLDERS, MOST_BYTES = 500, 200, 32 << 20  # beside a factory: more is not remembered
MOST_SESSIONS = 100
Decision = Literal["once", "always", "never"]
_typed: set[Path] = set()


class Origin(Enum):
    """Who says what to open: the user, by an argument or in a dialog, or something that was read."""

    TYPED = "typed"
    FILE = "file"


class TrustError(SourceError):
    """A file names code that the user has not allowed. `path`: the code."""

    def __init__(self, message: str, hint: str = "", node: str | None = None, path: Path | None = None) -> None:
        super().__init__(message, hint, node)
        self.path = path


def begin_session() -> None:
    """Give this window its word, where it has none; workers inherit it, so that it comes before them."""
    os.environ.setdefault(SESSION, secrets.token_hex(16))


def require(path: Path, what: str, origin: Origin) -> None:
    """Raise TrustError unless the Python file `path` may run; `what` names the part of it that is wanted.

    What the user named once may run for as long as this process lives.
    """
    path = path.resolve()
    if origin is Origin.TYPED:
        _typed.add(path)
    elif not _allowed(path):
        message = f"This project names code: {what} of {path}, which could do anything with your files."
        hint = f"Read that file; to let it run, open the file itself, or add --trust {path}."
        raise TrustError(message, hint, path=path)


def note_typed(spec: str) -> None:
    """Note that the user named this source: its code, if it names any, may run for as long as this process lives.

    For sources that may be opened without running their code, from a cache; `require` notes the others.
    """
    path = factory_file(spec)
    if path is not None and path.is_file():
        _typed.add(path)


def wanted_code(spec: str) -> Path | None:
    """The Python file that a source names and that may not run yet; None where there is none."""
    path = factory_file(spec)
    return path if path and path.is_file() and not _allowed(path) else None


def factory_of(spec: str) -> tuple[str, str] | None:
    """(Python file, name of its function or "") of a source; None where it names no code.

    Something of that very name on the disk is meant as it is: a folder `bert.py:base` is no function of bert.py.
    """
    if spec.endswith(".py"):
        return spec, ""
    file, colon, name = spec.rpartition(":")
    if not colon or not file.endswith(".py") or os.path.lexists(os.path.expanduser(spec)):
        return None
    return file, name


def factory_file(spec: str) -> Path | None:
    """The Python file that a source names, there or not."""
    found = factory_of(spec)
    return Path(found[0]).expanduser().resolve() if found else None


def refused(path: Path) -> bool:
    """Whether the user refused this code for good."""
    kept = _kept()
    return "never" in kept.values() and kept.get(digest(path.resolve())) == "never"


def _named(path: Path) -> bool:
    given = (Path(p).expanduser().resolve() for p in os.environ.get(NAMED, "").split(os.pathsep) if p)
    session = os.environ.get(SESSION)
    return path in _typed or path in given or (bool(session) and _kept().get(f"{session} {path}") == "once")


def _allowed(path: Path) -> bool:
    if _named(path):
        return True
    kept = _kept()
    return "always" in kept.values() and kept.get(digest(path)) == "always"


def named(spec: str) -> bool:
    """Whether the user named the code of a source in this run of the program, or allowed it once in this window."""
    path = factory_file(spec)
    return path is not None and path.is_file() and _named(path)


def decide(path: Path, decision: Decision) -> None:
    """Remember what the user said of the code in `path`; raises EspalierError where it cannot be written.

    "once" holds for this window and its workers, the others for this content of the file and of those beside it.
    """
    path = path.resolve()
    with _locked():
        kept, session = _kept(), os.environ.get(SESSION, "")
        key = f"{session} {path}" if decision == "once" else digest(path)
        kept.pop(f"{session} {path}", None)
        if key:
            kept[key] = decision
        elif decision == "always":  # too much code to be known again is allowed for this window
            kept[f"{session} {path}"] = "once"
        once = [k for k, v in kept.items() if v == "once"]
        for old in once[:-MOST_SESSIONS]:
            del kept[old]
        _write(kept)


@contextlib.contextmanager
def _locked() -> Generator[None]:
    """Two windows may decide at once; without a lock one of them would be forgotten."""
    from filelock import FileLock, Timeout

    lock = FileLock(f"{_file()}.lock", timeout=5)
    try:
        _file().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock.acquire()
    except (OSError, Timeout) as error:
        raise EspalierError(f"{_file()} could not be locked.", "Allow the code with --trust instead.") from error
    try:
        yield
    finally:
        lock.release()


def digest(path: Path) -> str:
    """Of a Python file and of all beside and beneath it that can be imported; empty where they are too many."""
    found, size = hashlib.sha256(), 0
    files = _importable(path)
    for file in sorted(files):
        try:
            text = read_bytes(file, MOST_BYTES)
        except (OSError, Damage):
            return ""
        size += len(text)
        if size > MOST_BYTES:
            return ""
        found.update(f"{file.relative_to(path.parent)}\0{len(text)}\0".encode())
        found.update(text)
    found.update(path.name.encode())
    return found.hexdigest() if files else ""


def beside(path: Path) -> int:
    """How many other files beside and beneath a Python file it can import."""
    return max(0, len(_importable(path.resolve())) - 1)


def _importable(path: Path) -> set[Path]:
    """The file and what lies beside and beneath it with an ending of modules; nothing where that is too much."""
    endings, found, seen = tuple(all_suffixes()), {path}, set[str]()
    for folder, inner, names in os.walk(path.parent, followlinks=True):
        true = os.path.realpath(folder)
        if true in seen:
            inner.clear()
            continue
        seen.add(true)
        found.update(Path(folder, n) for n in names if n.endswith(endings))
        if len(found) > MOST_FILES or len(seen) > MOST_FOLDERS:
            return set()
    return {f for f in found if f.is_file()}


def _file() -> Path:
    return own_folder("state") / "trusted.json"


def _kept() -> dict[str, str]:
    """Digest or path → decision; nothing where there is no file, or another thing than ours."""
    try:
        with _file().open(encoding="utf-8") as handle:
            facts = os.fstat(handle.fileno())
            if hasattr(os, "getuid") and (facts.st_uid != os.getuid() or facts.st_mode & 0o022):
                return {}  # others may have written it
            found = json.loads(handle.read())
    except (OSError, ValueError, RecursionError):
        return {}
    entries = cast("dict[object, object]", found) if isinstance(found, dict) else {}
    return {k: v for k, v in entries.items() if isinstance(k, str) and isinstance(v, str) and k}


def _write(kept: dict[str, str]) -> None:
    file = _file()
    try:
        with explained(file):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_text(file, json.dumps(kept), mode=0o600)
    except FileError as error:
        raise EspalierError(error.message, "Allow the code with --trust instead.") from error
