"""The searches of a document: run as jobs, received trial by trial, stored in the project, applied as recipes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QTimer, Signal

from espalier.app.features.search.state.files import (
    Copies,
    add_line,
    begin_record,
    ended,
    follow_saves,
    let_go,
    record_path,
    recovered,
    unsaved,
)
from espalier.app.features.search.state.present_choices import present_choices
from espalier.app.features.search.state.study import FINISHED, Study, cut_off
from espalier.app.jobs.queue import Rest
from espalier.app.session.document_runs import DocumentRuns
from espalier.app.session.measures import SCORES, Baseline
from espalier.app.step_text import title
from espalier.app.translation import tr
from espalier.model.document.document import Document
from espalier.model.document.project import keys_of
from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError, OptionsError, ProjectError, StorageError
from espalier.model.sources.info import SourceInfo
from espalier.passes.figure import OPENED
from espalier.passes.jobs.kinds import (
    TERMINAL,
    Continued,
    JobEvent,
    PartialResult,
    Paused,
    Progress,
    SearchJob,
    TrialJob,
)
from espalier.passes.saved import recipe_with_members, with_members
from espalier.passes.search import project_studies
from espalier.passes.search.expand import expand
from espalier.passes.search.feasibility import check_grid, check_limits, check_spec
from espalier.passes.search.goals import wanted
from espalier.passes.search.inherited_weights import discard
from espalier.passes.search.record import Record, damage, member_of, records
from espalier.passes.search.search import Search
from espalier.passes.search.space import Space
from espalier.passes.search.spec import SearchSpec
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from espalier.app.session.session import Session

FRAME = 50  # milliseconds between two updates
CELLS = 4000  # largest number of choices of trials emitted at once, a few milliseconds of work
PAUSE = 1500  # milliseconds between two writes of new trials


class Applied(DocumentRuns):
    """Actions on a trial: apply its recipe, or write its model."""

    _used: Recipe | None = None  # the recipe of the last trial that was applied

    def recipe_of(self, study: Study, trial: Trial) -> Recipe:
        """The recipe of a trial as the worker measured it; raises OptionsError for another architecture."""
        if study.other:
            raise OptionsError("This trial has another architecture, which no recipe can produce.",
                               "Save it as a project of its own.")  # fmt: skip
        base = self._session.open_document.project.base
        return Search(study.spec, study.recipe, base).recipe_of(study.space, trial.params, trial.begins)

    def save_model(self, study: Study, trial: Trial, path: Path, done: Callable[[Path], None]) -> None:
        """Write a trial of another architecture as a project, in the worker; it is trained as in the trial."""
        job = trial_job(study, trial, path, self._session.open_document)
        self._session.submit(tr("Save trial {} of {}", trial.number, study.name), job, done)

    def _baseline(self, spec: SearchSpec) -> dict[str, float]:
        """The baseline's metrics; accuracy and loss only if measured on the search's data."""
        score, options = self._session.baseline, self._session.measures.options
        other = (options.which, options.split) != (spec.score.which, spec.score.split)
        costs = {
            n: float(v) for n in score.__dataclass_fields__ if n not in SCORES and (v := getattr(score, n)) is not None
        }
        return costs if other else costs | self._session.measures.metrics(self._session.compared.recipe)

    def annotate(self, study: Study, number: int, note: str) -> Trial:
        """Write a note on a trial, at once into the project; returns the trial."""
        trial = study.annotate(number, note)
        add_line(record_path(self._session.open_document.store.folder, study.name), study.lines[number])
        self._note(study)
        self.write()
        return trial

    def use(self, study: Study, trial: Trial) -> None:
        """Apply a trial's recipe in one undo step, with the score of the trial; a pruned trial's score is that of a
        part of the samples. Raises OptionsError."""
        recipe = self.recipe_of(study, trial)
        if trial.state == "complete" and "loss" in trial.figures:
            self._session.record_score(recipe, study.spec.score, {**trial.figures, **trial.noise})
            opened = Baseline(OPENED, Recipe(), self._session.open_document.project.base)
            self._session.record_divergence(recipe, study.spec.score, trial.figures.get("kl"), opened)
        replaced = self._replaced(study, recipe)
        self._session.set_recipe(recipe, tr("Apply trial {} of {}", trial.number, study.name))
        self._used = recipe
        if replaced:
            text = tr("Trial {} of {} starts from the recipe that the search began with.", trial.number, study.name)
            text += tr(" Steps made since are not in the recipe any more: {}.", ", ".join(replaced))
            self._session.noticed.emit(text, tr("Undo (Ctrl+Z) returns to the recipe with them."))

    def _replaced(self, study: Study, recipe: Recipe) -> list[str]:
        """The titles of steps that the user made since the search began, which a trial's recipe does not have."""
        present = self._session.recipe
        if present == self._used:  # those of another trial
            return []
        return [title(s) for s in present.steps if s not in study.recipe.steps and s not in recipe.steps]


