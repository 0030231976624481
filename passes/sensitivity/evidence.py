"""What one pass with gradients keeps: enough to predict what any error at any port does to the outputs. numpy alone.

A divergence is ½·E[(g·δ)²], g the gradient of a sample's log-likelihood under the model's own outputs, δ the error.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from espalier.model.borders import parse_json, reading
from espalier.model.data.cache import cache_folder
from espalier.model.errors import ProjectError
from espalier.model.files import explained, replacing
from espalier.model.store.weights import Location, Tensor, read_header, write

VERSION = 5  # raise it when the same key would hold something else
KEEP = 16  # files; the oldest beyond it are removed
PART = "-part"  # ends the name of what holds fewer samples than were asked for
PASSES = 32  # backward passes, each over samples/PASSES samples: so many gradients are known of each weight
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Rows:
    """A sample of rows of what flows, each with its gradient. `shares`: how many rows of the data each stands for.

    `groups`: the number of each row's sample, of `samples`. `peak`: the row with the largest magnitude, for scales of
    whole tensors. `through` "softmax": the gradient is that of the softmax of the rows.
    """

    x: Floats
    g: Floats
    shares: Floats
    groups: NDArray[np.int64]
    peak: Floats
    samples: int = 1
    through: str = ""
    kind: ClassVar[str] = "rows"


@dataclass(frozen=True, slots=True)
class Tokens:
    """Rows of an embedding's weight that were looked up, by number, and the gradients of what they gave; see Rows."""

    ids: NDArray[np.int64]
    g: Floats
    shares: Floats
    groups: NDArray[np.int64]
    samples: int = 1
    kind: ClassVar[str] = "tokens"


@dataclass(frozen=True, slots=True)
class Vectors:
    """Whole gradients of a small tensor: [passes, elements]."""

    g: Floats
    kind: ClassVar[str] = "vectors"


@dataclass(frozen=True, slots=True)
class Low:
    """Gradients of a weight as its format sees it, [outputs, inputs]: of each pass the part of low rank, and of what is
    left the squares, as the product of a row's and a column's share.

    left: [passes, outputs, rank]; right: [passes, rank, inputs]. `of`: of a sample of rows, how many there are in all.
    """

    left: Floats
    right: Floats
    rows: Floats
    columns: Floats
    of: int = 0
    kind: ClassVar[str] = "low"


Piece = Rows | Tokens | Vectors | Low
KINDS: dict[str, type[Any]] = {k.kind: k for k in (Rows, Tokens, Vectors, Low)}
_ROUGH = ("g", "left", "right")  # kept in 16 bits


@dataclass(frozen=True, slots=True)
class Evidence:
    """All pieces by place (`Place.key`: "node:port"); read from the file as they are asked for.

    `words`: what the divergence is. `samples`: how many it was collected on; `reference`: the graph's fingerprint.
    """

    pieces: Mapping[str, tuple[Piece, ...]]
    words: str = ""
    samples: int = 0
    reference: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


def evidence_folder() -> Path:
    """Where evidence is kept."""
    return cache_folder().parent / "sensitivity"


def evidence_path(key: str) -> Path:
    """The file of a key."""
    return evidence_folder() / f"{key}.safetensors"


