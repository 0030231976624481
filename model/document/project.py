"""The project file: one zip with JSON and safetensors, written atomically. Never pickle.

Loading goes raw JSON → migrations on plain dicts → typed values; what is unknown is kept and saved back.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zipfile
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from espalier.model.borders import opened_zip, parse_json, read_member, reading
from espalier.model.document.codec import decode, encode
from espalier.model.document.graph_json import graph_from_json, graph_to_json
from espalier.model.document.recipe import Raw, Recipe, Step, naming_step
from espalier.model.errors import ChangedError, Damage, ProjectError, damage
from espalier.model.files import replacing
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import TensorKey
from espalier.model.registry import PASSES, Registry
from espalier.model.sources.info import SourceInfo, demo_folder
from espalier.model.store.open_files import FileId, Version
from espalier.model.store.weights import Kind, Location, Tensor, WeightStore, chunks, read_header, size_of
from espalier.model.zip_member import Sealed, data_start, read_sealed, write_sealed, write_stored

FORMAT = 3
APP = "0.3.0"
_KNOWN = ("manifest.json", "recipe.json", "graph.json", "view.json", "reports.json")
_WEIGHTS = "weights/tensors.safetensors"
Json = dict[str, Any]

# Members of Espalier besides the model: studies, sweeps, and measurements as JSON at the top level. They are read when
# the project is opened; other members stay packed and are copied when it is saved.
_OWN = re.compile(r"(studies|sweeps)/.+|[^/]+\.json")
MOST_OWN, _MOST_READ, _MOST_SEALED = 256 << 20, 512 << 20, 64 << 20  # bytes: of one, of all, of what stays packed
MIGRATIONS: Registry[int, Callable[[Json], Json]] = Registry("migration from project format", ProjectError)


def migration(old: int) -> Callable[[Callable[[Json], Json]], Callable[[Json], Json]]:
    """Register the migration of {member: JSON} from format `old` to `old + 1`."""
    return MIGRATIONS.register(old)


@migration(1)
def _adapters(members: Json) -> Json:
    """Format 2 adds adapters, which readers of format 1 would ignore; files of format 1 have none."""
    return members


_READING_STEPS = ("bias_correction", "calibrate", "finetune", "gptq", "mse_clip", "prune", "prune_activations",
                  "prune_structured", "remove_layers", "smoothquant")  # fmt: skip
_LENGTH = 128  # tokens of a text in steps of format 2 that name no other


@migration(2)
def _lengths(members: Json) -> Json:
    """Steps that read texts keep the length that was the default then: now the model and the tokenizer say it.

    A source may name columns, classes and what its model takes from format 3 on; nothing of before does.
    """
    recipe = members["recipe.json"]
    steps = [_with_length(step) for step in recipe["steps"]]
    return {**members, "recipe.json": {**recipe, "steps": steps}}


def _with_length(step: Json) -> Json:
    reads = step.get("pass") in _READING_STEPS and (step.get("options") or {}).get("data")
    return {**step, "options": {"max_length": _LENGTH, **step["options"]}} if reads else step


@dataclass(frozen=True, slots=True)
class Project:
    """A project: source, base graph, recipe and present graph.

    `reports` and `view` are plain JSON. `extras` are further members of the file that Espalier keeps; `sealed` are
    those that this version does not know, as they lie in the file.
    `milestones`: number of active steps → the graph after them, for steps that take too long to be run again.
    """

    source: SourceInfo
    base: Graph
    recipe: Recipe
    graph: Graph
    reports: Json = field(default_factory=dict)  # type: ignore[assignment]
    view: Json = field(default_factory=dict)  # type: ignore[assignment]
    extras: dict[str, bytes] = field(default_factory=dict)  # type: ignore[assignment]
    milestones: dict[int, Graph] = field(default_factory=dict)  # type: ignore[assignment]
    sealed: dict[str, Sealed] = field(default_factory=dict)  # type: ignore[assignment]

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """All graphs whose tensors the project needs."""
        return self.base, self.graph, *self.milestones.values()


# -- recipe


def step_to_json(step: Step) -> Json:
    """{pass, options, seed, enabled} of a step."""
    options = step.options.data if isinstance(step.options, Raw) else encode(step.options)
    return {"pass": step.pass_name, "options": options, "seed": step.seed, "enabled": step.enabled}


def step_from_json(data: Json) -> Step:
    """A step; the options of a pass that is not installed are Raw. Raises OptionsError."""
    name = decode(str, data.get("pass"), "pass")
    raw = data.get("options", {})
    options = decode(PASSES.get(name).options, raw, "options") if name in PASSES else Raw(raw)
    seed, enabled = (decode(k, data.get(n, d), n) for k, n, d in ((int, "seed", 0), (bool, "enabled", True)))
    return Step(name, options, seed, enabled)


def recipe_to_json(recipe: Recipe) -> Json:
    """{"steps": […]}"""
    return {"steps": [step_to_json(s) for s in recipe.steps]}


def recipe_from_json(data: Json) -> Recipe:
    """A recipe from {"steps": […]}."""
    steps: list[Step] = []
    for i, step in enumerate(data["steps"]):
        with naming_step(i):
            steps.append(step_from_json(step))
    return Recipe(tuple(steps))


# -- keys


def keys_of(*graphs: Graph) -> set[TensorKey]:
    """The keys of all tensors of the graphs."""
    weights = {w.key for g in graphs for w in g.weights.values() if w.key}
    return weights | {s.mask for g in graphs for n in g for s in n.sparsity.values() if s.mask}


# -- save


Progress = Callable[[int, int], None]


def save_project(
    project: Project,
    store: WeightStore,
    path: Path,
    *,
    everything: bool = False,
    over: Version | None = None,
    progress: Progress | None = None,
    placing: Callable[[Version], object] | None = None,
) -> Saved:
    """Write the project to `path` atomically.

    Tensors that lie in a file of the source are referred to, unless `everything` is wanted in the file. `over`: the
    version of the file that is to be replaced. `progress` hears how many bytes of how many are written; what it
    raises ends the save. `placing` hears the new version just before it has the path. Raises
    ProjectError, ChangedError where the file is another version than `over` by now; the old file is then as it was.
    """
    path = Path(path).resolve()
    keys = sorted(keys_of(*project.graphs))
    outside = {} if everything else _outside(keys, store, project.source, path)
    kinds = {k: store.kind(k) or store.get(k).kind for k in keys if k not in outside}
    with replacing(path, ProjectError) as raw:
        _write(raw, project, kinds, _Reported(store, kinds, progress).get, outside)
        raw.flush()
        version = Version.from_stat(os.fstat(raw.fileno()))
        # Not read by path: another program may replace the file meanwhile.
        places = {k: replace(p, path=path) for k, p in _inside(Path(raw.name)).items()} if kinds else {}
        os.fsync(raw.fileno())  # before the last look at the file that goes, as it may take long
        if over is not None and Version.of(path) not in (over, None):
            raise changed(path)
        if placing:
            placing(version)
    store.moved(path, places)
    return Saved(version, places)


@dataclass(frozen=True, slots=True)
class Saved:
    """The version of the written file, and the locations of its tensors."""

    version: Version | None = None
    places: dict[TensorKey, Location] = field(default_factory=dict[TensorKey, Location])


def changed(path: Path) -> ChangedError:
    """The error of a file that another program has changed."""
    message = f"{path.name} was changed by another program since it was opened."
    return ChangedError(message, "Save under another name, or choose which of the two is kept.")


class _Reported:
    """Tensors of a store, with a progress report for each."""

    def __init__(self, store: WeightStore, kinds: Mapping[TensorKey, Kind], progress: Progress | None) -> None:
        self._store, self._kinds, self._progress = store, kinds, progress
        self._done, self._total = 0, sum(size_of(kind) for kind in kinds.values())

    def get(self, key: TensorKey) -> Tensor:
        """The tensor."""
        if self._progress:
            self._progress(self._done, self._total)
        self._done += size_of(self._kinds[key])
        return self._store.get(key)


def _outside(keys: list[TensorKey], store: WeightStore, source: SourceInfo, path: Path) -> dict[TensorKey, Location]:
    folders = _source_folders(source)
    places = {k: p for k, p in store.locate(keys).items() if p.path.parent in folders and p.path != path}
    now = {file: FileId.of(file) for file in {p.path for p in places.values()}}
    return {k: p for k, p in places.items() if now[p.path] == p.file}


def _source_folders(source: SourceInfo) -> set[Path]:
    if source.spec.startswith("demo:"):
        return {demo_folder(source.spec.partition(":")[2])}
    return {Path(source.spec)} if Path(source.spec).is_dir() else set()


def _write(
    raw: IO[bytes],
    project: Project,
    kinds: Mapping[TensorKey, Kind],
    get: Callable[[TensorKey], Tensor],
    outside: Mapping[TensorKey, Location],
) -> None:
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _members(project, outside).items():
            archive.writestr(name, json.dumps(data, separators=(",", ":"), allow_nan=False))
        for name, data in project.extras.items():
            archive.writestr(name, data)
        for name, member in project.sealed.items():
            if name not in archive.NameToInfo:
                write_sealed(archive, raw, name, member)
        if kinds:
            write_stored(archive, raw, _WEIGHTS, lambda start: chunks(kinds, get, base=start))


def _members(project: Project, outside: Mapping[TensorKey, Location]) -> dict[str, Json]:
    graphs: Json = {"base": graph_to_json(project.base)}
    if project.graph is not project.base:
        graphs["graph"] = graph_to_json(project.graph)
    if project.milestones:
        graphs["milestones"] = {str(n): graph_to_json(g) for n, g in project.milestones.items()}
    manifest = {
        "format": FORMAT,
        "app": APP,
        "source": encode(project.source),
        "outside": _relative(project, outside),
    }
    return {"manifest.json": manifest, "recipe.json": recipe_to_json(project.recipe), "graph.json": graphs,
            "view.json": project.view, "reports.json": project.reports}  # fmt: skip


def _relative(project: Project, outside: Mapping[TensorKey, Location]) -> Json:
    """File name in the source's folder → {size, time, tensors}; relative, so that demos open in every installation."""
    files: Json = {}
    for key, place in outside.items():
        if place.path.name not in files:
            facts = place.path.stat()
            files[place.path.name] = {"size": facts.st_size, "time": facts.st_mtime_ns, "tensors": {}}
        files[place.path.name]["tensors"][key] = [place.offset, place.dtype, list(place.shape)]
    return files


