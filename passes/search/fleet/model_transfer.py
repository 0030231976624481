"""A model, and the data and tokenizer that its trials read, on their way to workers: once through the files beside the
storage, then from a cache by content. What a worker finds at the same path it does not fetch.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from espalier.model.data.cache import TOKENIZER_FILES, cache_folder
from espalier.model.data.local import find
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

PROJECT = "project"  # the study's attribute
LIMIT = int(os.environ.get("ESPALIER_HAND_OVER", 4 << 30))  # bytes that are handed over; larger ones need a path
UNPACKED = 4 * LIMIT  # bytes that data which were handed over may unpack to
_EPOCH = (2020, 1, 1, 0, 0, 0)  # of all members of a zip, so that equal files are equal zips


@dataclass(frozen=True, slots=True)
class SharedModel:
    """What a study says of its model. `model`: its fingerprint; `path`: a project's file, where it came from one.

    `digest`: of the project among the storage's files, empty where it is too large. `beside`: path that trials read →
    digest of a zip with what lies there.
    """

    model: str
    source: str
    path: str = ""
    digest: str = ""
    size: int = 0
    beside: dict[str, str] | None = None


def handed(study: Study) -> SharedModel | None:
    """What the study says; None where nobody has handed its model over."""
    held = study.user_attrs.get(PROJECT)
    found = decode(SharedModel, held) if isinstance(held, Mapping) else None
    digests = [] if found is None else [*filter(None, [found.digest]), *(found.beside or {}).values()]
    strange = next((d for d in digests if not is_digest(d)), None)
    if strange is not None:  # it would become a file's name here
        raise StorageError(f"The study {study.study_name!r} names a file that has no digest: {strange[:80]!r}.",
                           "Give the worker the project with --project P.espalier.")  # fmt: skip
    return found


# -- out


def hand_over(
    study: Study,
    url: str,
    project: Project,
    store: WeightStore,
    path: str = "",
    plain: Iterable[Any] = (),
    may: Callable[[str], bool] = lambda _: False,
) -> SharedModel:
    """Put the model beside the storage unless it is there; `plain`: JSON whose paths trials will read.

    `may`: whether what lies at such a path may leave this machine; the JSON, and the project, may be a stranger's.
    """
    files, held = files_of(url), handed(study)
    if held is not None and held.digest and files.has(held.digest):
        return held
    lean = Project(project.source, project.base, Recipe(), project.base)
    size = sum(p.path.exists() and _bytes(p) for p in store.locate(keys_of(lean.base)).values())
    made = SharedModel(fingerprint(lean.base), project.source.spec, str(Path(path).resolve()) if path else "", "", size)
    with scratch() as folder:
        if size <= LIMIT:
            made = replace(made, digest=_put(files, _saved(lean, store, folder)))
        paths = sorted(p for p in read_by(project, plain) if may(p))
        zips = {p: _zipped(Path(p), folder / f"{i}.zip", may) for i, p in enumerate(paths)}
        beside = {p: _put(files, z) for p, z in zips.items() if z.stat().st_size <= LIMIT}
    made = replace(made, beside=beside)
    study.set_user_attr(PROJECT, encode(made))
    return made


def _bytes(place: Any) -> int:
    import math

    import numpy as np

    from espalier.model.store.weights import Tensor

    return math.prod(place.shape) * np.dtype(Tensor.carrier(place.dtype)).itemsize


def _saved(project: Project, store: WeightStore, folder: Path) -> Path:
    path = folder / "project.espalier"
    copy = WeightStore(folder)  # saving moves a store's tensors into the file: ours stay where they are
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


def read_by(project: Project, plain: Iterable[Any]) -> set[str]:
    """The files and folders of this machine that trials read besides the model."""
    tokenizer = project.source.tokenizer or ""
    return {*local_paths(plain), *([tokenizer] if tokenizer and Path(tokenizer).is_dir() else [])}


def local_paths(plain: Iterable[Any]) -> set[str]:
    """The files and folders that options called data and tokenizer name."""
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
    """What is needed of a data set or a tokenizer, and may leave; equal contents make equal bytes."""
    try:
        wanted = find(path).paths()
    except DataError:
        wanted = [p for p in path.iterdir() if p.name.startswith((*TOKENIZER_FILES, "config"))]
    root = path if path.is_dir() else path.parent
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in sorted(f for f in wanted if may(str(f))):  # links may lead elsewhere
            info = zipfile.ZipInfo(file.relative_to(root).as_posix(), _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, file.read_bytes())
    return target


# -- in


@dataclass(frozen=True, slots=True)
class Received:
    """A model as a worker has it; `moved`: path in the study → path here."""

    opened: Opened
    moved: dict[str, str]
    fetched: int = 0


def receive(
    study: Study, url: str, workdir: Path, given: str | None = None, tell: Callable[[str], None] = lambda _: None
) -> Received:
    """Open the model of a study: the one that is given, the project's own path, or the storage's copy."""
    held = handed(study)
    if held is None and not given:
        raise StorageError(f"The study {study.study_name!r} does not say what model it is of.",
                           "Give it with --project P.espalier.")  # fmt: skip
    if held is None:
        held = SharedModel("", given or "")
    moved, fetched = _moved(held, url)
    opened = _open(given, workdir, Origin.TYPED) if given else None
    if opened is None and held.path and Path(held.path).is_file():
        opened = _same(_open(held.path, workdir / "path"), held)
    if opened is None:
        path = _fetch(held, url, tell)
        fetched += path.stat().st_size
        opened = _open(str(path), workdir / "handed")
    if held.model and fingerprint(opened.project.base) != held.model:
        raise StorageError(f"{given} is another model than the study {study.study_name!r} is of.",
                           f"Give the worker {held.path or held.source}.")  # fmt: skip
    _refuse_code(opened, given)
    tokenizer = opened.project.source.tokenizer
    if tokenizer in moved:
        opened.project = replace(opened.project, source=replace(opened.project.source, tokenizer=moved[tokenizer]))
    return Received(opened, moved, fetched)


def _open(spec: str, workdir: Path, origin: Origin = Origin.FILE) -> Opened:
    workdir.mkdir(parents=True, exist_ok=True)
    return open_any(spec, workdir, origin=origin)


def _same(opened: Opened, held: SharedModel) -> Opened | None:
    """A project at its path may have become another since."""
    return opened if fingerprint(opened.project.base) == held.model else None


def _refuse_code(opened: Opened, given: str | None) -> None:
    if needs_source(opened.project.base) and (given is None or is_project(given)) and not opened.callables:
        spec = opened.project.source.spec
        raise StorageError(f"This model runs only with its own code ({spec}), which does not travel.",
                           f"Give the worker the source itself: --project {spec}.")  # fmt: skip


def _fetch(held: SharedModel, url: str, tell: Callable[[str], None]) -> Path:
    if not held.digest:
        raise StorageError(f"The model ({held.size / 1e9:.1f} GB) is too large to be handed over.",
                           f"Give the worker its project or source: --project {held.path or held.source}.")  # fmt: skip
    folder = _cache()
    if not (folder / f"{held.digest}.espalier").exists():
        tell(f"fetching the model ({held.size / 1e6:.1f} MB)")
    return _keep(folder, held.digest, files_of(url), ".espalier")


def _cache() -> Path:
    return cache_folder().parent / "projects"


def _keep(folder: Path, digest: str, files: Files, ending: str) -> Path:
    """From the cache, or into it; one of several workers that begin together fetches it."""
    from filelock import FileLock

    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{digest}{ending}"
    with FileLock(f"{target}.lock"):
        if not target.exists() or digest_of(target) != digest:
            target.unlink(missing_ok=True)
            keep(folder, digest, files.get(digest), target.name)
    os.utime(target)
    return target


def _moved(held: SharedModel, url: str) -> tuple[dict[str, str], int]:
    """Where what trials read lies here: at its path, else unpacked from the storage."""
    moved: dict[str, str] = {}
    fetched = 0
    for path, digest in (held.beside or {}).items():
        if Path(path).exists():
            continue
        folder = _cache() / digest
        if not folder.is_dir():
            packed = _keep(_cache(), digest, files_of(url), ".zip")
            fetched += packed.stat().st_size
            _unpack(packed, folder)
        inside = list(folder.iterdir())
        alone = len(inside) == 1 and inside[0].is_file() and Path(path).suffix == inside[0].suffix
        moved[path] = str(inside[0] if alone else folder)
    return moved, fetched


def _unpack(packed: Path, folder: Path) -> None:
    """Whole or not at all; zipfile keeps members inside the folder."""
    with zipfile.ZipFile(packed) as archive:
        if sum(member.file_size for member in archive.infolist()) > UNPACKED:
            raise StorageError(f"The data of this study unpack to more than {UNPACKED >> 30} GiB.",
                               "Copy the data to this machine, and name them with --data.")  # fmt: skip
        with replacing_folder(folder, StorageError) as part:
            archive.extractall(part)