def key_of(*parts: Any) -> str:
    """A content key: of texts, numbers and arrays."""
    digest = hashlib.blake2b(str(VERSION).encode(), digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
        else:
            digest.update(json.dumps(part, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def save(evidence: Evidence, path: Path) -> None:
    """Write it as safetensors, whole or not at all; raises ProjectError where the place cannot be written."""
    tensors: dict[str, Tensor] = {}
    index: dict[str, list[dict[str, Any]]] = {}
    for place, pieces in evidence.pieces.items():
        for number, piece in enumerate(pieces):
            name = f"{place}#{number}"
            facts: dict[str, Any] = {"kind": piece.kind}
            for part, value in asdict(piece).items():
                if isinstance(value, np.ndarray):
                    stored, scale = _stored(part, value)
                    tensors[f"{name}/{part}"] = Tensor(stored, str(stored.dtype))
                    facts[f"{part}_scale"] = scale
                else:
                    facts[part] = value
            index.setdefault(place, []).append(facts)
    told = {"words": evidence.words, "samples": evidence.samples, "reference": evidence.reference,
            "facts": dict(evidence.facts), "index": index}  # fmt: skip
    try:
        write_whole(path, tensors, {"evidence": json.dumps(told)})
        for old in sorted(path.parent.glob("*.safetensors"), key=lambda p: p.stat().st_mtime, reverse=True)[KEEP:]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise ProjectError(f"The gradient statistics could not be kept in {path.parent} ({error.strerror}).",
                           "Free some space there.") from error  # fmt: skip


def write_whole(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """A safetensors file, whole or not at all; raises ProjectError."""
    with explained(path, ProjectError):
        path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, ProjectError) as file:
        write(file, tensors, metadata)


def _stored(part: str, value: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """Gradients in 16 bits, beside the largest of them."""
    if part not in _ROUGH:
        return np.ascontiguousarray(value), 1.0
    scale = float(np.abs(value).max(initial=0.0)) or 1.0
    return (value / scale).astype(np.float16), scale


def load(path: Path) -> Evidence:
    """What `save` wrote, mapped: pieces are read when they are asked for. Raises ProjectError."""
    whole = path.with_name(path.stem.removesuffix(PART) + path.suffix)
    if whole.exists():  # a worker may have finished the gradients since, and removed the part
        path = whole
    with reading(path, ProjectError, "holds no gradient statistics", "Run the sensitivity again."):
        facts = path.stat()
        found = _opened(path, facts.st_ino, facts.st_size)
        os.utime(path)
        return found


@lru_cache(2)
def _opened(path: Path, inode: int, size: int) -> Evidence:
    """As `load`; an edit after an edit asks the same file."""
    places = read_header(path)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        told = parse_json(parse_json(file.read(length))["__metadata__"]["evidence"])
    pieces = _Pieces(path, places, told["index"])
    return Evidence(pieces, told["words"], told["samples"], told["reference"], told["facts"])


class _Pieces(Mapping[str, tuple[Piece, ...]]):
    """The pieces in a file; the last few that were asked for stay."""

    def __init__(self, path: Path, places: dict[str, Location], index: dict[str, list[dict[str, Any]]]) -> None:
        self._bytes = np.memmap(path, np.uint8, "r")
        self._places, self._index = places, index
        self._known: dict[str, tuple[Piece, ...]] = {}

    def __getitem__(self, place: str) -> tuple[Piece, ...]:
        if place not in self._known:
            facts = self._index[place]
            if len(self._known) > 8:
                self._known.pop(next(iter(self._known)), None)  # another thread may have asked too
            self._known[place] = tuple(self._piece(f"{place}#{i}", f) for i, f in enumerate(facts))
        return self._known[place]

    def __iter__(self) -> Any:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, place: object) -> bool:
        return place in self._index

    def _piece(self, name: str, facts: dict[str, Any]) -> Piece:
        kind = KINDS[facts["kind"]]
        values: dict[str, Any] = {}
        for part in kind.__dataclass_fields__:
            if part == "kind":
                continue
            place = self._places.get(f"{name}/{part}")
            values[part] = facts.get(part) if place is None else self._array(place, facts[f"{part}_scale"])
        return kind(**values)

    def _array(self, place: Location, scale: float) -> NDArray[Any]:
        dtype = np.dtype(place.dtype)
        count = int(np.prod(place.shape, dtype=np.int64))
        raw = self._bytes[place.offset : place.offset + count * dtype.itemsize]
        found = np.frombuffer(raw, dtype).reshape(place.shape)
        return found if dtype != np.float16 else found.astype(np.float32) * np.float32(scale)
