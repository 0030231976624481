"""The searches of a document: started as jobs, heard trial by trial, kept in the project, used as recipes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable
from dataclasses import asdict, replace
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

FRAME = 50  # milliseconds: what came is told 20 times a second
CELLS = 4000  # choices of trials that are told in one turn at most: some milliseconds
PAUSE = 1500  # milliseconds between two writings of what has come


class Applied(DocumentRuns):
    """What is done with a trial: its recipe taken over, or its model written."""

    def recipe_of(self, study: Study, trial: Trial) -> Recipe:
        """The recipe that the worker measured; raises OptionsError for a trial of another architecture."""
        if study.other:
            raise OptionsError("This trial has another architecture, so no recipe leads to it.",
                               "Save it as a project of its own.")  # fmt: skip
        base = self._session.open_document.project.base
        return Search(study.spec, study.recipe, base).recipe_of(study.space, trial.params, trial.begins)

    def save_model(self, study: Study, trial: Trial, path: Path, done: Callable[[Path], None]) -> None:
        """Write a trial of another architecture as a project, in the worker; its trainings run as in the trial."""
        job = trial_job(study, trial, path, self._session.open_document)
        self._session.submit(f"Save trial {trial.number} of {study.name}", job, done)

    def annotate(self, study: Study, number: int, note: str) -> Trial:
        """Write a note on a trial, at once into the project; returns the trial."""
        trial = study.annotate(number, note)
        add_line(record_path(self._session.open_document.store.folder, study.name), study.lines[number])
        self._note(study)
        self.write()
        return trial

    def use(self, study: Study, trial: Trial) -> None:
        """Make a trial's recipe the recipe, in one undo step; of one that ended its score is known already, of one that
        ended early only that of a part of the samples. Raises OptionsError."""
        recipe = self.recipe_of(study, trial)
        if trial.state == "complete" and {"accuracy", "loss"} <= set(trial.figures):
            self._session.record_score(recipe, study.spec.score, {**trial.figures, **trial.noise})
            opened = Baseline(OPENED, Recipe(), self._session.open_document.project.base)
            self._session.record_divergence(recipe, study.spec.score, trial.figures.get("kl"), opened)
        self._session.set_recipe(recipe, f"Apply trial {trial.number} of {study.name}")


class Searches(Applied):
    """All studies of the open document. `changed` tells a study and its new trials, `listed` of another list."""

    changed = Signal(object, object)
    stood = Signal()  # a study's job began, paused, went on or ended, or its best is another

    def __init__(self, session: Session) -> None:
        super().__init__(session, PAUSE)
        self.studies: dict[str, Study] = {}
        self.timed: float | None = None
        self._copies = Copies()
        self._frame = QTimer(self, singleShot=True, interval=FRAME)
        self._frame.timeout.connect(self._tell)
        session.queued.connect(self._let_pass)
        follow_saves(session)

    # -- what there is

    def _read(self) -> None:
        """Take the studies of another document, and out of a window that died what it had not saved."""
        self._forget()
        self.studies.clear()
        self._copies.forget()
        let_go()
        document = self._session.document
        if document:
            _unpack(self._session, document)
            own = records(document.project.extras)
            for name, held in (unsaved(document, {r.key for r in own.values()}) | own).items():
                if found := held_study(name, held, document):
                    self.studies[name] = found[0]
                    if found[1]:
                        self._note(found[0])
            if told := damage(document.project.extras, own):
                self._session.problem.emit(ProjectError(told, "All else was read."))
        self.listed.emit()

    def _keep(self, document: Document, name: str) -> None:
        if study := self.studies.get(name):
            document.keep(member_of(name), study.data())
            self._copies.keep(document, name)

    # -- running

    def start(self, spec: SearchSpec, recipe: Recipe | None = None) -> Study:
        """Begin a search, or go on with the one of that name; raises OptionsError where it cannot run."""
        document = self._session.open_document
        recipe = document.recipe if recipe is None else recipe
        space = expand(spec, document.graph, recipe)
        check_spec(spec, want := wanted(spec), recipe)
        check_grid(spec, space)
        check_source(space, document.project.source)
        if recipe == document.recipe:
            check_limits(space, document.graph, want)
        held = self.studies.get(spec.study) if spec.study else None
        if held and held.running:
            raise OptionsError(f"The study {spec.study!r} runs already.", "Wait for it, or stop it first.")
        if held and not _alike(held, spec, recipe):
            if held.trials:
                raise OptionsError(f"The study {spec.study!r} varies something else, or has another goal.",
                                   "Choose another name, or remove it first.")  # fmt: skip
            self.remove(held)  # no trial ever began, so that its name stands for nothing
            held = None
        if held is None:
            name = spec.study or new_name(spec, self.studies)
            compared = {"baseline": self._baseline(spec), "against": _against(self._session, spec)}
            held = self.studies[name] = Study(name, replace(spec, study=name), recipe, space, **compared)
        else:
            held.spec = replace(spec, study=held.name)
            held.went_on = max(held.trials, default=None)
        self._begin(held)
        return held

    def same(self, spec: SearchSpec, recipe: Recipe | None = None) -> Study | None:
        """A study that runs or waits and asks what a spec without a name asks."""
        recipe = self._session.open_document.recipe if recipe is None else recipe
        return next((s for s in self.studies.values() if s.running and s.recipe == recipe and not spec.study
                     and replace(s.spec, study="", trials=spec.trials) == spec), None)  # fmt: skip

    def go_on(self, study: Study, more: int = 0) -> None:
        """Go on where a study stopped; with `more` trials than it was asked for."""
        if study.running:
            return
        if more:
            study.spec = replace(study.spec, trials=study.done + more)
        study.went_on = max(study.trials, default=None)
        self._begin(study)

    def _begin(self, study: Study) -> None:
        study.error, study.why, study.ending = "", "", False
        self._submit(study)
        self._note(study)
        self.listed.emit()

    def _submit(self, study: Study) -> None:
        study.gives_way = False
        study.job = self._session.submit(f"Search {study.name}", self._work(study), lambda _: None)
        self._session.repeats.note(study.job, partial(_repeat, self, replace(study.spec, study="")), study.recipe)

    def _work(self, study: Study) -> SearchJob:
        document = self._session.open_document
        begin_record(record_path(document.store.folder, study.name), study.data(), study.key, document)
        job = search_job(study, document)
        study.by_hand.clear()
        return job

    def _rest(self, run: Study, result: Any) -> Rest | None:
        return Rest(self._work(run), run.held) if run.goes_on(result) else None

    def _baseline(self, spec: SearchSpec) -> dict[str, float]:
        """The baseline's figures; of accuracy and loss only those on the search's own data."""
        score, held = self._session.baseline, self._session.measures.options
        other = SCORES if (held.which, held.split) != (spec.score.which, spec.score.split) else ()
        names = (n for n in score.__dataclass_fields__ if n not in other)
        return {n: float(v) for n in names if (v := getattr(score, n)) is not None}

    def pause(self, study: Study) -> None:
        """Wait after the trial that runs; `again` goes on. One that has not begun leaves the queue."""
        study.held = study.job is not None
        if study.job and not study.gives_way:
            self._session.pause(study.job.id)

    def again(self, study: Study) -> None:
        """Let a paused search go on."""
        study.held = False
        if study.job:  # where it gives way, it queues up again
            self._session.resume(study.job.id)
            self._stands()

    def stop(self, study: Study, *, after_trial: bool = False) -> None:
        """End a search: now, or after the trial that it is at. What has come stays."""
        study.gives_way = study.held = False
        if study.job and not after_trial:
            self._session.cancel(study.job.id)
            return
        if study.job:
            study.ending = True
            self._session.stop_and_keep(study.job.id)
        self.changed.emit(study, ())
        self.stood.emit()

    def remove(self, study: Study) -> None:
        """Forget a study, in the project too; one that runs is stopped."""
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

    # -- hearing

    def _hear(self, heard: JobEvent) -> None:
        study = next((s for s in self.studies.values() if s.job and s.job.id == heard.job.id), None)
        if study is None:
            return
        event = heard.event
        if isinstance(event, PartialResult):
            self._found(study, event.part)
        elif isinstance(event, TERMINAL):
            self._ended(study, event)
        elif isinstance(event, Progress):
            self._draw()
        else:
            if isinstance(event, Paused | Continued):  # as it ends to give way, it continues too
                study.held = isinstance(event, Paused) or (study.held and study.gives_way)
            self._make_room()
            self._stands()

    def _found(self, study: Study, part: Any) -> None:
        if isinstance(part, Space):  # with each format as fitted to its weight
            study.space = part
        elif isinstance(part, tuple):  # what the storage holds of a study that goes on
            study.coming |= {t.number: t for t in part if study.trials.get(t.number) != t}
            self._draw()
        elif isinstance(part, str):
            self._session.problem.emit(StorageError(part, "The search goes on with the others."))
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
        self._tell(all_of=study)
        self.write()
        self.changed.emit(study, ())
        self.stood.emit()

    def _stands(self) -> None:
        self._tell()
        self.stood.emit()

    def _draw(self) -> None:
        if not self._frame.isActive():
            self._frame.start()

    def _tell(self, all_of: Study | None = None) -> None:
        """Tell what has come since the last time, of each study at once; of very many trials only as many as fit."""
        self._frame.stop()
        for study in list(self.studies.values()):
            news = study.take_some(None if study is all_of else max(CELLS // (len(study.space.choices) + 1), 8))
            before = study.best
            study.judge(news)
            if bool(before) != bool(study.best):
                self.stood.emit()
            if news or study.running:
                self.changed.emit(study, news)
            if study.fresh or study.coming:
                self._draw()

    def _make_room(self) -> None:
        """A job waits: a search that is paused must not keep it waiting."""
        for study in self.studies.values():
            if study.job and study.job.state == "paused" and not study.ending:
                self._give_way(study)

    def _let_pass(self) -> None:
        """A job has come: it goes after the trial that runs, or at once while gradients are gathered."""
        self._make_room()
        for study in self.studies.values():
            if study.job and study.job.state == "running" and not study.ending:
                self._give_way(study)

    # -- using

    def add_present(self, study: Study) -> None:
        """The configuration as it is now as a trial of a study; raises OptionsError where its space lacks it."""
        document = self._session.open_document
        study.by_hand.append(present_choices(study.space, document.graph, document.recipe))
        study.spec = replace(study.spec, trials=max(study.spec.trials, study.done + 1))
        if not study.running:
            self._begin(study)
        elif study.job and not study.gives_way and not self._split(study):  # else it is offered a moment later
            waits = study.job
            study.by_hand[:0] = getattr(waits.job, "by_hand", ())
            waits.job = self._work(study)


def _repeat(searches: Searches, spec: SearchSpec) -> None:
    """Begin a new study with the options of an ended one; raises OptionsError where it cannot run."""
    if running := searches.same(spec):
        raise OptionsError(f"The study {running.name!r} runs with these options.", "Wait for it, or stop it first.")
    searches.start(spec)


def _against(session: Session, spec: SearchSpec) -> dict[str, Any]:
    """The name of the baseline, and the samples of its accuracy: which were right only of the search's own data."""
    found = session.measures.accuracy(session.compared.recipe)
    told = {} if found is None else {k: v for k, v in asdict(found).items() if k != "value"}
    if session.measures.options != spec.score:
        told.pop("hits", None)
    return {"name": session.compared.name, **told}


