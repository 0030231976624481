"""Opens sources, packed models and projects, for the window's worker and the command line."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.cache.captures import Capture, capture_key, depends_on, find, keep
from espalier.model.cache.entries import enabled
from espalier.model.cache.watching import Watched, watching
from espalier.model.document.project import Project, load_project
from espalier.model.document.recipe import Recipe
from espalier.model.errors import SourceError
from espalier.model.graph.check import Problem
from espalier.model.graph.graph import Graph
from espalier.model.graph.operators import foreign_operators
from espalier.model.packed.file import is_packed
from espalier.model.store.weights import WeightStore, read_header
from espalier.model.trust import Origin, factory_file, note_typed

if TYPE_CHECKING:
    from espalier.model.sources.info import Loaded, SourceInfo


@dataclass(slots=True)
class Opened:
    """A project in memory. `capture`: set for sources; `loaded`: set for sources that were not cached."""

    project: Project
    store: WeightStore
    problems: tuple[Problem, ...] = ()
    capture: Capture | None = None
    loaded: Loaded | None = None
    callables: dict[str, Any] = field(default_factory=dict)  # type: ignore[assignment]


def is_project(spec: str) -> bool:
    """Whether `spec` names a project file."""
    return spec.endswith(".espalier")


def open_any(
    spec: str,
    workdir: Path,
    inputs: tuple[str, ...] = (),
    seed: int = 0,
    *,
    cached: bool = True,
    origin: Origin = Origin.FILE,
) -> Opened:
    """Open a project file, a packed model or a source named by the user or a file (`origin`). Raises EspalierError."""
    if is_packed(spec):
        return _open_packed(Path(spec), workdir, inputs)
    if not is_project(spec):
        return open_source(spec, workdir, inputs, seed, cached=cached, origin=origin)
    if inputs:
        raise SourceError("A project's inputs are fixed.", "Open its source again with --inputs.")
    store = WeightStore(workdir)
    return Opened(load_project(Path(spec), store), store)


def _open_packed(path: Path, workdir: Path, inputs: tuple[str, ...]) -> Opened:
    from espalier.model.packed.opening import load_packed

    if inputs:
        raise SourceError("A packed model's inputs are fixed.", "Open its source again with --inputs.")
    store = WeightStore(workdir)
    project, problems = load_packed(path, store)
    return Opened(project, store, problems)


def open_source(
    spec: str,
    workdir: Path,
    inputs: tuple[str, ...] = (),
    seed: int = 0,
    *,
    cached: bool = True,
    origin: Origin = Origin.FILE,
) -> Opened:
    """Open a source as a new project: from the cache if `cached`, otherwise by loading and tracing it."""
    if origin is Origin.TYPED:
        note_typed(spec)  # an opening from the cache runs no code, which later steps may need
    key = capture_key(spec, inputs, seed) if cached and enabled() else ""
    return (open_captured(spec, workdir, inputs, seed, key) if key else None) or _trace(
        spec, workdir, inputs, seed, key, origin
    )


def open_captured(
    spec: str, workdir: Path, inputs: tuple[str, ...] = (), seed: int = 0, key: str = ""
) -> Opened | None:
    """Open an unchanged source from the cache, without torch and without running its code; None if it is not cached."""
    store = WeightStore(workdir)
    cached = find(key or capture_key(spec, inputs, seed), store)
    if cached is None:
        return None
    return Opened(Project(cached.info, cached.graph, Recipe(), cached.graph), store, cached.problems, cached.capture)


def _trace(spec: str, workdir: Path, inputs: tuple[str, ...], seed: int, key: str, origin: Origin) -> Opened:
    from espalier.model.sources.source import load_source
    from espalier.model.trace.trace import trace

    begin = time.time_ns()
    store = WeightStore(workdir)
    with watching() if key and factory_file(spec) else contextlib.nullcontext(Watched()) as watched:
        loaded = load_source(spec, inputs, seed, origin=origin)
        traced = trace(loaded.model, loaded.example, store, loaded.program)
    store.adopt(place for file in loaded.files for place in read_header(file).values())
    project = Project(described(loaded, traced.graph, store), traced.graph, Recipe(), traced.graph)
    problems = (*(Problem(None, text, "warning") for text in loaded.notes), *traced.problems)
    capture = Capture(traced.seconds, traced.dynamic, traced.fixed)
    if key and not needs_source(traced.graph) and (depends := depends_on(spec, watched, begin)):
        keep(key, depends, project.source, traced.graph, problems, capture, store)
    return Opened(project, store, problems, capture, loaded, traced.callables)


def described(loaded: Loaded, graph: Graph, store: WeightStore) -> SourceInfo:
    """The source with the limits of its model and the names of its classes."""
    from espalier.model.data.class_names import model_names, names_of
    from espalier.model.sources.generation import generation_of
    from espalier.model.sources.limits import (
        architecture_of,
        context_length,
        head_of,
        limits_of,
        start_of,
    )

    config = getattr(loaded.model, "config", None)
    classes = names_of(getattr(config, "id2label", None)) or model_names(loaded.info.tokenizer)
    (head, problem), start = head_of(loaded.model), start_of(loaded.model)
    own = generation_of(loaded.model if head in ("", "causal-lm", "seq2seq-lm") else None)
    first, forced = (own.start, own.forced) if start is not None else (None, None)
    limits = replace(limits_of(graph, store), context=context_length(config), head=head, problem=problem,
                     architecture=architecture_of(loaded.model), start=start,
                     first=first, forced=forced, last=own.last, ends=own.ends, generation=own.others)  # fmt: skip
    return replace(loaded.info, limits=limits, classes=classes)


def needs_source(graph: Graph) -> bool:
    """Whether a graph needs functions or operators of its source, which cannot be stored in files."""
    return graph.runs == "module" or any(n.call == "opaque" for n in graph) or foreign_operators(graph)


def reopen(spec: str, workdir: Path, inputs: tuple[str, ...] = (), seed: int = 0) -> Opened:
    """Open a project's source again for its functions. Raises TrustError if its code is not trusted."""
    return open_source(spec, workdir, inputs, seed, cached=False)
