"""Data that a program hands over as arrays: held in this process under a name made of their content.

Passes find them by that name as they find a file; another process, or a later one, has to be given them again.
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
    """Arrays for as long as somebody keeps this. `name`: what options call them, equal for equal arrays."""

    def __init__(self, data: TaskData) -> None:
        self.name = f"{PREFIX}{_digest(data)}"
        self.data = replace(data, name=data.name or self.name)


def hold(data: TaskData) -> Held:
    """Let passes find `data`; those that are held already are not held twice."""
    new = Held(data)
    return _HELD.setdefault(new.name, new)


def load_memory(name: str, options: LoadOptions) -> TaskData:
    """The arrays of a name without its prefix, lone ones divided as rows of a file; raises DataError for no arrays."""
    held = _HELD.get(f"{PREFIX}{name}")
    if held is None:
        raise DataError(
            f"The data {PREFIX}{name} were arrays of another Python program.", "Name a file, or give them again."
        )
    data = held.data
    places = arrange({n: len(s) for n, s in data.splits.items()}, options, data.name)
    return replace(data, splits={n: data.splits[of].rows(rows) for n, (of, rows) in places.items()})


def _digest(data: TaskData) -> str:
    digest = xxhash.xxh3_128(repr((data.kind, data.classes)).encode())
    for split, held in sorted(data.splits.items()):
        for name, array in (*sorted(held.inputs.items()), ("labels", held.labels)):
            digest.update(f"{split} {name} {array.dtype} {array.shape}\n".encode())
            digest.update(array.tobytes())
    return digest.hexdigest()


SOURCES.add("memory", DataSource(load_memory))
