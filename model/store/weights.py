"""Content-addressed tensors over safetensors files, read on demand, with numpy alone.

A key is the xxh3-128 hash of dtype, shape and bytes. Files may lie inside an uncompressed zip (a project).
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from weakref import WeakValueDictionary

import numpy as np
import xxhash
from numpy.typing import NDArray

from espalier.model.borders import parse_json, reading
from espalier.model.errors import Damage, ProjectError
from espalier.model.graph.meta import TensorKey
from espalier.model.store.open_files import FileId, OpenFiles, Version

Array = NDArray[Any]
Kind = tuple[str, tuple[int, ...]]  # dtype and shape

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
    """A numpy array; `dtype` is the true type if numpy lacks it (bfloat16 in uint16)."""

    array: Array
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return tuple(self.array.shape)

    @property
    def kind(self) -> Kind:
        """Dtype and shape."""
        return self.dtype, self.shape

    @staticmethod
    def carrier(dtype: str) -> np.dtype[Any]:
        """The numpy dtype that stores a dtype."""
        return np.dtype(_CARRIER.get(dtype, dtype))

    def float32(self) -> NDArray[np.float32]:
        """The values as float32 (without a copy if they are float32)."""
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
    """The bytes in C order, without a copy if the array is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _digest(dtype: str, shape: tuple[int, ...]) -> xxhash.xxh3_128:
    return xxhash.xxh3_128(f"{dtype}{tuple(shape)}".encode())


def tensor_key(array: Array, dtype: str) -> TensorKey:
    """xxh3-128 of dtype, shape and the bytes in C order."""
    digest = _digest(dtype, array.shape)
    digest.update(_raw(array))
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Location:
    """The location of a tensor's bytes. `file`: identity of the file when it was read, if known."""

    path: Path
    offset: int
    dtype: str
    shape: tuple[int, ...]
    file: FileId | None = None

    @property
    def held(self) -> tuple[Path, FileId | None]:
        """The key of its file in OpenFiles."""
        return self.path, self.file

    @property
    def size(self) -> int:
        """Bytes."""
        return size_of((self.dtype, self.shape))


def read_header(file: Path, start: int = 0) -> dict[str, Location]:
    """Tensor name → location in the safetensors data that begins at byte `start`; raises ProjectError."""
    with reading(file, ProjectError, "holds no readable safetensors data", "Use a complete copy of the file."):
        with file.open("rb") as handle:
            handle.seek(start)
            length = int.from_bytes(handle.read(8), "little")
            facts = os.fstat(handle.fileno())
            if start + 8 + length > facts.st_size:
                raise Damage("it is cut off")
            header: dict[str, Any] = parse_json(handle.read(length))
        header.pop("__metadata__", None)
        return {k: _location(file, start + 8 + length, v, facts) for k, v in header.items()}


def _location(file: Path, data: int, entry: dict[str, Any], facts: os.stat_result) -> Location:
    begin, end = (int(n) for n in entry["data_offsets"])
    if not 0 <= begin <= end or data + end > facts.st_size:
        raise Damage("it is cut off")
    shape = tuple(int(d) for d in entry["shape"])
    place = Location(file, data + begin, NAMES[entry["dtype"]], shape, FileId.from_stat(facts))
    if min(place.shape, default=0) < 0 or end - begin != place.size:
        raise Damage("its sizes do not agree")
    return place


def _width(dtype: str) -> int:
    """Bytes of one element."""
    return np.dtype(_CARRIER.get(dtype, dtype)).itemsize


def size_of(kind: Kind) -> int:
    """Bytes of a tensor."""
    return _width(kind[0]) * math.prod(kind[1])


