"""Content-addressed tensors over safetensors files, memory-mapped and read lazily with numpy alone.

A key is the xxh3-128 hash of dtype, shape and bytes. Files may lie inside an uncompressed zip (a project).
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from model.errors import ProjectError
from model.meta import TensorKey

Array = NDArray[Any]
Maps = dict[Path, mmap.mmap]

# safetensors' dtype names (huggingface/safetensors, README "Format") ↔ ours; numpy lacks bfloat16 and float8.
NAMES: dict[str, str] = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "C64": "complex64",
}  # fmt: skip
CODES: dict[str, str] = {v: k for k, v in NAMES.items()}
_CARRIER: dict[str, str] = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


@dataclass(frozen=True, slots=True)
class Tensor:
    """Values as numpy sees them; `dtype` is the true type where numpy has none (bfloat16 in uint16)."""

    array: Array
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return tuple(self.array.shape)

    @staticmethod
    def carrier(dtype: str) -> np.dtype[Any]:
        """numpy's type that carries a dtype."""
        return np.dtype(_CARRIER.get(dtype, dtype))

    def float32(self) -> NDArray[np.float32]:
        """The values as float32 (a copy unless they are float32 already)."""
        if self.dtype == "bfloat16":
            return (self.array.astype(np.uint32) << 16).view(np.float32)
        if self.dtype in _CARRIER:
            import torch

            return torch.from_numpy(np.array(self.array)).view(getattr(torch, self.dtype)).float().numpy()
        return np.asarray(self.array, dtype=np.float32)

    def key(self) -> TensorKey:
        """The content hash."""
        return tensor_key(self.array, self.dtype)