def check_source(space: Space, source: SourceInfo) -> None:
    """Raises PassError where an architecture is to be varied that has no configuration."""
    if any(c.kind == "config" for c in space.choices):
        from espalier.passes.search.architecture.configuration import check_origin  # with what it needs of models

        check_origin(source)


def new_name(spec: SearchSpec, taken: Container[str]) -> str:
    """A name for a search that was given none: what it varies, and a number."""
    kinds = {v.kind for v in spec.space}
    kind = next(iter(kinds)) if len(kinds) == 1 else "mixed"
    head = {"format": "formats", "config": "architecture"}.get(kind, kind)
    return next(n for i in itertools.count(1) if (n := f"{head} {i}") not in taken)


def _unpack(session: Session, document: Document) -> None:
    """Journals that cannot be written are told; what was found is shown, and a search that goes on will fail."""
    try:
        project_studies.unpack(document.project.extras, document.store.folder)
    except EspalierError as error:
        session.problem.emit(error)


def search_job(study: Study, document: Document) -> SearchJob:
    """What the worker gets of a study."""
    source, base, folder = document.project.source, document.project.base, document.store.folder
    held = ((document.recipe.active, document.graph),) if document.recipe.active else ()
    wish = Search(study.spec, study.recipe, base, source)
    locations = document.store.locate(keys_of(base, document.graph))
    return SearchJob(wish, project_studies.url_for(folder, study.name), locations, folder, source, True,
                     held, tuple(study.by_hand))  # fmt: skip


