"""Files of a search: its storage, templates by name, and the best so far as a project, recipe or table."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import shutil
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.app.commands.command import UsageError
from espalier.app.commands.opening import Target, save
from espalier.app.features.search.commands.search_charts import PICTURES, Picture
from espalier.model.borders import opened_zip, read_member, tried
from espalier.model.document.project import MOST_OWN, Project
from espalier.model.document.recipe import Recipe
from espalier.model.files import write_bytes, write_text
from espalier.model.private import redacted
from espalier.passes.export.recipe import to_toml
from espalier.passes.recipes.config import recipe_to_dict
from espalier.passes.recipes.replay import Memo, milestones, replay
from espalier.passes.search import project_studies
from espalier.passes.search.goals import best, wanted
from espalier.passes.search.record import Record, dump, load, member_of
from espalier.passes.search.search import Search
from espalier.passes.search.space import Space
from espalier.passes.search.storage import journal_url
from espalier.passes.search.trial import Trial
from espalier.passes.training.checkpoint_folders import home

if TYPE_CHECKING:
    from espalier.passes.search.study import StudyRun
    from espalier.passes.search.trained import TrialModel

KINDS = (".espalier", ".toml", ".json", ".csv", *PICTURES)
TEMPLATES = Path(__file__).resolve().parents[4] / "resources" / "studies"
PAUSE = 20.0  # seconds between two projects written while the search runs


def templates() -> list[str]:
    """The names of the built-in study templates."""
    return sorted(p.stem for p in TEMPLATES.glob("*.toml"))


def spec_path(text: str) -> Path:
    """The file of a spec, by path or by the name of a template; raises UsageError for neither."""
    path = Path(text)
    if path.exists():
        return path
    shipped = TEMPLATES / f"{text}.toml"
    if "/" in text or not shipped.exists():
        names = ", ".join(templates())
        raise UsageError(f"There is no search {text!r}.", f"Give the path of a TOML or JSON file, or one of {names}.")
    return shipped


@dataclass(frozen=True, slots=True)
class Storage:
    """The storage of the study. `path`: the journal chosen by the command, None for a given storage."""

    url: str
    path: Path | None = None

    @property
    def shown(self) -> str:
        """The address without a password, for display."""
        return redacted(self.url)


def storage_for(named: str | None, output: Output, target: Target) -> Storage:
    """The given storage, or a journal beside the output or in the user's state folder, with the project's own
    trials."""
    if named:
        return Storage(named)
    study = output.search.spec.study
    path = Path(f"{output.path}.journal") if output.path else _state(study, output.search)
    stored = output.held(project_studies.member(study)) or target.project.extras.get(project_studies.member(study))
    if stored is not None and not path.exists():
        write_bytes(path, stored, UsageError)
    return Storage(journal_url(path), path)


def _state(study: str, search: Search) -> Path:
    from espalier.model.document.graph_json import fingerprint

    folder = home().parent / "searches"
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(f"{study} {fingerprint(search.base)}".encode()).hexdigest()[:12]
    name = project_studies.member(study).removeprefix(project_studies.FOLDER).removesuffix(project_studies.ENDING)
    return folder / f"{name}-{digest}{project_studies.ENDING}"


class Output:
    """The output of -o; written completely for each better trial."""

    def __init__(self, name: str | None, target: Target, search: Search, picture: Picture | None = None) -> None:
        self.path, self.target, self.search = Path(name) if name else None, target, search
        self.picture, self.space = picture, Space()
        self._made: TrialModel | None = None  # the best trial's model if it ran in this process
        self._written = -PAUSE
        if self.path and self.path.suffix.lower() not in KINDS:
            raise UsageError(f"{name} has an unknown file type.", f"End it in {', '.join(KINDS)}.")
        if self.path and not self.path.parent.is_dir():
            raise UsageError(f"There is no folder {self.path.parent}.", "Make it, or choose another.")
        name = member_of(search.spec.study)
        self._before = self.held(name) or target.project.extras.get(name, b"")

    def held(self, member: str) -> bytes | None:
        """A member of an existing project at the output's path."""
        path = self.path
        if not self._is_project or path is None or not path.exists():
            return None

        def read() -> bytes:
            with opened_zip(path) as (archive, _):
                return read_member(archive, member, MOST_OWN)

        return tried(read, None)

    def better(self, trials: Sequence[Trial], recipe: Recipe | None, running: StudyRun) -> None:
        """Write a better trial: tables at once, projects at intervals, with its model if it ran in this process."""
        lead, model_of = best(trials, wanted(self.search.spec)), getattr(running.runner, "last_model", None)
        if self._is_project and lead is not None:
            self._made = model_of(lead.params, lead.begins) if model_of else None
        if self.path is None or self._is_picture or (self._is_project and time.monotonic() - self._written < PAUSE):
            return
        self.write(trials, recipe)

    @property
    def _is_project(self) -> bool:
        return self.path is not None and self.path.suffix.lower() == ".espalier"

    @property
    def _is_picture(self) -> bool:
        return self.path is not None and self.path.suffix.lower() in PICTURES

    def write(self, trials: Sequence[Trial], recipe: Recipe | None, record: dict[str, bytes] | None = None) -> None:
        """Write the output, replacing an existing file atomically."""
        if self.path is None:
            return
        if self._is_project:
            self._project(trials, recipe, record or {})
        elif self._is_picture:
            if self.picture is not None:
                self.picture.draw(self.path, trials, self.space)
        elif self.path.suffix.lower() == ".csv":
            self._replace(to_csv(trials))
        elif recipe is not None:
            data = recipe_to_dict(recipe)
            json_form = self.path.suffix.lower() == ".json"
            self._replace(json.dumps(data, indent=1, ensure_ascii=False) + "\n" if json_form else to_toml(data))
        self._written = time.monotonic()

    def _replace(self, text: str) -> None:
        assert self.path is not None
        write_text(self.path, text, UsageError)

    def _project(self, trials: Sequence[Trial], recipe: Recipe | None, record: dict[str, bytes]) -> None:
        assert self.path is not None
        project = self.target.project
        with self._made.in_store(self.target.store) if self._made else contextlib.nullcontext():
            if recipe is not None and self.other:
                save(self.target, self._architecture(trials), str(self.path), everything=True)
                return
            if recipe is not None:
                project = self._applied(project, recipe)
            save(self.target, replace(project, extras={**project.extras, **record}), str(self.path))

    @property
    def other(self) -> bool:
        """Whether trials have other architectures, so that the project cannot contain the study."""
        return any(c.kind == "config" for c in self.space.choices)

    @property
    def _memo(self) -> Memo | None:
        return self._made.memo if self._made else None

    def _architecture(self, trials: Sequence[Trial]) -> Project:
        from espalier.passes.search.architecture.trial_project import chosen

        lead = best(trials, wanted(self.search.spec))
        assert lead is not None
        return chosen(self.search, self.space, lead.params, self.target.context, lead.begins, self._memo)

    def _applied(self, project: Project, recipe: Recipe) -> Project:
        from espalier.app.commands.known_steps import known_steps

        done = replay(project.base, recipe, self.target.context, self._memo or known_steps(self.target))
        return replace(project, recipe=recipe, graph=done.graph, milestones=milestones(recipe, done.results))

    def finish(self, trials: Sequence[Trial], recipe: Recipe | None, storage: Storage) -> str:
        """Write the final output; a project includes the study, so that its journal is removed."""
        record: dict[str, bytes] = {}
        if self._is_project and storage.path is not None and not self.other:
            record = {project_studies.member(self.search.spec.study): project_studies.pack(storage.path)}
            record |= self._shown(trials)
        self.write(trials, recipe, record)
        if record and storage.path is not None:
            for path in storage.path.parent.glob(f"{storage.path.name}*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return str(self.path)

    def _shown(self, trials: Sequence[Trial]) -> dict[str, bytes]:
        """The study's record for the window, with the key and the baseline of an existing record."""
        search = self.search
        old = tried(lambda: load(self._before), None) or Record(search.spec, search.recipe, key=uuid.uuid4().hex)
        notes = {(t.number, t.state): t for t in old.trials if t.note}
        noted = (t if t.note or not (n := notes.get((t.number, t.state))) or n.params != t.params
                 else replace(t, note=n.note) for t in trials)  # fmt: skip
        record = replace(old, spec=search.spec, space=self.space, trials=tuple(noted))
        return {member_of(search.spec.study): dump(record)}


def to_csv(trials: Sequence[Trial]) -> str:
    """CSV with one line per trial: number, state, metrics, choices."""
    figures = list(dict.fromkeys(k for t in trials for k in t.figures))
    params = list(dict.fromkeys(k for t in trials for k in t.params))
    columns = ("number", "state", "feasible", "seconds", "origin", "reused", "worker", "error")
    noise = ("n", "interval_low", "interval_high") if any(t.main for t in trials) else ()
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    noted = ("note",) if any(t.note for t in trials) else ()
    writer.writerow([*columns, *noted, *figures, *noise, *(f"param {p}" for p in params)])
    for t in trials:
        line = [
            t.number,
            t.state,
            t.feasible,
            t.seconds,
            t.origin,
            t.reused,
            t.worker,
            t.error,
            *[t.note] * bool(noted),
        ]
        sampled = [t.main.n, *t.main.interval] if t.main else [""] * len(noise)
        line += [*(t.figures.get(f, "") for f in figures), *sampled]
        writer.writerow([*line, *(t.params.get(p, "") for p in params)])
    return out.getvalue()