class WeightStore:
    """All tensors of a document by key, read on demand from files that are kept open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.RLock()  # a thread that sends jobs adds locations too
        self._locations: dict[TensorKey, Location] = {}
        self._memory: dict[TensorKey, Tensor] = {}
        self._files = OpenFiles()
        self._read_before: WeakValueDictionary[TensorKey, Array] = WeakValueDictionary()
        self._sound: dict[tuple[TensorKey, Location], Version] = {}  # whose bytes were checked

    def __contains__(self, key: object) -> bool:
        return key in self._locations or key in self._memory

    def add(self, locations: Mapping[TensorKey, Location]) -> None:
        """Register locations of tensors, and open their files."""
        with self._lock:
            self._files.hold({p.held for p in locations.values()})
            replaced = any(k in self._locations and self._locations[k].held != p.held for k, p in locations.items())
            self._locations.update(locations)
            if replaced:
                self._files.let_go({p.held for p in self._locations.values()})

    def add_new(self, locations: Mapping[TensorKey, Location]) -> None:
        """As `add`, for the tensors that are not known yet.

        A job's result also names what the job was sent with; a save may have moved that since.
        """
        self.add({key: place for key, place in locations.items() if key not in self})

    def locate(self, keys: Iterable[TensorKey]) -> dict[TensorKey, Location]:
        """Locations of `keys`, for another process, without tensors that are only in memory."""
        return {k: self._locations[k] for k in keys if k in self._locations}

    def hold(self, tensor: Tensor) -> TensorKey:
        """Keep a tensor in memory and return its key; `flush` writes it."""
        key = tensor.key()
        if key not in self:
            self._memory[key] = tensor
        return key

    def enrol(self, place: Location) -> TensorKey:
        """Register a tensor of a file by its content, without holding it in memory; returns its key."""
        self._files.hold({place.held})
        version = self._files.get(*place.held).version
        key = self._key_at(place)
        if key not in self:
            self.add({key: place})
            self._sound[key, place] = version
        return key

    @contextmanager
    def borrowing(self, keys: Iterable[TensorKey], other: WeightStore) -> Generator[None]:
        """Make these tensors of another store readable inside the block."""
        lent = {k: other.get(k) for k in keys if k not in self}
        self._memory.update(lent)
        try:
            yield
        finally:
            for key in lent:
                self._memory.pop(key, None)

    def adopt(self, places: Iterable[Location]) -> None:
        """Release tensors in memory that files contain too, by content."""
        for place in places:
            key = self._read(place).key()
            if key in self._memory:
                del self._memory[key]
                self.add({key: place})

    def get(self, key: TensorKey) -> Tensor:
        """The tensor, read-only and shared while referenced; raises ProjectError if it is missing."""
        if key in self._memory:
            return self._memory[key]
        place, before = self._place(key), self._read_before.get(key)
        if before is not None and self._is_sound(key, place):
            return Tensor(before, place.dtype)
        found = self._found(key)
        self._read_before[key] = found.array
        return found

    def kind(self, key: TensorKey) -> Kind | None:
        """Dtype and shape of a tensor, without reading it; None if it is missing."""
        held = self._memory.get(key) or self._locations.get(key)
        return None if held is None else (held.dtype, held.shape)

    def reader(self) -> Callable[[TensorKey], Tensor]:
        """As `get`, with writable values: each call returns a new copy."""

        def get(key: TensorKey) -> Tensor:
            held = self._memory.get(key)
            if held is not None:
                return Tensor(held.array.copy(), held.dtype)
            return self._found(key)

        return get

    def holds(self, key: TensorKey, place: Location) -> bool:
        """Whether the bytes at a place are those of a key; those of a version are read once for that."""
        if self._is_sound(key, place):
            return True
        version = self._files.get(*place.held).version
        if self._key_at(place) != key:
            return False
        self._sound[key, place] = version
        return True

    def _key_at(self, place: Location) -> TensorKey:
        """The content hash of what lies there, without holding it all in memory."""
        digest = _digest(place.dtype, place.shape)
        for piece in self._files.get(*place.held).pieces(place.offset, place.size):
            digest.update(piece)
        return digest.hexdigest()

    def _is_sound(self, key: TensorKey, place: Location) -> bool:
        """Whether the bytes at a place are known to be those of a key; not when the file was written since."""
        known = self._sound.get((key, place))
        return known is not None and known == self._files.get(*place.held).version

    def _place(self, key: TensorKey) -> Location:
        """The location of a tensor."""
        if key not in self._locations:
            raise ProjectError("A tensor of the model is missing.", "Open the project's source again.")
        return self._locations[key]

    def _found(self, key: TensorKey) -> Tensor:
        """The tensor where it lies; there again where that was changed meanwhile, as the project was saved."""
        place = self._place(key)
        try:
            return self._checked(key, place)
        except ProjectError:
            if (now := self._place(key)) == place:
                raise
            return self._checked(key, now)

    def _checked(self, key: TensorKey, place: Location) -> Tensor:
        """The tensor at a place, its content checked when this version of the file is first read."""
        known = self._is_sound(key, place)
        version = self._files.get(*place.held).version
        found = self._read(place)
        if not known:
            if found.key() != key:
                message = f"The weights in {place.path.name} are damaged, or were changed by another program."
                raise ProjectError(message, "Open an older copy of it.")
            self._sound[key, place] = version
        return found

    def _read(self, place: Location) -> Tensor:
        carrier = np.dtype(_CARRIER.get(place.dtype, place.dtype))
        if not place.size:
            return Tensor(np.zeros(place.shape, carrier), place.dtype)
        array = self._files.get(*place.held).read(place.offset, place.size).view(carrier)
        return Tensor(array.reshape(place.shape), place.dtype)

    def flush(self, name: str) -> dict[TensorKey, Location]:
        """Write tensors that are only in memory to `folder/name.safetensors`; returns the new locations."""
        if not self._memory:
            return {}
        written = dict(self._memory)
        found = self._write(name, {k: t.kind for k, t in written.items()}, written.__getitem__)
        for key in written:
            self._memory.pop(key, None)
        return found

    def _write(
        self, name: str, kinds: Mapping[TensorKey, Kind], get: Callable[[TensorKey], Tensor]
    ) -> dict[TensorKey, Location]:
        """Write tensors of these very keys to a file in the folder, one at a time, and read them there from now on."""
        path = self.folder / f"{name}.safetensors"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as handle:
                for chunk in chunks(kinds, get):
                    handle.write(chunk)
        except OSError as error:
            raise ProjectError(f"The weights could not be kept in {self.folder} ({error.strerror}).",
                               "Free some space there.") from error  # fmt: skip
        return self._know(read_header(path))

    def _know(self, found: dict[TensorKey, Location]) -> dict[TensorKey, Location]:
        """Take in places that were written just now from values with these keys."""
        self.add(found)
        for key, place in found.items():
            self._sound[key, place] = self._files.get(*place.held).version
        return found

    def places(self) -> dict[TensorKey, Location]:
        """The locations of all tensors in files."""
        return dict(self._locations)

    def close(self) -> None:
        """Close all files, when the document is closed; a later read opens its file again."""
        self._files.let_go(())

    def view(self) -> WeightStore:
        """An independent store with the same tensors and files, for another thread."""
        other = WeightStore(self.folder)
        other._locations, other._memory, other._sound = dict(self._locations), dict(self._memory), dict(self._sound)
        other._files.also(self._files)
        return other

    def elsewhere(self, keys: Iterable[TensorKey], name: str) -> dict[TensorKey, Location]:
        """As `locate`, for a process that has not opened the files yet.

        What lies in a file whose path names another file by now is written to `folder/name.safetensors` first.
        """
        places = self.locate(keys)
        now = {path: FileId.of(path) for path in {p.path for p in places.values()}}
        gone = {k: p for k, p in places.items() if p.file and now[p.path] != p.file and self.holds(k, p)}
        if not gone:
            return places
        kinds = {k: (p.dtype, p.shape) for k, p in gone.items()}
        return places | self._write(name, kinds, lambda key: self._read(gone[key]))

    def moved(self, path: Path, places: Mapping[TensorKey, Location], by: WeightStore | None = None) -> None:
        """After `path` was replaced with a file of ours: what lay in it lies at its place in `places` now.

        `by`: the view that wrote it, and holds it. Where another program has replaced it since, and nobody holds it,
        all is read where it was.
        """
        if by is not None:
            self._files.also(by._files)
        with self._lock:
            there = {k for k, p in self._locations.items() if p.path == path}
        self._know({k: p for k, p in places.items() if k in there and self._files.has(*p.held)})


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
    kinds: Mapping[str, Kind],
    get: Callable[[str], Tensor],
    metadata: Mapping[str, str] | None = None,
    base: int = 0,
) -> Iterator[memoryview]:
    """Safetensors data in pieces, with each tensor read when it is written.

    `base` is the file offset of its first byte, to align the data to 64.
    """
    # The widest elements first, so that each tensor is aligned to its element size.
    ordered = dict(sorted(kinds.items(), key=lambda item: -_width(item[1][0])))
    sizes = {k: (*kind, size_of(kind)) for k, kind in ordered.items()}
    header = header_of(sizes, metadata)
    header += b" " * (-(base + 8 + len(header)) % 64)
    yield memoryview(len(header).to_bytes(8, "little") + header)
    for name, (_, _, size) in sizes.items():
        if size:
            yield _raw(get(name).array)


def write(handle: IO[bytes], tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Stream a safetensors file."""
    for chunk in chunks({k: t.kind for k, t in tensors.items()}, tensors.__getitem__, metadata):
        handle.write(chunk)