def _raw(array: Array) -> memoryview:
    """The bytes in C order, without a copy where they lie so."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def tensor_key(array: Array, dtype: str) -> TensorKey:
    """xxh3-128 of dtype, shape and the bytes in C order."""
    digest = xxhash.xxh3_128(f"{dtype}{tuple(array.shape)}".encode())
    digest.update(_raw(array))
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Location:
    """Where the bytes of a tensor lie."""

    path: Path
    offset: int
    dtype: str
    shape: tuple[int, ...]


def read_header(file: Path, start: int = 0) -> dict[str, Location]:
    """Tensor name → location in the safetensors data that begins at byte `start`; raises ProjectError."""
    try:
        with file.open("rb") as handle:
            handle.seek(start)
            length = int.from_bytes(handle.read(8), "little")
            if length > 100_000_000:
                raise ValueError("the header is too long")
            header: dict[str, Any] = json.loads(handle.read(length))
            size = os.fstat(handle.fileno()).st_size
        header.pop("__metadata__", None)
        return {k: _location(file, start + 8 + length, v, size) for k, v in header.items()}
    except (OSError, ValueError, LookupError, ArithmeticError, TypeError, AttributeError, RecursionError) as error:
        raise ProjectError(f"{file.name} holds no readable safetensors data ({error}).",
                           "Use a complete copy of the file.") from error  # fmt: skip


def _location(file: Path, data: int, entry: dict[str, Any], size: int) -> Location:
    begin, end = (int(n) for n in entry["data_offsets"])
    if not 0 <= begin <= end or data + end > size:
        raise ValueError("it is cut off")
    place = Location(file, data + begin, NAMES[entry["dtype"]], tuple(int(d) for d in entry["shape"]))
    if min(place.shape, default=0) < 0 or end - begin != _width(place.dtype) * math.prod(place.shape):
        raise ValueError("its sizes do not agree")
    return place


def _width(dtype: str) -> int:
    """Bytes of one element."""
    return np.dtype(_CARRIER.get(dtype, dtype)).itemsize


def _map(path: Path, maps: Maps) -> mmap.mmap:
    if path not in maps:
        try:
            with path.open("rb") as handle:
                maps[path] = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as error:
            raise ProjectError(f"The weights in {path.name} cannot be read ({error}).",
                               "Put the file back, or open the source again.") from error  # fmt: skip
    return maps[path]


class WeightStore:
    """All tensors that a document knows, by key. Nothing is read before it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._locations: dict[TensorKey, Location] = {}
        self._memory: dict[TensorKey, Tensor] = {}
        self._maps: Maps = {}
        self._sound: set[tuple[TensorKey, Location]] = set()

    def __contains__(self, key: object) -> bool:
        return key in self._locations or key in self._memory

    def add(self, locations: Mapping[TensorKey, Location]) -> None:
        """Learn where tensors lie."""
        self._locations.update(locations)

    def locate(self, keys: Iterable[TensorKey]) -> dict[TensorKey, Location]:
        """Locations of `keys`, for another process; tensors that are only in memory are left out."""
        return {k: self._locations[k] for k in keys if k in self._locations}

    def hold(self, tensor: Tensor) -> TensorKey:
        """Keep a tensor in memory and return its key; `flush` writes it."""
        key = tensor.key()
        if key not in self:
            self._memory[key] = tensor
        return key

    @contextmanager
    def borrowing(self, keys: Iterable[TensorKey], other: WeightStore) -> Generator[None]:
        """With these tensors of another store for a while; what is here stays."""
        lent = {k: other.get(k) for k in keys if k not in self}
        self._memory.update(lent)
        try:
            yield
        finally:
            for key in lent:
                self._memory.pop(key, None)

    def adopt(self, places: Iterable[Location]) -> None:
        """Map tensors that are in memory from files that hold the same values, found by content."""
        for place in places:
            key = self._read(place).key()
            if key in self._memory:
                del self._memory[key]
                self._locations[key] = place

    def get(self, key: TensorKey) -> Tensor:
        """The tensor, mapped, to be read only; raises ProjectError when it is nowhere."""
        return self._memory[key] if key in self._memory else self._read(self._place(key))

    def kind(self, key: TensorKey) -> tuple[str, tuple[int, ...]] | None:
        """Dtype and shape of a tensor, without reading it; None where there is none."""
        held = self._memory.get(key) or self._locations.get(key)
        return None if held is None else (held.dtype, held.shape)

    def reader(self) -> Callable[[TensorKey], Tensor]:
        """As `get`, for values that may be written: own mappings (copy on write), copies of what is in memory, and of
        what was given before: two weights of equal values are two.
        """
        maps: Maps = {}
        given: set[TensorKey] = set()

        def get(key: TensorKey) -> Tensor:
            held = self._memory.get(key)
            found = self._read(self._place(key), maps) if held is None else held
            if held is not None or key in given:
                return Tensor(found.array.copy(), found.dtype)
            given.add(key)
            return found

        return get

    def holds(self, key: TensorKey, place: Location) -> bool:
        """Whether the bytes at a place are those of a key; they are not read again for that."""
        if (key, place) not in self._sound and self._read(place).key() != key:
            return False
        self._sound.add((key, place))
        return True

    def _place(self, key: TensorKey) -> Location:
        """Where a tensor lies; its content is checked when it is first asked for."""
        if key not in self._locations:
            raise ProjectError("A tensor of the model is missing.", "Open the project's source again.")
        place = self._locations[key]
        if not self.holds(key, place):
            raise ProjectError(f"The weights in {place.path.name} are damaged.", "Open an older copy of it.")
        return place

    def _read(self, place: Location, maps: Maps | None = None) -> Tensor:
        carrier = np.dtype(_CARRIER.get(place.dtype, place.dtype))
        count = int(np.prod(place.shape, dtype=np.int64))
        if not count:
            return Tensor(np.zeros(place.shape, carrier), place.dtype)
        array = np.frombuffer(_map(place.path, self._maps if maps is None else maps), carrier, count, place.offset)
        return Tensor(array.reshape(place.shape), place.dtype)

    def flush(self, name: str) -> dict[TensorKey, Location]:
        """Write what is only in memory to `folder/name.safetensors`; returns the new locations."""
        if not self._memory:
            return {}
        path = self.folder / f"{name}.safetensors"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as handle:
                write(handle, self._memory)
        except OSError as error:
            raise ProjectError(f"The weights could not be kept in {self.folder} ({error.strerror}).",
                               "Free some space there.") from error  # fmt: skip
        found = read_header(path)
        self._locations.update(found)
        self._sound.update(found.items())  # written just now from values with these keys
        self._memory.clear()
        return found

    def places(self) -> dict[TensorKey, Location]:
        """Where all tensors lie that are in files."""
        return dict(self._locations)

    def detach(self, path: Path, kept: Container[TensorKey]) -> None:
        """Before `path` is replaced: take what only the old file holds into memory (undo may want it again)."""
        for key, place in self.places().items():
            if place.path == path and key not in kept:
                self._memory[key] = self._read(place)
                del self._locations[key]

    def forget_file(self, path: Path, moved: Mapping[TensorKey, Location]) -> None:
        """After `path` was replaced: what lay in it lies at its place in `moved` now."""
        self._maps.pop(path, None)
        self._sound = {s for s in self._sound if s[1].path != path} | set(moved.items())
        self._locations |= {k: p for k, p in moved.items() if k in self._locations and self._locations[k].path == path}


def header_of(
    tensors: Mapping[str, tuple[str, tuple[int, ...], int]], metadata: Mapping[str, str] | None = None
) -> bytes:
    """The JSON header of a safetensors file for name → (dtype, shape, bytes), unpadded."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": CODES[dtype], "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    return json.dumps(header, separators=(",", ":")).encode()


def chunks(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None, base: int = 0
) -> Iterator[memoryview]:
    """Safetensors data piece by piece; `base` is the file offset of its first byte, to align the data to 64."""
    # The widest elements first: so each tensor lies at a multiple of its element's size.
    ordered = dict(sorted(tensors.items(), key=lambda item: -_width(item[1].dtype)))
    sizes = {k: (t.dtype, t.shape, t.array.nbytes) for k, t in ordered.items()}
    header = header_of(sizes, metadata)
    header += b" " * (-(base + 8 + len(header)) % 64)
    yield memoryview(len(header).to_bytes(8, "little") + header)
    yield from _bytes_of(ordered.values())


def write(handle: IO[bytes], tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Stream a safetensors file."""
    for chunk in chunks(tensors, metadata):
        handle.write(chunk)


def _bytes_of(tensors: Iterable[Tensor]) -> Iterator[memoryview]:
    for tensor in tensors:
        if tensor.array.size:
            yield _raw(tensor.array)
