"""Opens a SOURCE or PROJECT of the command line."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from espalier.app.commands.command import Arguments
from espalier.app.commands.console import Console
from espalier.model.document.project import Project, save_project
from espalier.model.errors import ChangedError, EspalierError, MissingCodeError, SourceError
from espalier.model.graph.limits import limit_warnings
from espalier.model.leftovers import scratch
from espalier.model.opening import Opened, is_project, needs_source, open_any, reopen
from espalier.model.private import own_folder, private_folder
from espalier.model.store.open_files import Version
from espalier.model.store.weights import WeightStore
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.recipes.offered import missing_notice


@dataclass(frozen=True, slots=True)
class Target:
    """An opened model and the context of its passes. `versions`: of the project files as this command knows them."""

    opened: Opened
    context: Context
    versions: dict[Path, Version] = field(default_factory=dict[Path, Version])

    @property
    def project(self) -> Project:
        """The project."""
        return self.opened.project

    @property
    def store(self) -> WeightStore:
        """The weight store."""
        return self.opened.store


@contextlib.contextmanager
def opened(
    spec: str, args: Arguments, console: Console, *, cached: bool = True, warn: bool = True
) -> Generator[Target]:
    """Open `spec` with the command's seed and inputs, in a temporary folder.

    `cached`: use an earlier capture of the source instead of loading it. `warn`: write a line on weights that
    are not finite.
    """
    inputs = tuple(i.strip() for i in (getattr(args, "inputs", None) or "").split(",") if i.strip())
    with scratch() as folder:
        console.progress(0, 0, f"opening {spec}")
        path = Path(spec).expanduser().resolve()
        version = Version.of(path) if is_project(spec) else None  # before it is read
        result = open_any(spec, folder, inputs, args.seed, cached=cached, origin=Origin.TYPED)
        if warn:
            console.warn(limit_warnings(result.project.graph))
        if warn and result.problems:
            from espalier.model.trace.weight_checks import counts_of, weight_warning

            console.warn(weight_warning(counts_of(result.problems)))
        result.project = project = _reading_as(result.project, args)
        if notice := missing_notice(project.recipe, "Give their plug-in with --plugin FILE.py to replay or edit them."):
            console.note(str(notice))
        callables, refused = result.callables, None
        if not callables and is_project(spec):
            callables, refused = functions_of(project, folder)
        context = Context(
            result.store, args.seed, console.progress, callables, project.source.reading, base=project.base,
            source=project.source,
        )  # fmt: skip
        with explaining(refused):
            yield Target(result, context, {path: version} if version else {})


def _reading_as(project: Project, args: Arguments) -> Project:
    """The project with the tokenizer and columns of the command line stored in its source."""
    given = {name: getattr(args, name, None) for name in ("tokenizer", "text", "label")}
    folder = given["tokenizer"]
    if folder and Path(folder).expanduser().is_dir():
        given["tokenizer"] = str(Path(folder).expanduser().resolve())
    return replace(project, source=project.source.taking(**given))


def functions_of(project: Project, folder: Path) -> tuple[dict[str, Any], SourceError | None]:
    """Functions of opaque nodes, from the reopened source (a project does not contain them), or the error."""
    if any(map(needs_source, (project.base, project.graph))):
        source = project.source
        try:
            return reopen(source.spec, folder / "again", source.inputs, source.seed).callables, None
        except SourceError as error:  # steps that need the functions report it
            return {}, error
    return {}, None


@contextlib.contextmanager
def explaining(refused: SourceError | None) -> Generator[None]:
    """Add to a MissingCodeError why the project's source was not opened, and what to do."""
    try:
        yield
    except MissingCodeError as error:
        if refused is None:
            raise
        raise MissingCodeError(f"{error.message} {refused.message}", refused.hint, error.node) from error


def _free(path: Path) -> Path:
    """A name beside a file that no file has."""
    names = (path.with_name(f"{path.stem}-{n}{path.suffix}") for n in itertools.count(2))
    return next(name for name in names if not name.exists())


def save(target: Target, project: Project, path: str, *, everything: bool = False) -> str:
    """Write the project; returns the path as given. An error names another file that has the project, if one has it.

    Raises ChangedError where `path` is the opened file and another program has changed that since: the project then is
    in a new file beside it. Where the disk is full or the folder gone, it is in the program's own folder.
    """
    place = Path(path).resolve()
    try:
        saved = save_project(project, target.store, place, everything=everything, over=target.versions.get(place))
    except ChangedError as error:
        other = _free(place)
        save_project(project, target.store, other, everything=everything)
        raise ChangedError(error.message, f"The result is in {other}.") from error
    except EspalierError as error:
        if isinstance(error.__cause__, OSError) and (other := _kept(project, target.store, place.name, everything)):
            error.hint = f"{error.hint} The result is in {other}.".strip()
        raise
    if saved.version:
        target.versions[place] = saved.version
    return path


def _kept(project: Project, store: WeightStore, name: str, everything: bool) -> Path | None:
    """A file in the program's own folder with the project; None if that cannot be written either."""
    try:
        place = private_folder(own_folder("state") / "unsaved") / name
        other = _free(place) if place.exists() else place
        save_project(project, store, other, everything=everything)
    except (OSError, EspalierError):
        return None
    return other
