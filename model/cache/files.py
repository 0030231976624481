"""Whether files are those that they were: by time and size where these can be trusted, else by content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from espalier.model.borders import refuse_endless

WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".npz", ".npy", ".h5")
# Kernels stamp files by their clock tick: a file may change twice within one, and only the first is seen.
TICK = 20_000_000  # nanoseconds


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it was. `times`: of its content and of its entry in the folder, in ns; empty: look at its content.

    `strict`: another time alone means another file (a library, whose other files are not looked at).
    """

    path: str
    size: int
    times: tuple[int, ...]
    digest: str
    strict: bool = False


@dataclass(frozen=True, slots=True)
class FolderState:
    """The names of the files in a folder that end so: another one could be taken for one of them."""

    path: str
    endings: tuple[str, ...]
    names: tuple[str, ...]


def file_state(path: Path, before: int, strict: bool = False) -> FileState | None:
    """A file as it is; None where it is gone, or changed after `before` (ns): nobody knows what was read then."""
    try:
        facts = os.stat(path)
        if max(facts.st_mtime_ns, facts.st_ctime_ns) > before - TICK:
            return None
        digest = "" if strict else file_digest(path)
    except OSError:
        return None
    return FileState(str(path), facts.st_size, (facts.st_mtime_ns, facts.st_ctime_ns), digest, strict)


def is_same(state: FileState) -> bool:
    """Whether a file is still the one that it was."""
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
    """A hash of the content: xxh3-128 of weights, as keys of tensors are, blake2b of all others."""
    import xxhash

    digest = xxhash.xxh3_128() if path.suffix in WEIGHTS else hashlib.blake2b(digest_size=16)
    refuse_endless(path)
    with path.open("rb") as file:
        while piece := file.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest()


def folder_state(path: Path, endings: Iterable[str]) -> FolderState:
    """The names in a folder now; raises OSError."""
    wanted = tuple(endings)
    names = sorted(e.name for e in os.scandir(path) if e.name.endswith(wanted) and e.is_file())
    return FolderState(str(path), wanted, tuple(names))


def is_same_folder(state: FolderState) -> bool:
    """Whether a folder holds files of the same names."""
    try:
        return folder_state(Path(state.path), state.endings) == state
    except OSError:
        return False
