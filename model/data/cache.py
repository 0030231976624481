"""Disk cache of tokenised texts, keyed by content: equal files and options are tokenised once.

The cache may be deleted at any time; a damaged or read-only cache is ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from espalier.model.data.base import ROWED, Array, LoadOptions, Split, TaskData
from espalier.model.errors import FileError
from espalier.model.files import replacing
from espalier.model.private import own_folder

VERSION = 5  # increment when the content of an entry changes
FIELDS = ("labels", *ROWED)  # of a split, besides its inputs
KEEP = 64  # files; the oldest beyond it are removed
TOKENIZER_FILES = ("tokenizer", "vocab", "merges", "special_tokens", "added_tokens", "spiece", "sentencepiece",
                   "preprocessor", "processor")  # fmt: skip


def cache_folder() -> Path:
    """`data` in the program's own cache."""
    return own_folder("cache") / "data"


def key_of(files: Iterable[Path], extra: Any, options: LoadOptions) -> str:
    """A hash of the files' bytes, the tokenizer's files and the options that affect tokenisation."""
    digest = hashlib.sha256()
    facts = {name: getattr(options, name) for name in ("text", "label", "max_length", "task", "start")}
    facts |= {"tokenizer": str(options.tokenizer), "version": VERSION, "extra": extra}
    digest.update(json.dumps(facts, sort_keys=True, default=str).encode())
    for path in (*files, *_tokenizer_files(options.tokenizer)):
        digest.update(path.suffix.lower().encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _tokenizer_files(tokenizer: str | Path | None) -> list[Path]:
    folder = Path(tokenizer or "")
    if tokenizer is None or not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if p.is_file() and p.name.startswith(TOKENIZER_FILES))


def read(key: str, name: str) -> TaskData | None:
    """The data set under this key with the given name, or None."""
    path = cache_folder() / f"{key}.npz"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            data = _unpack(arrays, name)
        os.utime(path)
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
        return None
    return data


def write(key: str, data: TaskData) -> None:
    """Write the data set to the cache; errors of the file system are ignored."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / f"{key}.npz", mode=0o600) as file:
            np.savez(file, allow_pickle=False, **_pack(data))
        _prune(folder)
    except (OSError, FileError):
        return


def _prune(folder: Path) -> None:
    kept = sorted(folder.glob("*.npz"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in kept[KEEP:]:
        path.unlink(missing_ok=True)


def _pack(data: TaskData) -> dict[str, Array]:
    """Arrays in the smallest sufficient type, and the text fields as JSON bytes."""
    arrays = {
        f"{split}/{name}": _small(array)
        for split, part in data.splits.items()
        for name, array in (*part.inputs.items(), *((n, getattr(part, n)) for n in FIELDS))
        if array is not None
    }
    words = {"kind": data.kind, "classes": data.classes, "texts": data.texts, "splits": list(data.splits),
             "task": data.task, "notes": data.notes,
             "named": {name: split.classes for name, split in data.splits.items()},
             "table": next((split.table for split in data.splits.values()), ())}  # fmt: skip
    return arrays | {"words": np.frombuffer(json.dumps(words).encode(), dtype=np.uint8)}


def _small(array: Array) -> Array:
    """Whole numbers in the smallest sufficient type; fractions as they are."""
    if array.dtype.kind == "f":
        return array
    kind = np.promote_types(np.min_scalar_type(array.min(initial=0)), np.min_scalar_type(array.max(initial=0)))
    return array.astype(kind)


def _unpack(arrays: Any, name: str) -> TaskData:
    words = json.loads(arrays["words"].tobytes())
    texts = {split: tuple(rows) for split, rows in words["texts"].items()}
    named = {split: tuple(names) for split, names in words["named"].items()}
    table = tuple(words["table"])
    splits = {
        split: replace(_unpack_split(arrays, split), task=words["task"], classes=named[split], table=table)
        for split in words["splits"]
    }
    notes = tuple(words.get("notes", ()))
    return TaskData(name, words["kind"], tuple(words["classes"]), splits, texts, notes=notes, task=words["task"])


def _unpack_split(arrays: Any, split: str) -> Split:
    names: Sequence[str] = [n.removeprefix(f"{split}/") for n in arrays.files if n.startswith(f"{split}/")]
    stored = {name: arrays[f"{split}/{name}"] for name in names}
    whole = {name: array if array.dtype.kind == "f" else array.astype(np.int64) for name, array in stored.items()}
    labels, known = whole.pop("labels"), {name: whole.pop(name) for name in ROWED if name in whole}
    return Split(whole, labels, **known)