# -- load


def load_project(path: Path, store: WeightStore) -> Project:
    """Read a project; its tensors are registered in `store` but not read. Raises ProjectError."""
    path = Path(path).resolve()
    with reading(path, ProjectError, "is not a readable project",
                 "Open a complete .espalier file, such as an older copy of it.", "Check the path."):  # fmt: skip
        return _load(path, store)


def _load(path: Path, store: WeightStore) -> Project:
    with opened_zip(path) as (archive, raw):
        members, extras, sealed = _read(archive, raw)
    project = replace(_decode(_migrate(members, path), path), extras=extras, sealed=sealed)
    store.add(_inside(path) if _WEIGHTS in members else {})
    _find_outside(members["manifest.json"].get("outside", {}), project.source, store)
    _check_tensors(project, store, path)
    return project


def _read(archive: zipfile.ZipFile, raw: IO[bytes]) -> tuple[Json, dict[str, bytes], dict[str, Sealed]]:
    held = archive.NameToInfo
    if "manifest.json" not in held:
        raise Damage("it has no manifest")
    own, others = [n for n in held if _is_own(n)], [n for n in held if not _is_own(n) and n != _WEIGHTS]
    if sum(held[n].file_size for n in own) > _MOST_READ or sum(held[n].compress_size for n in others) > _MOST_SEALED:
        raise Damage("it holds more than the project itself")
    members: Json = {n: parse_json(read_member(archive, n)) for n in held if n in _KNOWN}
    _check_numbers([members.get(n) for n in ("recipe.json", "view.json", "reports.json")])
    if _WEIGHTS in held:
        members[_WEIGHTS] = True
    extras = {n: read_member(archive, n, MOST_OWN) for n in own if n not in _KNOWN}
    return members, extras, {n: read_sealed(raw, held[n]) for n in others}


