"""The tensors of a Hugging Face folder by name, located in its safetensors files without reading their values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import xxhash

from espalier.model.borders import parse_json, read_bytes, tried
from espalier.model.errors import ProjectError, SourceError
from espalier.model.store.open_files import OpenFiles, Version
from espalier.model.store.weights import Array, Location, Tensor, read_header

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"


class Shards:
    """`places`: tensor name → its location; `files`: the safetensors files of the folder."""

    def __init__(self, folder: Path) -> None:
        """Read the headers. Raises SourceError for a folder without safetensors or with a missing or damaged file."""
        self.folder = folder
        self.files = tuple(_files(folder))
        self.places: dict[str, Location] = {}
        for file in self.files:
            try:
                self.places |= read_header(file)
            except ProjectError as error:
                raise SourceError(error.message, error.hint) from error
        self._open = OpenFiles()

    def read(self, name: str) -> Tensor:
        """The tensor in new memory; raises ProjectError where the file cannot be read any more."""
        place = self.places[name]
        carrier = Tensor.carrier(place.dtype)
        values: Array = self._open.get(*place.held).read(place.offset, place.size).view(carrier)
        return Tensor(values.reshape(place.shape), place.dtype)

    def fingerprint(self) -> str:
        """Changes with the names, sizes, times and headers of the files."""
        digest = xxhash.xxh3_128()
        for file in self.files:
            version = Version.of(file)
            digest.update(f"{file.name} {version.size if version else 0} {version.time if version else 0}\n".encode())
        for name, place in sorted(self.places.items()):
            digest.update(f"{name} {place.path.name} {place.offset} {place.dtype} {place.shape}\n".encode())
        return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    """The files that the index names, or the single file."""
    if not (folder / INDEX).exists():
        if not (folder / SINGLE).exists():
            raise SourceError(f"{folder.name} has no {SINGLE} and no {INDEX}.",
                              "Give a Hugging Face folder whose weights are safetensors.")  # fmt: skip
        yield folder / SINGLE
        return
    index: Any = tried(lambda: parse_json(read_bytes(folder / INDEX)), None)
    names: Any = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(names, dict) or not all(isinstance(v, str) for v in names.values()):
        raise SourceError(f"{INDEX} names no files.", "Use a complete copy of the folder.")
    for name in sorted(set(names.values())):
        if Path(name).name != name or not (folder / name).exists():
            raise SourceError(f"{folder.name} has no file {name!r}, which its index names.",
                              "Use a complete copy of the folder.")  # fmt: skip
        yield folder / name