def searches_of(session: Session) -> Searches:
    """The session's Searches, created once."""
    return session.findChild(Searches) or Searches(session)


class Searches(Applied):
    """All studies of the open document. `changed`: a study and its new trials; `listed`: other studies."""

    changed = Signal(object, object)
    state_changed = Signal()  # a study's job started, paused, resumed or ended, or it has its first best trial

    def __init__(self, session: Session) -> None:
        super().__init__(session, PAUSE)
        self.studies: dict[str, Study] = {}
        self.timed: float | None = None
        self._copies = Copies()
        self._frame = QTimer(self, singleShot=True, interval=FRAME)
        self._frame.timeout.connect(self._emit_changes)
        session.queued.connect(self._give_way_to_queued)
        follow_saves(session)
        if session.document is not None:
            self._read()

    # -- studies

    def _read(self) -> None:
        """Read the studies of another document, and recover those of a crashed window."""
        self._forget()
        self.studies.clear()
        self._copies.forget()
        let_go()
        document = self._session.document
        if document:
            _unpack(self._session, document)
            stored = records(document.project.extras)
            for name, record in (unsaved(document, {r.key for r in stored.values()}) | stored).items():
                if restored := held_study(name, record, document):
                    self.studies[name] = restored[0]
                    if restored[1]:
                        self._note(restored[0])
            if message := damage(document.project.extras, stored):
                self._session.problem.emit(ProjectError(message, "The others were read."))
        self.listed.emit()

    def _keep(self, document: Document, name: str) -> None:
        if study := self.studies.get(name):
            document.keep(member_of(name), study.data())
            self._copies.keep(document, name)

    # -- running

    def start(self, spec: SearchSpec, recipe: Recipe | None = None) -> Study:
        """Start a search, or resume the one of its name; raises OptionsError if it cannot run."""
        document = self._session.open_document
        recipe = document.recipe if recipe is None else recipe
        spec = with_members(spec, self._session.saved_selections.saved)
        recipe = recipe_with_members(recipe, self._session.saved_selections.saved)
        space = expand(spec, document.graph, recipe)
        check_spec(spec, want := wanted(spec), recipe)
        check_grid(spec, space)
        check_source(space, document.project.source)
        if recipe == document.recipe:
            check_limits(space, document.graph, want)
        existing = self.studies.get(spec.study) if spec.study else None
        if existing and existing.running:
            raise OptionsError(f"The study {spec.study!r} is running already.", "Wait for it, or stop it first.")
        if existing and not _alike(existing, spec, recipe):
            if existing.trials:
                raise OptionsError(f"The study {spec.study!r} has another space or other goals.",
                                   "Choose another name, or remove it first.")  # fmt: skip
            self.remove(existing)  # without any trial, so that its name can be reused
            existing = None
        if existing is None:
            name = spec.study or new_name(spec, self.studies)
            compared = {"baseline": self._baseline(spec), "against": _against(self._session, spec)}
            existing = self.studies[name] = Study(name, replace(spec, study=name), recipe, space, **compared)
        else:
            existing.spec = replace(spec, study=existing.name)
            existing.went_on = max(existing.trials, default=None)
        self._begin(existing)
        return existing

    def same(self, spec: SearchSpec, recipe: Recipe | None = None) -> Study | None:
        """A running or queued study with the same search as a spec without a name."""
        recipe = self._session.open_document.recipe if recipe is None else recipe
        return next((s for s in self.studies.values() if s.running and s.recipe == recipe and not spec.study
                     and replace(s.spec, study="", trials=spec.trials) == spec), None)  # fmt: skip

    def go_on(self, study: Study, more: int = 0) -> None:
        """Continue a stopped study, with `more` additional trials."""
        if study.running:
            return
        if more:
            study.spec = replace(study.spec, trials=study.done + more)
        study.went_on = max(study.trials, default=None)
        self._begin(study)

    def _begin(self, study: Study) -> None:
        study.error, study.end_reason, study.ending = "", "", False
        self._submit(study)
        self._note(study)
        self.listed.emit()

    def _submit(self, study: Study) -> None:
        study.gives_way = False
        study.job = self._session.submit(tr("Search {}", study.name), self._work(study), lambda _: None)
        self._session.repeats.note(study.job, partial(_repeat, self, replace(study.spec, study="")), study.recipe)

    def _work(self, study: Study) -> SearchJob:
        document = self._session.open_document
        begin_record(record_path(document.store.folder, study.name), study.data(), study.key, document)
        job = search_job(study, document)
        study.by_hand.clear()
        return job

    def _rest(self, run: Study, result: Any) -> Rest | None:
        return Rest(self._work(run), run.pause_requested) if run.is_continued(result) else None

    def pause(self, study: Study) -> None:
        """Pause after the running trial, until `resume`. A queued search leaves the queue."""
        study.pause_requested = study.job is not None
        if study.job and not study.gives_way:
            self._session.pause(study.job.id)

    def resume(self, study: Study) -> None:
        """Resume a paused search."""
        study.pause_requested = False
        if study.job:  # if it yields to other jobs, it is queued again
            self._session.resume(study.job.id)
            self._emit_state()

    def stop(self, study: Study, *, after_trial: bool = False) -> None:
        """Stop a search now or after the running trial; its trials are kept."""
        study.gives_way = study.pause_requested = False
        if study.job and not after_trial:
            self._session.cancel(study.job.id)
            return
        if study.job:
            study.ending = True
            self._session.stop_and_keep(study.job.id)
        self.changed.emit(study, ())
        self.state_changed.emit()

    def remove(self, study: Study) -> None:
        """Remove a study, also from the project; a running one is stopped."""
        self.stop(study)
        discard(study.trials.values())
        self.studies.pop(study.name, None)
        self._unwritten.discard(study.name)
        document = self._session.open_document
        for path in (
            project_studies.path_for(document.store.folder, study.name),
            record_path(document.store.folder, study.name),
        ):
            path.unlink(missing_ok=True)
        for name in (member_of(study.name), project_studies.member(study.name)):
            document.keep(name, None)
        self.listed.emit()
        self.stored.emit()

    # -- job events

    def _on_job_event(self, job_event: JobEvent) -> None:
        study = next((s for s in self.studies.values() if s.job and s.job.id == job_event.job.id), None)
        if study is None:
            return
        event = job_event.event
        if isinstance(event, PartialResult):
            self._on_part(study, event.part)
        elif isinstance(event, TERMINAL):
            self._ended(study, event)
        elif isinstance(event, Progress):
            self._draw()
        else:
            if isinstance(event, Paused | Continued):  # yielding to other jobs also emits Continued
                study.pause_requested = isinstance(event, Paused) or (study.pause_requested and study.gives_way)
            self._make_room()
            self._emit_state()

    def _on_part(self, study: Study, part: Any) -> None:
        if isinstance(part, Space):  # with each format fitted to its weight
            study.space = part
        elif isinstance(part, tuple):  # stored trials of a resumed study
            study.coming |= {t.number: t for t in part if study.trials.get(t.number) != t}
            self._draw()
        elif isinstance(part, str):
            self._session.problem.emit(StorageError(part, "The search continues with the others."))
        if not isinstance(part, Trial) or self._session.document is None:
            return
        study.take(part)
        if part.state in FINISHED:
            add_line(record_path(self._session.open_document.store.folder, study.name), study.lines[part.number])
            self._note(study)
            if not study.ending:
                self._give_way(study)
        self._draw()

    def _ended(self, study: Study, event: Any) -> None:
        study.end(event)
        self._emit_changes(all_of=study)
        self.write()
        self.changed.emit(study, ())
        self.state_changed.emit()

    def _emit_state(self) -> None:
        self._emit_changes()
        self.state_changed.emit()

    def _draw(self) -> None:
        if not self._frame.isActive():
            self._frame.start()

    def _emit_changes(self, all_of: Study | None = None) -> None:
        """Emit new trials of each study, limited to a number that can be shown without delay."""
        self._frame.stop()
        for study in list(self.studies.values()):
            news = study.take_batch(None if study is all_of else max(CELLS // (len(study.space.choices) + 1), 8))
            before = study.best
            study.update_best(news)
            if bool(before) != bool(study.best):
                self.state_changed.emit()
            if news or study.running:
                self.changed.emit(study, news)
            if study.fresh or study.coming:
                self._draw()

    def _make_room(self) -> None:
        """Let paused searches yield to a queued job."""
        for study in self.studies.values():
            if study.job and study.job.state == "paused" and not study.ending:
                self._give_way(study)

    def _give_way_to_queued(self) -> None:
        """Let searches yield to a new job: after the running trial, or at once while gradients are collected."""
        self._make_room()
        for study in self.studies.values():
            if study.job and study.job.state == "running" and not study.ending:
                self._give_way(study)

    # -- using

    def add_present(self, study: Study) -> None:
        """Add the present configuration as a trial of a study; raises OptionsError if the space lacks it."""
        document = self._session.open_document
        study.by_hand.append(present_choices(study.space, document.graph, document.recipe))
        study.spec = replace(study.spec, trials=max(study.spec.trials, study.done + 1))
        if not study.running:
            self._begin(study)
        elif study.job and not study.gives_way and not self._split(study):
            # otherwise enqueued with the next part of the job
            waits = study.job
            study.by_hand[:0] = getattr(waits.job, "by_hand", ())
            waits.job = self._work(study)


def _repeat(searches: Searches, spec: SearchSpec) -> None:
    """Begin a new study with the options of an ended one; raises OptionsError where it cannot run."""
    if running := searches.same(spec):
        raise OptionsError(f"The study {running.name!r} runs with these options.", "Wait for it, or stop it first.")
    searches.start(spec)


def _against(session: Session, spec: SearchSpec) -> dict[str, Any]:
    """The name of the baseline and the samples of its main metric; each of them only for the search's own data."""
    figure = session.measures.main(session.compared.recipe)
    noise = {} if figure is None else figure.to_json()
    if session.measures.options != spec.score:
        noise = {k: v for k, v in noise.items() if k not in ("hits", "errors")}
    return {"name": session.compared.name, **noise}


def check_source(space: Space, source: SourceInfo) -> None:
    """Raise PassError if the space varies the architecture of a model without a configuration."""
    if any(c.kind == "config" for c in space.choices):
        from espalier.passes.search.architecture.configuration import check_origin  # imports models

        check_origin(source)


def new_name(spec: SearchSpec, used: Container[str]) -> str:
    """A name for an unnamed search: what it varies, and a number."""
    kinds = {v.kind for v in spec.space}
    kind = next(iter(kinds)) if len(kinds) == 1 else "mixed"
    head = {"format": "formats", "config": "architecture"}.get(kind, kind)
    return next(n for i in itertools.count(1) if (n := f"{head} {i}") not in used)


def _unpack(session: Session, document: Document) -> None:
    """Unpack journals, reporting those that cannot be written: their trials are shown, but resuming fails."""
    try:
        project_studies.unpack(document.project.extras, document.store.folder)
    except EspalierError as error:
        session.problem.emit(error)


def search_job(study: Study, document: Document) -> SearchJob:
    """The worker's job of a study."""
    source, base, folder = document.project.source, document.project.base, document.store.folder
    graphs = ((document.recipe.active, document.graph),) if document.recipe.active else ()
    wish = Search(study.spec, study.recipe, base, source)
    locations = document.store.locate(keys_of(base, document.graph))
    return SearchJob(wish, project_studies.url_for(folder, study.name), locations, folder, source, True,
                     graphs, tuple(study.by_hand))  # fmt: skip


def trial_job(study: Study, trial: Trial, path: Path, document: Document) -> TrialJob:
    """The worker's job that writes a trial as a project."""
    source, base = document.project.source, document.project.base
    wish = Search(study.spec, study.recipe, base, source)
    return TrialJob(wish, study.space, trial.params, path, document.store.locate(keys_of(base)),
                    document.store.folder, source, trial.begins)  # fmt: skip


def held_study(name: str, record: Record, document: Document) -> tuple[Study, bool] | None:
    """A study of a project, and whether a crashed window had more trials; None if its formats are unknown here.

    Trials that were running are marked as interrupted.
    """
    try:
        space = record.space or expand(record.spec, document.graph, record.recipe)
        wanted(record.spec)
    except EspalierError:
        return None
    folder = document.store.folder
    more, forget = recovered(record.key, folder, name, ended(record.trials))
    study = Study(
        name, record.spec, record.recipe, space, key=record.key, baseline=record.baseline, against=record.against
    )
    for trial in (*record.trials, *more):
        study.take(cut_off(trial) if trial.state == "running" else trial)
    study.fresh.clear()
    study.update_best(study.trials.values())
    # This window may crash too: the recovered files are removed only once they are stored again.
    if not more or begin_record(record_path(folder, name), study.data(), study.key, document):
        forget()
    return study, bool(more)


def _alike(study: Study, spec: SearchSpec, recipe: Recipe) -> bool:
    """Whether a study can be resumed as `spec`: equal space and goals; the method may change."""
    same = ("space", "goals", "within", "summed", "train", "finetune", "score")
    return study.recipe == recipe and all(getattr(study.spec, n) == getattr(spec, n) for n in same)


def seconds_each(studies: Iterable[Study]) -> dict[str, float]:
    """Seconds per trial on this model, by kind of training (`none`, `after`, …), from earlier trials."""
    durations: dict[str, list[float]] = {}
    for study in studies:
        ran = (t.seconds for t in study.trials.values() if t.seconds and t.state == "complete" and not t.reused)
        durations.setdefault(study.spec.train, []).extend(ran)
    return {train: sorted(each)[len(each) // 2] for train, each in durations.items() if each}