def _check_numbers(members: list[Any]) -> None:
    """Raise Damage for a number that cannot be saved."""
    try:
        json.dumps(members, allow_nan=False)
    except ValueError as error:
        raise Damage("a number in it is infinite, or none") from error


def _is_own(name: str) -> bool:
    return _OWN.fullmatch(name) is not None


def _migrate(members: Json, path: Path) -> Json:
    version = members["manifest.json"].get("format") if isinstance(members["manifest.json"], dict) else None
    if not isinstance(version, int):
        raise ProjectError(f"{path.name} is not an Espalier project.", "Open a .espalier file.")
    if version > FORMAT:
        needed = members["manifest.json"].get("app", "a newer version")
        message = f"{path.name} was written by a newer Espalier (project format {version}; this one reads {FORMAT})."
        raise ProjectError(message, f"Update Espalier to {needed} or later.")
    while version < FORMAT:
        members = MIGRATIONS[version](members)
        version += 1
    return members


def _decode(members: Json, path: Path) -> Project:
    with _part(path, "its graph"):
        graphs = members["graph.json"]
        base = graph_from_json(graphs["base"])
        graph = graph_from_json(graphs["graph"]) if "graph" in graphs else base
        milestones = {int(n): graph_from_json(g) for n, g in graphs.get("milestones", {}).items()}
    with _part(path, "its source"):
        source = decode(SourceInfo, members["manifest.json"]["source"], "source")
    with _part(path, "its recipe"):
        recipe = recipe_from_json(members["recipe.json"])
    with _part(path, "its reports or view"):
        reports, view = (decode(dict[str, Any], members.get(n, {}), n) for n in ("reports.json", "view.json"))
    return Project(source, base, recipe, graph, reports, view, milestones=milestones)


