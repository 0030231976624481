"""Data passed as arrays by a Python program: registered in this process under a name derived from their content.

Passes refer to them by that name as to a file; another process has to register them again.
"""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakValueDictionary

import xxhash

from espalier.model.data.base import SOURCES, DataSource, LoadOptions, TaskData
from espalier.model.data.rows import arrange
from espalier.model.errors import DataError

PREFIX = "memory:"
_HELD: WeakValueDictionary[str, Held] = WeakValueDictionary()


class Held:
    """Arrays, registered for the lifetime of this object. `name`: of the data in options, equal for equal arrays."""

    def __init__(self, data: TaskData) -> None:
        self.name = f"{PREFIX}{_digest(data)}"
        self.data = replace(data, name=data.name or self.name)


def hold(data: TaskData) -> Held:
    """Register `data`; equal arrays share one registration."""
    new = Held(data)
    return _HELD.setdefault(new.name, new)


def load_memory(name: str, options: LoadOptions) -> TaskData:
    """The arrays of a name without its prefix, a single split divided as the rows of a file; raises DataError."""
    held = _HELD.get(f"{PREFIX}{name}")
    if held is None:
        raise DataError(
            f"The data {PREFIX}{name} were arrays of another Python program.", "Name a file, or pass them again."
        )
    data = held.data
    chosen = arrange({n: s.samples for n, s in data.splits.items()}, options, data.name)
    parts = {n: (data.splits[of], rows) for n, (of, rows) in chosen.items()}
    return replace(data, splits={n: split.rows(split.of_samples(rows)) for n, (split, rows) in parts.items()})


def _digest(data: TaskData) -> str:
    digest = xxhash.xxh3_128(repr((data.kind, data.classes, data.task, sorted(data.texts.items()))).encode())
    for split, part in sorted(data.splits.items()):
        digest.update(repr(part.table).encode() if part.table else b"")
        for name, array in (*sorted(part.inputs.items()), ("labels", part.labels)):
            digest.update(f"{split} {name} {array.dtype} {array.shape}\n".encode())
            digest.update(array.tobytes())
    return digest.hexdigest()


SOURCES.add("memory", DataSource(load_memory))
