"""Open a source or a project: the one entry that the window's worker and the command line share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.check import Problem
from model.errors import SourceError
from model.graph import Graph
from model.packed.file import is_packed
from model.project import Project, load_project
from model.recipe import Recipe
from model.weights import Location, WeightStore, read_header

if TYPE_CHECKING:
    from model.source import Loaded, SourceInfo
    from model.trace.trace import Traced


@dataclass(slots=True)
class Opened:
    """A project in memory; `traced` and `loaded` are there when it came from a source."""

    project: Project
    store: WeightStore
    problems: tuple[Problem, ...] = ()
    traced: Traced | None = None
    loaded: Loaded | None = None
    callables: dict[str, Any] = field(default_factory=dict)  # type: ignore[assignment]


def is_project(spec: str) -> bool:
    """Whether `spec` names a project file."""
    return spec.endswith(".espalier")


def open_any(spec: str, workdir: Path, inputs: tuple[str, ...] = (), seed: int = 0) -> Opened:
    """A project file, a packed model or any source; raises EspalierError."""
    if is_packed(spec):
        return _open_packed(Path(spec), workdir, inputs)
    if not is_project(spec):
        return open_source(spec, workdir, inputs, seed)
    if inputs:
        raise SourceError("A project's inputs are fixed.", "Open its source again with --inputs.")
    store = WeightStore(workdir)
    return Opened(load_project(Path(spec), store), store)


def _open_packed(path: Path, workdir: Path, inputs: tuple[str, ...]) -> Opened:
    from model.packed.opening import load_packed

    if inputs:
        raise SourceError("A packed model's inputs are fixed.", "Open its source again with --inputs.")
    store = WeightStore(workdir)
    project, problems = load_packed(path, store)
    return Opened(project, store, problems)


def open_source(spec: str, workdir: Path, inputs: tuple[str, ...] = (), seed: int = 0) -> Opened:
    """Load and trace a source into a fresh project."""
    from model.source import load_source
    from model.trace.trace import trace

    loaded = load_source(spec, inputs, seed)
    store = WeightStore(workdir)
    traced = trace(loaded.model, loaded.example, store, loaded.program)
    store.adopt(_in_files(loaded.files))
    project = Project(_described(loaded, traced.graph, store), traced.graph, Recipe(), traced.graph)
    problems = (*(Problem(None, text, "warning") for text in loaded.notes), *traced.problems)
    return Opened(project, store, problems, traced, loaded, traced.callables)


def _described(loaded: Loaded, graph: Graph, store: WeightStore) -> SourceInfo:
    """The source with what its model takes and how it calls its classes."""
    from model.data.naming import model_names, names_of
    from model.limits import context_length, limits_of

    config = getattr(loaded.model, "config", None)
    classes = names_of(getattr(config, "id2label", None)) or model_names(loaded.info.tokenizer)
    limits = replace(limits_of(graph, store), context=context_length(config))
    return replace(loaded.info, limits=limits, classes=classes)


def _in_files(files: tuple[Path, ...]) -> list[Location]:
    return [place for file in files for place in read_header(file).values()]


def needs_source(graph: Graph) -> bool:
    """Whether a graph runs only with functions of its source, which no file can hold."""
    return graph.runs == "module" or any(n.call == "opaque" for n in graph)


def reopen(spec: str, workdir: Path, inputs: tuple[str, ...] = (), seed: int = 0) -> Opened:
    """Open a project's source again for its functions; raises SourceError where that would start code of a file's."""
    if ".py:" in spec:  # a project may name code, but never start it
        message = f"This model runs only with its own code ({spec}), and a project does not start code."
        raise SourceError(message, f"Open {spec} itself.")
    return open_source(spec, workdir, inputs, seed)
