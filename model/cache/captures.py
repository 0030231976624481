"""Cache of captured graphs, so that a known model opens without torch.

A key consists of the source, its inputs, the seed and the versions of Espalier and its libraries. An entry lists the
files of the model and is valid only while they are unchanged. Entries are data only; nothing in them is executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from espalier.model.cache.entries import Entries, bound, enabled
from espalier.model.cache.files import FileState, FolderState, file_state, folder_state, is_same, is_same_folder
from espalier.model.cache.watching import PYTHON, Watched, libraries, listed_folders, read_files
from espalier.model.document.codec import decode, encode
from espalier.model.document.graph_json import graph_from_json, graph_to_json
from espalier.model.errors import ProjectError
from espalier.model.graph.check import Problem
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import TensorKey
from espalier.model.sources.info import SourceInfo, demo_folder
from espalier.model.store.open_files import FileId
from espalier.model.store.weights import Location, WeightStore, read_header
from espalier.model.trust import factory_file

LAYOUT = 2  # increment when the content of entries changes
_PACKAGES = ("torch", "transformers", "numpy", "safetensors")
_HUB = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME")
# Files of a transformers folder that determine the model: configuration, weights, tokenizer.
_MODEL = (".json", ".safetensors", ".bin", ".txt", ".model", ".jinja")
_NAME = "capture"


@dataclass(frozen=True, slots=True)
class Capture:
    """Facts of a capture: seconds by stage, dynamic sizes, fixed sizes.

    `cached_at`: time of capture in seconds since 1970, if it comes from the cache.
    """

    seconds: dict[str, float]
    dynamic: dict[str, tuple[str, ...]]
    fixed: tuple[str, ...]
    cached_at: float | None = None


@dataclass(frozen=True, slots=True)
class CachedCapture:
    """A captured source from the cache."""

    info: SourceInfo
    graph: Graph
    problems: tuple[Problem, ...]
    capture: Capture


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The files and folders that determine a model, besides its key."""

    files: tuple[FileState, ...] = ()
    folders: tuple[FolderState, ...] = ()

    def unchanged(self) -> bool:
        """Whether all files and folders are unchanged."""
        return all(map(is_same_folder, self.folders)) and all(map(is_same, self.files))


@dataclass(frozen=True, slots=True)
class _TensorLocation:
    """A tensor in a file of the source."""

    path: str
    offset: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Facts:
    """The typed part of an entry, stored with the graph."""

    info: SourceInfo
    depends: Dependencies
    problems: tuple[Problem, ...]
    seconds: dict[str, float]
    dynamic: dict[str, tuple[str, ...]]
    fixed: tuple[str, ...]
    when: float
    places: dict[str, _TensorLocation] = field(default_factory=dict)  # type: ignore[assignment]
    own: bool = False


def captures() -> Entries:
    """The cache of captured graphs."""
    return Entries("captures", bound())


# -- keys


def capture_key(spec: str, inputs: tuple[str, ...], seed: int) -> str:
    """The key of an entry, computed without reading the source."""
    path = spec if _is_named(spec) else str(Path(spec).expanduser().absolute())
    hub = {k: os.environ.get(k) for k in _HUB} if spec.startswith("hf:") else {}
    ours = str(demo_folder("")) if spec.startswith("demo:") else ""
    facts = [LAYOUT, path, list(inputs), seed, hub, ours, own_code(), platform.python_version(), *_versions()]
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=20).hexdigest()


def _is_named(spec: str) -> bool:
    head, colon, _ = spec.partition(":")
    return bool(colon) and head in ("demo", "hf", "config")


def _versions() -> list[str]:
    return [_version(name) for name in _PACKAGES]


@cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


@cache
def own_code() -> str:
    """A hash of all modules in `model/`, as changes may affect captured graphs."""
    digest = hashlib.blake2b(digest_size=16)
    root = Path(__file__).resolve().parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


# -- what a source depends on


def depends_on(spec: str, watched: Watched, before: int) -> Dependencies | None:
    """The dependencies of a source at time `before` (ns); None if they are unknown or changed since."""
    kind, _, name = spec.partition(":")
    if kind == "config":
        return Dependencies()
    if kind == "demo":
        return _folder(demo_folder(name), before)
    if kind == "hf":
        return _hub(name, before)
    if file := factory_file(spec):
        return _factory(file, watched, before)
    path = Path(spec).expanduser().resolve()
    return _folder(path, before) if path.is_dir() else _depends([path], before)