def trial_job(study: Study, trial: Trial, path: Path, document: Document) -> TrialJob:
    """What the worker gets of a trial that is to be a project of its own."""
    source, base = document.project.source, document.project.base
    wish = Search(study.spec, study.recipe, base, source)
    return TrialJob(wish, study.space, trial.params, path, document.store.locate(keys_of(base)),
                    document.store.folder, source, trial.begins)  # fmt: skip


def held_study(name: str, held: Record, document: Document) -> tuple[Study, bool] | None:
    """A study of a project, and whether a window that died had found more; None where its formats are not known here.

    Trials that ran then were cut off.
    """
    try:
        space = held.space or expand(held.spec, document.graph, held.recipe)
        wanted(held.spec)
    except EspalierError:
        return None
    folder = document.store.folder
    more, forget = recovered(held.key, folder, name, ended(held.trials))
    study = Study(name, held.spec, held.recipe, space, key=held.key, baseline=held.baseline, against=held.against)
    for trial in (*held.trials, *more):
        study.take(cut_off(trial) if trial.state == "running" else trial)
    study.fresh.clear()
    study.judge(study.trials.values())
    # Until it is saved, this window may die too: what the dead one left goes only once it is written again.
    if not more or begin_record(record_path(folder, name), study.data(), study.key, document):
        forget()
    return study, bool(more)


def _alike(held: Study, spec: SearchSpec, recipe: Recipe) -> bool:
    """Whether a study can go on as `spec`: what it varies and wants is the same; how it is looked for may change."""
    same = ("space", "goals", "within", "summed", "train", "finetune", "score")
    return held.recipe == recipe and all(getattr(held.spec, n) == getattr(spec, n) for n in same)


def seconds_each(studies: Iterable[Study]) -> dict[str, float]:
    """How long a trial takes on this model, by what it trains (`none`, `after`, …), of those that have run."""
    found: dict[str, list[float]] = {}
    for study in studies:
        ran = (t.seconds for t in study.trials.values() if t.seconds and t.state == "complete" and not t.reused)
        found.setdefault(study.spec.train, []).extend(ran)
    return {train: sorted(each)[len(each) // 2] for train, each in found.items() if each}
