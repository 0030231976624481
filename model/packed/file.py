"""Packed models: a safetensors file with the graph and each weight in the bits of its format, without pickle.

`@graph` contains the graph and the storage of each weight, `@source` the model's origin; all tensors are uint8. `check`
in the metadata entry `espalier` is the xxh3-128 of all bytes after the header.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from espalier.model.borders import parse_json, reading, refuse_endless, tried
from espalier.model.errors import Damage, ExportError, ProjectError
from espalier.model.files import replacing
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import TensorKey
from espalier.model.packed.bits import Bytes
from espalier.model.packed.graph import graph_of
from espalier.model.packed.layout import GRAPH, SOURCE, SOURCE_BYTES, VERSION, Packed, blobs_of, described, header, plan
from espalier.model.packed.values import pack, same_values, unpack
from espalier.model.sources.info import SourceInfo, demo_folder
from espalier.model.store.weights import Location, WeightStore, read_header

_CHUNK = 2**24


@dataclass(frozen=True, slots=True)
class PackedFile:
    """The contents of a packed file: the graph with weights without keys, and storage and locations of its tensors."""

    path: Path
    graph: Graph
    source: dict[str, str]
    locations: dict[str, Location]
    tensors: dict[str, list[Any]]

    def data(self, name: str) -> Bytes:
        """The bytes of a stored tensor. Raises Damage if it is missing."""
        if name not in self.locations:
            raise Damage(f"{name} is missing")
        return _read(self.locations[name])


# -- write


def write_packed(graph: Graph, store: WeightStore, source: SourceInfo, path: Path) -> tuple[list[Packed], list[str]]:
    """Write the packed file atomically; returns its tensors and notes on information that is not stored.

    Raises ExportError for a model without weights or a file that cannot be written, FormatError for values without a
    code in their format.
    """
    if any(w.key is None for w in graph.weights.values()):
        raise ExportError("The model was opened without weights, so it cannot be exported.", "Open it with weights.")
    parts, (origin, notes) = plan(graph), _source_bytes(source)
    blobs = {GRAPH: described(graph, parts), SOURCE: origin}
    with replacing(path, ExportError) as handle:
        handle.write(_start(parts, blobs, "0" * 32))
        digest = xxhash.xxh3_128()
        for chunk in _chunks(parts, blobs, graph, store, notes):
            digest.update(chunk)
            handle.write(chunk)
        handle.seek(0)
        handle.write(_start(parts, blobs, digest.hexdigest()))
    return parts, notes


def _start(parts: list[Packed], blobs: Mapping[str, bytes], check: str) -> bytes:
    sizes = {name: len(data) for name, data in blobs.items()}
    assert sizes == blobs_of(sizes[GRAPH])
    text = header(parts, sizes, check)
    text += b" " * (-(8 + len(text)) % 64)
    return len(text).to_bytes(8, "little") + text


def _chunks(
    parts: list[Packed], blobs: Mapping[str, bytes], graph: Graph, store: WeightStore, notes: list[str]
) -> Iterator[memoryview | bytes]:
    for part in parts:
        yield _stored(part, graph, store, notes).data
    yield from blobs.values()


def _stored(part: Packed, graph: Graph, store: WeightStore, notes: list[str]) -> Bytes:
    """The bytes of a tensor, verified to decode to its effective values; adds notes on what is not stored."""
    weight, use = graph.weights[part.weight], part.use
    tensor, mask = store.get(weight.key or ""), _mask(use.mask, weight.shape, store)
    scale = None if use.scale is None else store.get(graph.weights[use.scale].key or "").float32()
    data = pack(part, tensor, mask, scale)
    if data.size != part.size:
        text = f"{part.weight} has {data.size} bytes in {part.format}, which declares {part.size}."
        raise ExportError(text, "Choose another format; in a plug-in's format, correct stored_bits.")
    if use.format and not use.format.stochastic:
        decoded = unpack(part, data, weight.dtype, scale).effective
        if not same_values(part, tensor, mask, scale, decoded):
            text = f"The codes of {part.weight} in {use.format.label} do not decode to its effective values."
            raise ExportError(text, "Choose another format for it, or float.")
        if part.layout == "dense" and mask is not None and (more := int(((decoded.array == 0) & mask).sum())):
            notes.append(
                f"{part.weight} has {more} more zeros than were pruned, and its mask is not stored to save space. "
                "After reopening, other zeros may count as pruned; their number stays the same."
            )
    return data


def _mask(key: TensorKey | None, shape: tuple[int, ...], store: WeightStore) -> NDArray[np.bool_] | None:
    if key is None:
        return None
    count = int(np.prod(shape, dtype=np.int64))
    return np.unpackbits(store.get(key).array, count=count).astype(np.bool_).reshape(shape)


def _source_bytes(source: SourceInfo) -> tuple[bytes, list[str]]:
    """(origin, padded to a fixed length so that a graph determines the file size; notes on omitted facts)."""
    facts = {"name": source.name, "data": source.data, "tokenizer": _portable(source.tokenizer)}
    stored: dict[str, str] = {}
    for name, value in facts.items():
        if value and len(json.dumps({**stored, name: value})) <= SOURCE_BYTES:
            stored[name] = value
    notes = [f"The {name} is too long to be stored in the file: {facts[name]}." for name in facts if facts[name] not in
             (None, "", stored.get(name))]  # fmt: skip
    return json.dumps(stored).encode().ljust(SOURCE_BYTES), notes


def _portable(tokenizer: str | None) -> str | None:
    """The tokenizer of a demo by the demo's name, as its path differs between machines."""
    folder = Path(tokenizer) if tokenizer else None
    if folder and folder.parent == demo_folder(folder.name).parent:
        return f"demo:{folder.name}"
    return tokenizer