def _depends(
    paths: Iterable[Path], before: int, folders: Iterable[FolderState] = (), strict: Iterable[Path] = ()
) -> Dependencies | None:
    states = [file_state(p, before) for p in sorted(paths)] + [file_state(p, before, True) for p in sorted(strict)]
    files = [f for f in states if f is not None]
    return Dependencies(tuple(files), tuple(folders)) if len(files) == len(states) else None


def _folder(folder: Path, before: int) -> Dependencies | None:
    names = folder_state(folder, _MODEL)
    return _depends([folder / n for n in names.names], before, [names])


def _hub(name: str, before: int) -> Dependencies | None:
    """The revision in the hub's cache; newer revisions online are ignored."""
    from huggingface_hub import constants

    home = Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"
    pointer = home / "refs" / "main"
    if Path(name).exists() or not pointer.is_file():
        return None
    names = folder_state(home / "snapshots" / pointer.read_text().strip(), _MODEL)
    return _depends([pointer, *(Path(names.path) / n for n in names.names)], before, [names])


def _factory(file: Path, watched: Watched, before: int) -> Dependencies | None:
    if watched.unknown:
        return None
    folders = [folder_state(p, ("",)) for p in sorted(listed_folders(watched, file))]
    return _depends(read_files(watched, file), before, [*folders, folder_state(file.parent, PYTHON)], libraries())


# -- store and look up


def keep(
    key: str, depends: Dependencies, info: SourceInfo, graph: Graph, problems: tuple[Problem, ...], capture: Capture,
    store: WeightStore,
) -> bool:  # fmt: skip
    """Store a captured graph, with tensors that are in no file of the source. Returns whether it was stored."""
    keys = {w.key for w in graph.weights.values() if w.key}
    name = _tensor_file(store)
    try:
        store.flush(name.stem)
    except ProjectError:  # no space left
        return False
    locations = store.locate(keys)
    if len(locations) != len(keys):
        return False
    source_files = {f.path for f in depends.files}
    outside = {k: p for k, p in locations.items() if p.path != name}
    if not all(str(p.path) in source_files for p in outside.values()):
        return False
    own = len(outside) < len(locations)
    facts = _Facts(info, depends, problems, capture.seconds, capture.dynamic, capture.fixed, time.time(),
                   _tensor_locations(outside), own)  # fmt: skip
    return captures().write(key, {"facts": encode(facts), "graph": graph_to_json(graph)}, name if own else None)


def _tensor_locations(locations: dict[TensorKey, Location]) -> dict[str, _TensorLocation]:
    return {k: _TensorLocation(str(p.path), p.offset, p.dtype, p.shape) for k, p in locations.items()}


def _tensor_file(store: WeightStore) -> Path:
    """A unique file name, as stores may share a folder."""
    return store.folder / f"{_NAME}-{os.getpid()}-{time.monotonic_ns()}.safetensors"


def find(key: str, store: WeightStore) -> CachedCapture | None:
    """The entry of a key, with its tensors added to `store`; None if there is none or its files have changed."""
    if not enabled():
        return None
    data = captures().read(key)
    try:
        facts: _Facts = decode(_Facts, data["facts"])
        if not facts.depends.unchanged():
            return None
        graph = graph_from_json(data["graph"])
        paths = {t.path: Path(t.path) for t in facts.places.values()}
        ids = {name: FileId.of(path) for name, path in paths.items()}
        locations = {
            TensorKey(k): Location(paths[t.path], t.offset, t.dtype, t.shape, ids[t.path])
            for k, t in facts.places.items()
        }
        if facts.own:
            locations |= _own(key, store)
    # A damaged entry counts as missing.
    except Exception:  # noqa: BLE001
        return None
    if any(w.key and w.key not in locations for w in graph.weights.values()):
        return None
    store.add(locations)
    return CachedCapture(
        facts.info, graph, facts.problems, Capture(facts.seconds, facts.dynamic, facts.fixed, facts.when)
    )


def _own(key: str, store: WeightStore) -> dict[TensorKey, Location]:
    """Link the entry's tensors into the store's folder, so that they outlive the entry, and verify them."""
    path = _tensor_file(store)
    captures().borrow(key, path)
    locations = read_header(path)
    if not all(store.holds(k, location) for k, location in locations.items()):
        captures().remove(key)
        path.unlink(missing_ok=True)
        raise ValueError("the tensors differ from those that were stored")
    return locations
