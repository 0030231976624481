"""A folder of entries by key in the user's cache: atomically written, of limited size, private.

An entry is a checksum and JSON, optionally with a file of tensors. Nothing here raises errors to the user: damaged,
foreign or unwritable entries are computed again.
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
DEFAULT_BYTES = 4 << 30
STALE = 3600.0  # seconds after which partial files of killed processes are deleted
_ENTRY, _PART, _TENSORS = ".json", ".part", ".safetensors"


def enabled() -> bool:
    """Whether graphs and scores are cached; ESPALIER_NO_CACHE, --no-cache and the window's menu disable it."""
    return os.environ.get(OFF, "") in ("", "0") and bound() > 0


def bound() -> int:
    """Maximum bytes of captured graphs: ESPALIER_CACHE_SIZE, default 4 GiB."""
    text = os.environ.get(SIZE, "")
    return int(text) if text.isdigit() else DEFAULT_BYTES


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of one kind, at most `limit` bytes; the least recently used are deleted first."""

    name: str
    limit: int

    @property
    def folder(self) -> Path:
        """The folder of the entries."""
        return own_folder("cache") / self.name

    def read(self, key: str) -> Any:
        """The JSON of a key; None if it is missing, damaged or writable by other users."""
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
        # A damaged entry counts as missing.
        except Exception:  # noqa: BLE001
            return None

    def write(self, key: str, data: Any, tensors: Path | None = None) -> bool:
        """Store an entry, with a copy or a hard link of a file of tensors. Returns whether it was stored."""
        try:
            body = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
        except ValueError:  # NaN and infinity are not valid JSON
            return False
        size = len(body) + (tensors.stat().st_size if tensors else 0)
        if size > self.limit // 2:  # it would displace all other entries
            return False
        try:
            self._make_folder()
            self._prune(self.limit - size)
            if tensors:
                self._replace(tensors, self.tensors(key))
            write_bytes(self.folder / f"{key}{_ENTRY}", _digest(body) + b"\n" + body, mode=0o600)
        except (OSError, FileError):
            return False
        return True

    def tensors(self, key: str) -> Path:
        """The path of an entry's tensors."""
        return self.folder / f"{key}{_TENSORS}"

    def borrow(self, key: str, target: Path) -> None:
        """Link or copy the tensors of an entry to `target`, to outlive the entry. Raises OSError."""
        source = self.tensors(key)
        if not _private(source):
            raise PermissionError(f"{source} belongs to another user")
        target.parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(source, target)

    def remove(self, key: str) -> None:
        """Delete an entry."""
        for ending in (_ENTRY, _TENSORS):
            with contextlib.suppress(OSError):
                (self.folder / f"{key}{ending}").unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete all entries."""
        with contextlib.suppress(OSError):
            self._prune(0)

    def size(self) -> int:
        """Total bytes of the entries."""
        with contextlib.suppress(OSError):
            return sum(size for _, size, _ in self._by_age())
        return 0

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _private(self.folder):
            raise PermissionError(f"{self.folder} belongs to another user")

    def _replace(self, source: Path, target: Path) -> None:
        with part_in(self.folder) as part:
            part.unlink()  # os.link needs a free name; a concurrent removal only loses this entry
            link_or_copy(source, part)
            os.chmod(part, 0o600)
            os.replace(part, target)

    def _by_age(self) -> list[tuple[float, int, str]]:
        """(time of last use, bytes, key) of all entries, oldest first; files without an entry count by their time."""
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

    def _prune(self, size_limit: int) -> None:
        entries = self._by_age()
        total = sum(size for _, size, _ in entries)
        for _, size, key in entries:
            if total <= size_limit:
                return
            self.remove(key)
            total -= size


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).hexdigest().encode()


def _private(path: Path) -> bool:
    """Whether only this user (or root) can write a file or folder; False for links."""
    if not hasattr(os, "getuid"):
        return True
    facts = os.lstat(path)
    mine = facts.st_uid == os.getuid() and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return mine and (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode))


def link_or_copy(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it if that fails. Raises OSError and leaves no partial file."""
    import shutil

    with contextlib.suppress(OSError):
        os.link(source, target)
        return
    try:
        shutil.copyfile(source, target)
    except OSError:
        target.unlink(missing_ok=True)
        raise
