"""Memory cache of the most recently used data sets: consecutive jobs on the same data load it once.

A file whose modification time or size has changed is read again.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

from espalier.model.data.base import LoadOptions, TaskData, source_of
from espalier.model.data.caption_files import caption_tables, named_images
from espalier.model.data.loading import load_with
from espalier.model.data.local import find
from espalier.model.errors import DataError

MAX_SETS = 3
MAX_BYTES = 1 << 30  # of all data sets together
_CACHE: OrderedDict[tuple[Any, ...], TaskData] = OrderedDict()


def load_recent(spec: str, options: LoadOptions) -> TaskData:
    """As `load_data`, cached; callers must not change the arrays."""
    key = (spec, options, signature(spec))
    data = _CACHE.get(key)
    if data is None:
        data = load_with(spec, options)
        _CACHE[key] = data
        while len(_CACHE) > MAX_SETS or (len(_CACHE) > 1 and sum(map(_size, _CACHE.values())) > MAX_BYTES):
            _CACHE.popitem(last=False)
    _CACHE.move_to_end(key)
    return data


def forget() -> None:
    """Clear the cache."""
    _CACHE.clear()


def signature(spec: str) -> tuple[Any, ...]:
    """Paths, modification times and sizes of the data's files."""
    with contextlib.suppress(DataError, OSError):
        return tuple((str(p), (s := p.stat()).st_mtime_ns, s.st_size) for p in files_of_data(spec))
    return ()


def content_of(spec: str) -> str:
    """A hash of the data's files; empty for demos, the hub and missing files."""
    digest = hashlib.blake2b(digest_size=16)
    with contextlib.suppress(DataError, OSError):
        files = files_of_data(spec) if spec else ()
        for path in files:
            with path.open("rb") as file:
                digest.update(f"{path.name} {hashlib.file_digest(file, 'blake2b').hexdigest()}\n".encode())
        return digest.hexdigest() if files else ""
    return ""


def files_of_data(spec: str) -> tuple[Path, ...]:
    """The files that data are read from; raises DataError where there are none."""
    source, name = source_of(spec)
    if source is not None:
        return tuple(source.files(name))
    path = Path(spec).expanduser()
    images = named_images(path)
    if not images:
        return tuple(find(path).paths())
    with contextlib.suppress(DataError):  # of tables in folders of splits
        images += find(path).paths()
    return tuple(dict.fromkeys((*caption_tables(path).values(), *images)))


def _size(data: TaskData) -> int:
    return sum(array.nbytes for split in data.splits.values() for array in (*split.inputs.values(), split.labels))
