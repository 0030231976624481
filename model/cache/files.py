"""Detects changed files: by time and size where these are reliable, otherwise by content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from espalier.model.borders import refuse_endless

WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".npz", ".npy", ".h5")
# File times have the resolution of the kernel's clock tick, so two changes within a tick look like one.
TICK = 20_000_000  # nanoseconds


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of a file. `times`: mtime and ctime in ns; empty: compare its content.

    `strict`: a different time counts as a change (for a library, whose other files are not checked).
    """

    path: str
    size: int
    times: tuple[int, ...]
    digest: str
    strict: bool = False


@dataclass(frozen=True, slots=True)
class FolderState:
    """The names of files in a folder with given endings; a new file could be loaded in place of another."""

    path: str
    endings: tuple[str, ...]
    names: tuple[str, ...]


def file_state(path: Path, before: int, strict: bool = False) -> FileState | None:
    """The state of a file; None if it is missing or changed after `before` (ns), when the read content is unknown."""
    try:
        facts = os.stat(path)
        if max(facts.st_mtime_ns, facts.st_ctime_ns) > before - TICK:
            return None
        digest = "" if strict else file_digest(path)
    except OSError:
        return None
    return FileState(str(path), facts.st_size, (facts.st_mtime_ns, facts.st_ctime_ns), digest, strict)


def is_same(state: FileState) -> bool:
    """Whether a file is unchanged."""
    try:
        facts = os.stat(state.path)
        if facts.st_size != state.size:
            return False
        if (facts.st_mtime_ns, facts.st_ctime_ns) == state.times:
            return True
        return not state.strict and file_digest(Path(state.path)) == state.digest
    except OSError:
        return False


def file_digest(path: Path) -> str:
    """A hash of the content: xxh3-128 for weights, like keys of tensors, blake2b for others."""
    import xxhash

    digest = xxhash.xxh3_128() if path.suffix in WEIGHTS else hashlib.blake2b(digest_size=16)
    refuse_endless(path)
    with path.open("rb") as file:
        while piece := file.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest()


def folder_state(path: Path, endings: Iterable[str]) -> FolderState:
    """The present names in a folder. Raises OSError."""
    wanted = tuple(endings)
    names = sorted(e.name for e in os.scandir(path) if e.name.endswith(wanted) and e.is_file())
    return FolderState(str(path), wanted, tuple(names))


def is_same_folder(state: FolderState) -> bool:
    """Whether a folder has the same file names."""
    try:
        return folder_state(Path(state.path), state.endings) == state
    except OSError:
        return False
