"""A packed model: one safetensors file that holds the graph and each weight in the bits of its format. Never pickle.

`@graph` holds the graph and how each weight is stored, `@source` what is known of the model's origin; all tensors are
uint8. `check` in the metadata entry `espalier` is the xxh3-128 of all that follows the header.
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
    """What a packed file holds: the graph, its weights without keys, how these are stored, and where."""

    path: Path
    graph: Graph
    source: dict[str, str]
    places: dict[str, Location]
    tensors: dict[str, list[Any]]

    def data(self, name: str) -> Bytes:
        """The bytes of a stored tensor; raises ValueError."""
        if name not in self.places:
            raise Damage(f"{name} is missing")
        return _read(self.places[name])


# -- write


def write_packed(graph: Graph, store: WeightStore, source: SourceInfo, path: Path) -> tuple[list[Packed], list[str]]:
    """Write the packed file, whole or not at all; returns its tensors, and notes on what could not be taken along.

    Raises ExportError for a model without weights or a file that cannot be written, FormatError for values that a
    format has no code for.
    """
    if any(w.key is None for w in graph.weights.values()):
        raise ExportError("The model was opened without weights, so there are none to export.", "Open it with weights.")
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
    """The bytes of one tensor, read back and found equal to the values in effect; notes what it does not keep."""
    weight, use = graph.weights[part.weight], part.use
    tensor, mask = store.get(weight.key or ""), _mask(use.mask, weight.shape, store)
    scale = None if use.scale is None else store.get(graph.weights[use.scale].key or "").float32()
    data = pack(part, tensor, mask, scale)
    if data.size != part.size:
        text = f"{part.weight} takes {data.size} bytes in {part.format}, which says {part.size}."
        raise ExportError(text, "Choose another format; where it is a plug-in's, mend its stored_bits.")
    if use.format and not use.format.stochastic:
        found = unpack(part, data, weight.dtype, scale).effective
        if not same_values(part, tensor, mask, scale, found):
            text = f"{part.weight} in {use.format.label} does not come back from its codes as it computes."
            raise ExportError(text, "Choose another format for it, or float.")
        if part.layout == "dense" and mask is not None and (more := int(((found.array == 0) & mask).sum())):
            notes.append(
                f"{part.weight} has {more} more zeros than were pruned, and no mask in the file, which would "
                "take more: reopened, others of its zeros may count as the pruned ones, as many as before."
            )
    return data


def _mask(key: TensorKey | None, shape: tuple[int, ...], store: WeightStore) -> NDArray[np.bool_] | None:
    if key is None:
        return None
    count = int(np.prod(shape, dtype=np.int64))
    return np.unpackbits(store.get(key).array, count=count).astype(np.bool_).reshape(shape)


def _source_bytes(source: SourceInfo) -> tuple[bytes, list[str]]:
    """The origin, of a fixed length so that the score of a graph can count it, and what found no place."""
    facts = {"name": source.name, "data": source.data, "tokenizer": _portable(source.tokenizer)}
    kept: dict[str, str] = {}
    for name, value in facts.items():
        if value and len(json.dumps({**kept, name: value})) <= SOURCE_BYTES:
            kept[name] = value
    notes = [f"The {name} did not find room in the file: {facts[name]}." for name in facts if facts[name] not in
             (None, "", kept.get(name))]  # fmt: skip
    return json.dumps(kept).encode().ljust(SOURCE_BYTES), notes


def _portable(tokenizer: str | None) -> str | None:
    """A demo's own tokenizer by the demo's name: it lies elsewhere on another machine."""
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
    """The graph of a packed file and where its tensors lie; raises ProjectError where it is damaged."""
    with decoding(path):
        facts = _metadata(path)
        if not facts:
            raise ProjectError(f"{path.name} is no packed model.", "Give one that `export --as packed` wrote.")
        if facts["packed"] != VERSION:
            text = f"{path.name} is a packed model of version {facts['packed']}; this Espalier reads {VERSION}."
            raise ProjectError(text, "Update Espalier, or export the model again.")
        places = read_header(path)
        if _digest(path) != facts["check"]:
            raise Damage("its data are altered or cut off")
        graph, tensors = graph_of(_read(places[GRAPH]).tobytes())
        source: dict[str, str] = parse_json(_read(places[SOURCE]).tobytes())
        return PackedFile(path, graph, {str(k): str(v) for k, v in source.items()}, places, tensors)


def decoding(path: Path) -> contextlib.AbstractContextManager[None]:
    """Whatever is raised while a packed file is read becomes a ProjectError."""
    hint = "Export the model again, or use a complete copy."
    return reading(path, ProjectError, "is damaged", hint, "Check the path.")


def _metadata(path: Path) -> dict[str, Any]:
    """The metadata of a packed file; empty for another safetensors file."""
    refuse_endless(path)
    with path.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        if length > min(100_000_000, path.stat().st_size):
            raise Damage("it is cut off")
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


def _read(place: Location) -> Bytes:
    return np.fromfile(place.path, np.uint8, int(place.shape[0]), offset=place.offset)
