"""Transfers a model, and the data and tokenizer that its trials read, to workers through the files beside the storage.
Workers cache them by content, and do not fetch what exists at the same path.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from espalier.model.data.cache import TOKENIZER_FILES, cache_folder
from espalier.model.data.recent import files_of_data
from espalier.model.document.codec import decode, encode
from espalier.model.document.graph_json import fingerprint
from espalier.model.document.project import Project, keys_of, save_project
from espalier.model.document.recipe import Recipe
from espalier.model.errors import DataError, StorageError
from espalier.model.files import replacing_folder
from espalier.model.leftovers import scratch
from espalier.model.opening import Opened, is_project, needs_source, open_any
from espalier.model.store.weights import WeightStore
from espalier.model.trust import Origin
from espalier.passes.search.fleet.files import Files, digest_of, files_of, is_digest, keep, pieces

if TYPE_CHECKING:
    from optuna.study import Study

PROJECT = "project"  # attribute of a study
LIMIT = int(os.environ.get("ESPALIER_HAND_OVER", 4 << 30))  # bytes that are transferred; larger models need a path
UNPACKED = 4 * LIMIT  # bytes that transferred data may unpack to
_EPOCH = (2020, 1, 1, 0, 0, 0)  # the date of all zip members, so that equal files give equal zips


@dataclass(frozen=True, slots=True)
class SharedModel:
    """The model of a study. `model`: fingerprint of its graph; `path`: its project file, if it has one; `size`: bytes.

    `digest`: of the project in the storage's files, empty if it is too large. `beside`: path that trials read → digest
    of a zip of its contents.
    """

    model: str
    source: str
    path: str = ""
    digest: str = ""
    size: int = 0
    beside: dict[str, str] | None = None


def shared_model(study: Study) -> SharedModel | None:
    """The model that a study names; None if it names none. Raises StorageError for an invalid digest."""
    stored = study.user_attrs.get(PROJECT)
    shared = decode(SharedModel, stored) if isinstance(stored, Mapping) else None
    digests = [] if shared is None else [*filter(None, [shared.digest]), *(shared.beside or {}).values()]
    invalid = next((d for d in digests if not is_digest(d)), None)
    if invalid is not None:  # it would become the name of a file
        raise StorageError(f"The study {study.study_name!r} names a file by an invalid digest: {invalid[:80]!r}.",
                           "Give the worker the project with --project P.espalier.")  # fmt: skip
    return shared


# -- sending


def hand_over(
    study: Study,
    url: str,
    project: Project,
    store: WeightStore,
    path: str = "",
    plain: Iterable[Any] = (),
    may: Callable[[str], bool] = lambda _: False,
) -> SharedModel:
    """Store the model and its data beside the storage, unless they exist; `plain`: JSON that names the data's paths.

    `may`: whether the contents of a path may leave this machine; JSON and project may come from others.
    """
    files, shared = files_of(url), shared_model(study)
    if shared is not None and shared.digest and files.has(shared.digest):
        return shared
    lean = Project(project.source, project.base, Recipe(), project.base)
    size = sum(p.path.exists() and _bytes(p) for p in store.locate(keys_of(lean.base)).values())
    file = str(Path(path).resolve()) if path else ""
    shared = SharedModel(fingerprint(lean.base), project.source.spec, file, "", size)
    with scratch() as folder:
        if size <= LIMIT:
            shared = replace(shared, digest=_put(files, _saved(lean, store, folder)))
        paths = sorted(p for p in paths_read_by(project, plain) if may(p))
        zips = {p: _zipped(Path(p), folder / f"{i}.zip", may) for i, p in enumerate(paths)}
        beside = {p: _put(files, z) for p, z in zips.items() if z.stat().st_size <= LIMIT}
    shared = replace(shared, beside=beside)
    study.set_user_attr(PROJECT, encode(shared))
    return shared


def _bytes(location: Any) -> int:
    import math

    import numpy as np

    from espalier.model.store.weights import Tensor

    return math.prod(location.shape) * np.dtype(Tensor.carrier(location.dtype)).itemsize


def _saved(project: Project, store: WeightStore, folder: Path) -> Path:
    path = folder / "project.espalier"
    copy = WeightStore(folder)  # saving moves the tensors of a store into the file
    keys = keys_of(project.base)
    copy.add(store.locate(keys))
    for key in keys:
        if key not in copy:
            copy.hold(store.get(key))
    save_project(project, copy, path, everything=not project.source.spec.startswith("demo:"))
    return path


def _put(files: Files, path: Path) -> str:
    digest = digest_of(path)
    if not files.has(digest):
        files.put(digest, pieces(path))
    return digest


def paths_read_by(project: Project, plain: Iterable[Any]) -> set[str]:
    """The local files and folders that trials read besides the model."""
    tokenizer = project.source.tokenizer or ""
    return {*local_paths(plain), *([tokenizer] if tokenizer and Path(tokenizer).is_dir() else [])}


def local_paths(plain: Iterable[Any]) -> set[str]:
    """The existing files and folders that the options `data` and `tokenizer` name."""
    return {v for p in plain for k, v in _texts(p) if k in ("data", "tokenizer") and v and Path(v).exists()}


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    match value:
        case str():
            yield key, value
        case Mapping():
            for k, v in cast("Mapping[str, Any]", value).items():
                yield from _texts(v, k)
        case list():
            for v in cast("list[Any]", value):
                yield from _texts(v, key)
        case _:
            return


def _zipped(path: Path, target: Path, may: Callable[[str], bool]) -> Path:
    """A zip of the files of a data set or a tokenizer that `may` allows; equal contents give equal bytes."""
    try:
        paths = files_of_data(str(path))
    except DataError:
        paths = [p for p in path.iterdir() if p.name.startswith((*TOKENIZER_FILES, "config"))]
    root = path if path.is_dir() else path.parent
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in sorted(f for f in paths if may(str(f))):  # a link may lead elsewhere
            info = zipfile.ZipInfo(file.relative_to(root).as_posix(), _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, file.read_bytes())
    return target


# -- receiving


@dataclass(frozen=True, slots=True)
class Received:
    """A model on a worker; `moved`: path in the study → local path; `fetched`: bytes."""

    opened: Opened
    moved: dict[str, str]
    fetched: int = 0


def receive(
    study: Study, url: str, workdir: Path, spec: str | None = None, tell: Callable[[str], None] = lambda _: None
) -> Received:
    """Open the model of a study: from `spec`, from the project's own path, or from the storage's copy.

    Raises StorageError if it is missing, another model, or needs its own code.
    """
    shared = shared_model(study)
    if shared is None and not spec:
        raise StorageError(f"The study {study.study_name!r} does not name its model.",
                           "Give it with --project P.espalier.")  # fmt: skip
    if shared is None:
        shared = SharedModel("", spec or "")
    moved, fetched = _moved(shared, url)
    opened = _open(spec, workdir, Origin.TYPED) if spec else None
    if opened is None and shared.path and Path(shared.path).is_file():
        opened = _if_unchanged(_open(shared.path, workdir / "path"), shared)
    if opened is None:
        path = _fetch(shared, url, tell)
        fetched += path.stat().st_size
        opened = _open(str(path), workdir / "handed")
    if shared.model and fingerprint(opened.project.base) != shared.model:
        raise StorageError(f"{spec} is not the model of the study {study.study_name!r}.",
                           f"Give the worker {shared.path or shared.source}.")  # fmt: skip
    _refuse_code(opened, spec)
    tokenizer = opened.project.source.tokenizer
    if tokenizer in moved:
        opened.project = replace(opened.project, source=replace(opened.project.source, tokenizer=moved[tokenizer]))
    return Received(opened, moved, fetched)


def _open(spec: str, workdir: Path, origin: Origin = Origin.FILE) -> Opened:
    workdir.mkdir(parents=True, exist_ok=True)
    return open_any(spec, workdir, origin=origin)


def _if_unchanged(opened: Opened, shared: SharedModel) -> Opened | None:
    """The project at the path, unless it has changed since."""
    return opened if fingerprint(opened.project.base) == shared.model else None


def _refuse_code(opened: Opened, spec: str | None) -> None:
    if needs_source(opened.project.base) and (spec is None or is_project(spec)) and not opened.callables:
        source = opened.project.source.spec
        raise StorageError(f"This model runs only with its own code ({source}), which is not transferred.",
                           f"Give the worker the source itself: --project {source}.")  # fmt: skip


def _fetch(shared: SharedModel, url: str, tell: Callable[[str], None]) -> Path:
    if not shared.digest:
        raise StorageError(f"The model ({shared.size / 1e9:.1f} GB) is too large to transfer.",
                           f"Give the worker its project or source: --project {shared.path or shared.source}."
                           )  # fmt: skip
    folder = _cache()
    if not (folder / f"{shared.digest}.espalier").exists():
        tell(f"fetching the model ({shared.size / 1e6:.1f} MB)")
    return _cached(folder, shared.digest, files_of(url), ".espalier")


def _cache() -> Path:
    return cache_folder().parent / "projects"


def _cached(folder: Path, digest: str, files: Files, ending: str) -> Path:
    """The path of a file in the cache; one of several workers that begin together fetches it."""
    from filelock import FileLock

    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{digest}{ending}"
    with FileLock(f"{target}.lock"):
        if not target.exists() or digest_of(target) != digest:
            target.unlink(missing_ok=True)
            keep(folder, digest, files.get(digest), target.name)
    os.utime(target)
    return target


def _moved(shared: SharedModel, url: str) -> tuple[dict[str, str], int]:
    """(path in the study → local path of data unpacked from the storage, bytes fetched)."""
    moved: dict[str, str] = {}
    fetched = 0
    for path, digest in (shared.beside or {}).items():
        if Path(path).exists():
            continue
        folder = _cache() / digest
        if not folder.is_dir():
            packed = _cached(_cache(), digest, files_of(url), ".zip")
            fetched += packed.stat().st_size
            _unpack(packed, folder)
        inside, same = list(folder.iterdir()), folder / Path(path).name
        is_file = len(inside) == 1 and inside[0].is_file() and Path(path).suffix == inside[0].suffix
        # Beside a table lie the images that it names.
        moved[path] = str(inside[0] if is_file else same if Path(path).suffix and same.is_file() else folder)
    return moved, fetched


def _unpack(packed: Path, folder: Path) -> None:
    """Unpack atomically; zipfile keeps members inside the folder."""
    with zipfile.ZipFile(packed) as archive:
        if sum(member.file_size for member in archive.infolist()) > UNPACKED:
            raise StorageError(f"The data of this study unpack to more than {UNPACKED >> 30} GiB.",
                               "Copy the data to this machine and name it with --data.")  # fmt: skip
        with replacing_folder(folder, StorageError) as part:
            archive.extractall(part)
