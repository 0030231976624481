"""A folder of entries by key in the user's cache: written whole or not at all, bounded, private.

An entry is JSON behind its own checksum, with a file of tensors beside it where it needs one. Nothing here is an
error: what is damaged, foreign or cannot be written is only computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espalier.model.errors import FileError
from espalier.model.files import write_bytes
from espalier.model.leftovers import part_in
from espalier.model.private import own_folder

OFF = "ESPALIER_NO_CACHE"
SIZE = "ESPALIER_CACHE_SIZE"
USUAL = 4 << 30  # bytes
STALE = 3600.0  # seconds after which what a killed process left half written goes
_ENTRY, _PART, _TENSORS = ".json", ".part", ".safetensors"


def enabled() -> bool:
    """Whether graphs and scores are kept at all: ESPALIER_NO_CACHE, --no-cache and the window's menu switch it off."""
    return os.environ.get(OFF, "") in ("", "0") and bound() > 0


def bound() -> int:
    """Bytes that captured graphs may take: ESPALIER_CACHE_SIZE, else 4 GiB."""
    given = os.environ.get(SIZE, "")
    return int(given) if given.isdigit() else USUAL


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of one kind, at most `limit` bytes of them; those used least recently go first."""

    name: str
    limit: int

    @property
    def folder(self) -> Path:
        """Where they lie."""
        return own_folder("cache") / self.name

    def read(self, key: str) -> Any:
        """The JSON under a key; None where there is none, or none that this user wrote whole."""
        path = self.folder / f"{key}{_ENTRY}"
        try:
            if not _private(self.folder) or not _private(path):
                return None
            digest, _, body = path.read_bytes().partition(b"\n")
            if digest != _digest(body):
                self.remove(key)
                return None
            os.utime(path)
            return json.loads(body)
        # An entry that cannot be read is as good as none.
        except Exception:  # noqa: BLE001
            return None

    def write(self, key: str, data: Any, tensors: Path | None = None) -> bool:
        """Keep an entry, with a copy (or a link) of a file of tensors; False where that was not possible."""
        try:
            body = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
        except ValueError:  # NaN or infinity: a value that JSON has not
            return False
        size = len(body) + (tensors.stat().st_size if tensors else 0)
        if size > self.limit // 2:  # one that would drive all others out
            return False
        try:
            self._make_folder()
            self._prune(self.limit - size)
            if tensors:
                self._place(tensors, self.tensors(key))
            write_bytes(self.folder / f"{key}{_ENTRY}", _digest(body) + b"\n" + body, mode=0o600)
        except (OSError, FileError):
            return False
        return True

    def tensors(self, key: str) -> Path:
        """Where the tensors of an entry lie."""
        return self.folder / f"{key}{_TENSORS}"

    def borrow(self, key: str, target: Path) -> None:
        """Give the tensors of an entry a second name, which stays when the entry goes; raises OSError."""
        source = self.tensors(key)
        if not _private(source):
            raise PermissionError(f"{source} belongs to somebody else")
        target.parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(source, target)

    def remove(self, key: str) -> None:
        """Forget an entry."""
        for ending in (_ENTRY, _TENSORS):
            with contextlib.suppress(OSError):
                (self.folder / f"{key}{ending}").unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget all."""
        with contextlib.suppress(OSError):
            self._prune(0)

    def size(self) -> int:
        """Bytes that they take."""
        with contextlib.suppress(OSError):
            return sum(size for _, size, _ in self._held())
        return 0

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _private(self.folder):
            raise PermissionError(f"{self.folder} belongs to somebody else")

    def _place(self, source: Path, target: Path) -> None:
        with part_in(self.folder) as part:
            part.unlink()  # a link needs its name; who takes it away meanwhile only costs this entry
            link_or_copy(source, part)
            os.chmod(part, 0o600)
            os.replace(part, target)

    def _held(self) -> list[tuple[float, int, str]]:
        """(when it was last used, bytes, key) of all entries, oldest first; what belongs to none is as old as it is."""
        sizes: dict[str, int] = {}
        times: dict[str, float] = {}
        for file in os.scandir(self.folder):
            facts = file.stat(follow_symlinks=False)
            key, ending = os.path.splitext(file.name)
            if ending == _PART:
                if time.time() - facts.st_mtime > STALE:
                    Path(file.path).unlink(missing_ok=True)
                continue
            sizes[key] = sizes.get(key, 0) + facts.st_size
            if ending == _ENTRY or key not in times:
                times[key] = facts.st_mtime
        return sorted((times[key], size, key) for key, size in sizes.items())

    def _prune(self, room: int) -> None:
        held = self._held()
        total = sum(size for _, size, _ in held)
        for _, size, key in held:
            if total <= room:
                return
            self.remove(key)
            total -= size


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).hexdigest().encode()


def _private(path: Path) -> bool:
    """Whether only this user (or root) can have written a file or folder; a link is nobody's."""
    if not hasattr(os, "getuid"):
        return True
    facts = os.lstat(path)
    mine = facts.st_uid == os.getuid() and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return mine and (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode))


def link_or_copy(source: Path, target: Path) -> None:
    """A second name of a file, or a copy where there can be none; raises OSError and leaves nothing half done."""
    import shutil

    with contextlib.suppress(OSError):
        os.link(source, target)
        return
    try:
        shutil.copyfile(source, target)
    except OSError:
        target.unlink(missing_ok=True)
        raise
