"""Gradient statistics of one pass, from which the effect of any error at any port on the outputs is predicted.

The divergence is ½·E[(g·δ)²]: g is the gradient of a sample's log-likelihood under the model's own outputs, δ the
error. Needs numpy only.
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

VERSION = 5  # increment when the content of a file changes
KEEP = 16  # files; the oldest beyond it are removed
PART = "-part"  # suffix of files with fewer samples than requested
PASSES = 32  # backward passes, each over samples/PASSES samples; the number of gradients of each weight
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Rows:
    """Sampled rows of an activation, each with its gradient. `shares`: number of rows that each represents.

    `groups`: sample index of each row, of `samples`. `peak`: the row with the largest magnitude, for per-tensor scales.
    `through` "softmax": the gradient is with respect to the softmax of the rows.
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
    """Indices of an embedding's rows that were looked up, and the gradients of the results; see Rows."""

    ids: NDArray[np.int64]
    g: Floats
    shares: Floats
    groups: NDArray[np.int64]
    samples: int = 1
    kind: ClassVar[str] = "tokens"


@dataclass(frozen=True, slots=True)
class Vectors:
    """Full gradients of a small tensor: [passes, elements]."""

    g: Floats
    kind: ClassVar[str] = "vectors"


@dataclass(frozen=True, slots=True)
class LowRank:
    """Gradients of a weight in its format's view, [outputs, inputs]: the low-rank part of each pass, and the squares
    of the remainder as the product of row and column shares.

    left: [passes, outputs, rank]; right: [passes, rank, inputs]. `of`: number of all rows, if these are a sample.
    """

    left: Floats
    right: Floats
    rows: Floats
    columns: Floats
    of: int = 0
    kind: ClassVar[str] = "low"


Piece = Rows | Tokens | Vectors | LowRank
KINDS: dict[str, type[Any]] = {k.kind: k for k in (Rows, Tokens, Vectors, LowRank)}
_HALF_PRECISION = ("g", "left", "right")  # stored in 16 bits


@dataclass(frozen=True, slots=True)
class GradientStatistics:
    """All pieces by port (`FormatPort.key`: "node:port"), read from the file on access.

    `words`: description of the divergence. `samples`: number of samples; `reference`: the graph's fingerprint.
    """

    pieces: Mapping[str, tuple[Piece, ...]]
    words: str = ""
    samples: int = 0
    reference: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


def statistics_folder() -> Path:
    """Folder of the files."""
    return cache_folder().parent / "sensitivity"


def statistics_path(key: str) -> Path:
    """The file of a key."""
    return statistics_folder() / f"{key}.safetensors"


def key_of(*parts: Any) -> str:
    """A content hash of texts, numbers and arrays."""
    digest = hashlib.blake2b(str(VERSION).encode(), digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
        else:
            digest.update(json.dumps(part, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def save(evidence: GradientStatistics, path: Path) -> None:
    """Write a safetensors file atomically; raises ProjectError if the folder is not writable."""
    tensors: dict[str, Tensor] = {}
    index: dict[str, list[dict[str, Any]]] = {}
    for port, pieces in evidence.pieces.items():
        for number, piece in enumerate(pieces):
            name = f"{port}#{number}"
            facts: dict[str, Any] = {"kind": piece.kind}
            for part, value in asdict(piece).items():
                if isinstance(value, np.ndarray):
                    stored, scale = _stored(part, value)
                    tensors[f"{name}/{part}"] = Tensor(stored, str(stored.dtype))
                    facts[f"{part}_scale"] = scale
                else:
                    facts[part] = value
            index.setdefault(port, []).append(facts)
    metadata = {"words": evidence.words, "samples": evidence.samples, "reference": evidence.reference,
                "facts": dict(evidence.facts), "index": index}  # fmt: skip
    try:
        write_file(path, tensors, {"evidence": json.dumps(metadata)})
        for old in sorted(path.parent.glob("*.safetensors"), key=lambda p: p.stat().st_mtime, reverse=True)[KEEP:]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise ProjectError(f"The gradient statistics cannot be written to {path.parent} ({error.strerror}).",
                           "Free some space there.") from error  # fmt: skip


def write_file(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file atomically; raises ProjectError."""
    with explained(path, ProjectError):
        path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, ProjectError) as file:
        write(file, tensors, metadata)


def _stored(part: str, value: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """(array in its stored precision, scale)."""
    if part not in _HALF_PRECISION:
        return np.ascontiguousarray(value), 1.0
    scale = float(np.abs(value).max(initial=0.0)) or 1.0
    return (value / scale).astype(np.float16), scale


def load(path: Path) -> GradientStatistics:
    """Open a file of `save`, memory-mapped: pieces are read on access. Raises ProjectError."""
    complete = path.with_name(path.stem.removesuffix(PART) + path.suffix)
    if complete.exists():  # a worker may have completed the gradients and removed the partial file
        path = complete
    with reading(path, ProjectError, "holds no gradient statistics", "Run the sensitivity again."):
        facts = path.stat()
        statistics = _opened(path, facts.st_ino, facts.st_size)
        os.utime(path)
        return statistics


@lru_cache(2)
def _opened(path: Path, inode: int, size: int) -> GradientStatistics:
    """As `load`, cached: consecutive edits read the same file."""
    locations = read_header(path)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        metadata = parse_json(parse_json(file.read(length))["__metadata__"]["evidence"])
    pieces = _Pieces(path, locations, metadata["index"])
    return GradientStatistics(pieces, metadata["words"], metadata["samples"], metadata["reference"], metadata["facts"])


class _Pieces(Mapping[str, tuple[Piece, ...]]):
    """The pieces of a file, by port; the last few are cached."""

    def __init__(self, path: Path, locations: dict[str, Location], index: dict[str, list[dict[str, Any]]]) -> None:
        self._bytes = np.memmap(path, np.uint8, "r")
        self._locations, self._index = locations, index
        self._cache: dict[str, tuple[Piece, ...]] = {}

    def __getitem__(self, port: str) -> tuple[Piece, ...]:
        if port not in self._cache:
            facts = self._index[port]
            if len(self._cache) > 8:
                self._cache.pop(next(iter(self._cache)), None)  # another thread may have removed it
            self._cache[port] = tuple(self._piece(f"{port}#{i}", f) for i, f in enumerate(facts))
        return self._cache[port]

    def __iter__(self) -> Any:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, port: object) -> bool:
        return port in self._index

    def _piece(self, name: str, facts: dict[str, Any]) -> Piece:
        kind = KINDS[facts["kind"]]
        values: dict[str, Any] = {}
        for part in kind.__dataclass_fields__:
            if part == "kind":
                continue
            location = self._locations.get(f"{name}/{part}")
            values[part] = facts.get(part) if location is None else self._array(location, facts[f"{part}_scale"])
        return kind(**values)

    def _array(self, location: Location, scale: float) -> NDArray[Any]:
        dtype = np.dtype(location.dtype)
        count = int(np.prod(location.shape, dtype=np.int64))
        raw = self._bytes[location.offset : location.offset + count * dtype.itemsize]
        array = np.frombuffer(raw, dtype).reshape(location.shape)
        return array if dtype != np.float16 else array.astype(np.float32) * np.float32(scale)