@contextlib.contextmanager
def _part(path: Path, what: str) -> Generator[None]:
    """Add the damaged member to an error."""
    try:
        yield
    except ProjectError:
        raise
    except Exception as error:
        message = f"{path.name} is damaged: {what} cannot be read, as {damage(error)}."
        raise ProjectError(message, "Open an older copy of it, or its source.") from error


def _inside(path: Path) -> dict[TensorKey, Location]:
    """Locations of the tensors in the project file itself."""
    with opened_zip(path) as (archive, _):
        info = archive.getinfo(_WEIGHTS)
    if info.compress_type != zipfile.ZIP_STORED:
        raise ProjectError(f"{path.name} holds compressed weights.", "Save it again with Espalier.")
    with path.open("rb") as raw:
        return read_header(path.resolve(), data_start(raw, info.header_offset))


def _find_outside(files: Json, source: SourceInfo, store: WeightStore) -> None:
    """Register tensors in the source's own files; raises ProjectError if these have changed."""
    for name, entry in files.items():
        path = next((f / name for f in _source_folders(source) if (f / name).is_file()), None)
        if path is None or not _is_same(path, entry, store):
            raise ProjectError(f"The weights in {name} of {source.spec} are missing or have changed.",
                               "Restore the source, or open it again.")  # fmt: skip


def _is_same(path: Path, entry: Json, store: WeightStore) -> bool:
    """Whether the file still contains the tensors; a changed file is read completely."""
    there = {(p.offset, p.dtype, p.shape): p for p in read_header(path).values()}
    wanted = {k: (offset, dtype, tuple(shape)) for k, (offset, dtype, shape) in entry["tensors"].items()}
    if path.stat().st_size != entry["size"] or not there.keys() >= set(wanted.values()):
        return False
    store.add({k: there[w] for k, w in wanted.items()})
    return path.stat().st_mtime_ns == entry.get("time") or all(store.get(k).key() == k for k in wanted)


def _check_tensors(project: Project, store: WeightStore, path: Path) -> None:
    missing = [k for k in keys_of(*project.graphs) if k not in store]
    if missing:
        raise ProjectError(f"{path.name} lacks {len(missing)} of its tensors.", "Open an older copy of it.")