# -- read


def is_packed(spec: str) -> bool:
    """Whether `spec` names a packed model."""
    if not spec.endswith(".safetensors"):
        return False
    path = Path(spec).expanduser()
    if spec.endswith(".packed.safetensors"):
        return path.is_file()
    return tried(lambda: bool(_metadata(path)), False)


def read_packed(path: Path) -> PackedFile:
    """Read the graph of a packed file and the locations of its tensors. Raises ProjectError if it is damaged."""
    with decoding(path):
        facts = _metadata(path)
        if not facts:
            raise ProjectError(f"{path.name} is not a packed model.", "Use a file written by `export --as packed`.")
        if facts["packed"] != VERSION:
            text = (
                f"{path.name} is a packed model of version {facts['packed']}; this version of Espalier reads {VERSION}."
            )
            raise ProjectError(text, "Update Espalier or export the model again.")
        locations = read_header(path)
        if _digest(path) != facts["check"]:
            raise Damage("its data are altered or truncated")
        graph, tensors = graph_of(_read(locations[GRAPH]).tobytes())
        source: dict[str, str] = parse_json(_read(locations[SOURCE]).tobytes())
        return PackedFile(path, graph, {str(k): str(v) for k, v in source.items()}, locations, tensors)


def decoding(path: Path) -> contextlib.AbstractContextManager[None]:
    """Convert exceptions while a packed file is read to ProjectError."""
    hint = "Export the model again, or use a complete copy."
    return reading(path, ProjectError, "is damaged", hint, "Check the path.")


def _metadata(path: Path) -> dict[str, Any]:
    """The metadata of a packed file; empty for another safetensors file."""
    refuse_endless(path)
    with path.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        if length > min(100_000_000, path.stat().st_size):
            raise Damage("it is truncated")
        text = parse_json(handle.read(length)).get("__metadata__", {}).get("espalier")
    facts = parse_json(text) if text else {}
    return facts if "packed" in facts else {}


def _digest(path: Path) -> str:
    digest = xxhash.xxh3_128()
    with path.open("rb") as handle:
        handle.seek(8 + int.from_bytes(handle.read(8), "little"))
        while chunk := handle.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _read(location: Location) -> Bytes:
    return np.fromfile(location.path, np.uint8, int(location.shape[0]), offset=location.offset)
