"""Captured graphs by content: a model that was seen before is there again without torch.

A key is made of the source, its inputs, the seed, and the versions of what captures; an entry also tells the files
that the model is made of, and holds only while these are the same. It is data alone: nothing of it is ever run.
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

LAYOUT = 1  # raise it when an entry says something else
_PACKAGES = ("torch", "transformers", "numpy", "safetensors")
_HUB = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME")
# What of a folder of transformers can change the model: its configuration, its weights, what splits its texts.
_MODEL = (".json", ".safetensors", ".bin", ".txt", ".model", ".jinja")
_NAME = "capture"


@dataclass(frozen=True, slots=True)
class Capture:
    """What a capture told besides its graph: seconds by stage, sizes that stay free, those that are fixed.

    `kept`: when it was made, in seconds since 1970, where it comes from the cache.
    """

    seconds: dict[str, float]
    dynamic: dict[str, tuple[str, ...]]
    fixed: tuple[str, ...]
    kept: float | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """A source as it was captured before."""

    info: SourceInfo
    graph: Graph
    problems: tuple[Problem, ...]
    capture: Capture


@dataclass(frozen=True, slots=True)
class Depends:
    """What a model is made of besides its key."""

    files: tuple[FileState, ...] = ()
    folders: tuple[FolderState, ...] = ()

    def hold(self) -> bool:
        """Whether all is as it was."""
        return all(map(is_same_folder, self.folders)) and all(map(is_same, self.files))


@dataclass(frozen=True, slots=True)
class _Place:
    """A tensor in a file of the source."""

    path: str
    offset: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Facts:
    """The typed part of an entry; the graph stands beside it."""

    info: SourceInfo
    depends: Depends
    problems: tuple[Problem, ...]
    seconds: dict[str, float]
    dynamic: dict[str, tuple[str, ...]]
    fixed: tuple[str, ...]
    when: float
    places: dict[str, _Place] = field(default_factory=dict)  # type: ignore[assignment]
    own: bool = False


def captures() -> Entries:
    """The cache of captured graphs."""
    return Entries("captures", bound())


# -- keys


def capture_key(spec: str, inputs: tuple[str, ...], seed: int) -> str:
    """The name of an entry: what is known before anything of the source is read."""
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
    """A hash of all of `model/`: another capture may give another graph."""
    digest = hashlib.blake2b(digest_size=16)
    root = Path(__file__).resolve().parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


# -- what a source depends on


def depends_on(spec: str, watched: Watched, before: int) -> Depends | None:
    """The files that a source was made of, as they were `before` (ns); None where that cannot be told."""
    kind, _, name = spec.partition(":")
    if kind == "config":
        return Depends()
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
) -> Depends | None:
    found = [file_state(p, before) for p in sorted(paths)] + [file_state(p, before, True) for p in sorted(strict)]
    files = [f for f in found if f is not None]
    return Depends(tuple(files), tuple(folders)) if len(files) == len(found) else None


def _folder(folder: Path, before: int) -> Depends | None:
    names = folder_state(folder, _MODEL)
    return _depends([folder / n for n in names.names], before, [names])


def _hub(name: str, before: int) -> Depends | None:
    """The revision that the hub's cache holds; a newer one online is not asked for."""
    from huggingface_hub import constants

    home = Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"
    pointer = home / "refs" / "main"
    if Path(name).exists() or not pointer.is_file():
        return None
    names = folder_state(home / "snapshots" / pointer.read_text().strip(), _MODEL)
    return _depends([pointer, *(Path(names.path) / n for n in names.names)], before, [names])


def _factory(file: Path, watched: Watched, before: int) -> Depends | None:
    if watched.unknown:
        return None
    folders = [folder_state(p, ("",)) for p in sorted(listed_folders(watched, file))]
    return _depends(read_files(watched, file), before, [*folders, folder_state(file.parent, PYTHON)], libraries())


# -- keep and find


def keep(
    key: str, depends: Depends, info: SourceInfo, graph: Graph, problems: tuple[Problem, ...], capture: Capture,
    store: WeightStore,
) -> bool:  # fmt: skip
    """Keep a captured graph; tensors that lie in no file of the source are kept with it. False where it is not kept."""
    keys = {w.key for w in graph.weights.values() if w.key}
    name = _tensor_file(store)
    try:
        store.flush(name.stem)
    except ProjectError:  # no room
        return False
    places = store.locate(keys)
    if len(places) != len(keys):
        return False
    known = {f.path for f in depends.files}
    outside = {k: p for k, p in places.items() if p.path != name}
    if not all(str(p.path) in known for p in outside.values()):
        return False
    own = len(outside) < len(places)
    facts = _Facts(info, depends, problems, capture.seconds, capture.dynamic, capture.fixed, time.time(),
                   {k: _Place(str(p.path), p.offset, p.dtype, p.shape) for k, p in outside.items()}, own)  # fmt: skip
    return captures().write(key, {"facts": encode(facts), "graph": graph_to_json(graph)}, name if own else None)


def _tensor_file(store: WeightStore) -> Path:
    """A file that is nobody else's: a store may lie where others do."""
    return store.folder / f"{_NAME}-{os.getpid()}-{time.monotonic_ns()}.safetensors"


def find(key: str, store: WeightStore) -> Kept | None:
    """What was kept under a key, with its tensors made known to `store`; None where anything of it is not as it was."""
    if not enabled():
        return None
    data = captures().read(key)
    try:
        facts: _Facts = decode(_Facts, data["facts"])
        if not facts.depends.hold():
            return None
        graph = graph_from_json(data["graph"])
        paths = {p.path: Path(p.path) for p in facts.places.values()}
        ids = {name: FileId.of(path) for name, path in paths.items()}
        known = {
            TensorKey(k): Location(paths[p.path], p.offset, p.dtype, p.shape, ids[p.path])
            for k, p in facts.places.items()
        }
        if facts.own:
            known |= _own(key, store)
    # An entry that cannot be read is as good as none.
    except Exception:  # noqa: BLE001
        return None
    if any(w.key and w.key not in known for w in graph.weights.values()):
        return None
    store.add(known)
    return Kept(facts.info, graph, facts.problems, Capture(facts.seconds, facts.dynamic, facts.fixed, facts.when))


def _own(key: str, store: WeightStore) -> dict[TensorKey, Location]:
    """The entry's own tensors, under a name in the store's folder that stays when the entry goes; read to the end."""
    path = _tensor_file(store)
    captures().borrow(key, path)
    known = read_header(path)
    if not all(store.holds(k, place) for k, place in known.items()):
        captures().remove(key)
        path.unlink(missing_ok=True)
        raise ValueError("the tensors are not those that were kept")
    return known
