"""The sweeps of a document: run as jobs, received point by point, stored in the project, applied as recipes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal

from espalier.app.jobs.queue import Rest
from espalier.app.measured.live import is_evaluation
from espalier.app.session.document_runs import DocumentRuns
from espalier.app.translation import message, tr
from espalier.model.document.document import Document
from espalier.model.document.project import keys_of
from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError
from espalier.passes.jobs.kinds import (
    TERMINAL,
    Done,
    Failed,
    JobEvent,
    JobInfo,
    PartialResult,
    ReplayJob,
    ReplayResult,
    SweepJob,
)
from espalier.passes.sweep import journal
from espalier.passes.sweep.journal import Journal
from espalier.passes.sweep.results import Outcome, point_text
from espalier.passes.sweep.sweep import Sweep, axis_title, points
from espalier.passes.sweep.transferred import transferred

if TYPE_CHECKING:
    from espalier.app.session.session import Session

PAUSE = 1000  # milliseconds between two writes of new points


@dataclass(slots=True)
class Run:
    """A sweep and its outcomes; `name`: its member of the project file."""

    name: str
    sweep: Sweep
    outcomes: dict[tuple[int, int, int], Outcome] = field(default_factory=dict)  # type: ignore[assignment]
    job: JobInfo | None = None
    error: str = ""
    gives_way: bool = False

    @property
    def title(self) -> str:
        """Its title, or what it varies."""
        if self.sweep.title:
            return self.sweep.title
        steps = self.sweep.recipe.steps
        of = tr(" of {}", steps[self.sweep.axis.step].pass_name) if self.sweep.axis and len(steps) > 1 else ""
        return f"{axis_title(self.sweep)}{of}" if self.sweep.axis else tr("{} seeds", len(self.sweep.seeds))

    @property
    def running(self) -> bool:
        """Whether its job is queued or running."""
        return self.job is not None

    @property
    def missing(self) -> int:
        """Number of points without a score."""
        return len(points(self.sweep)) - sum(not o.error for o in self.outcomes.values())


def sweeps_of(session: Session) -> Sweeps:
    """The session's Sweeps, created once."""
    return session.findChild(Sweeps) or Sweeps(session)


class Sweeps(DocumentRuns):
    """All sweeps of the open document. `changed`: a point or the end of a run; `listed`: the list of runs changed."""

    changed = Signal(object)

    def __init__(self, session: Session) -> None:
        super().__init__(session, PAUSE)
        self.runs: dict[str, Run] = {}
        self.timed: dict[str, float] = {}
        if session.document is not None:
            self._read()

    # -- runs

    def _read(self) -> None:
        """Read the sweeps of another document."""
        self._forget()
        self.timed.clear()
        document = self._session.document
        stored = journal.journals(document.project.extras) if document else {}
        self.runs = {n: Run(n, j.sweep, {o.place: o for o in j.outcomes}) for n, j in stored.items()}
        for run in self.runs.values():
            self._learn(run.outcomes.values())
        self.listed.emit()

    def _keep(self, document: Document, name: str) -> None:
        if run := self.runs.get(name):
            document.keep(name, journal.dump(Journal(run.sweep, tuple(run.outcomes.values()))))

    # -- running

    def start(self, sweep: Sweep) -> Run:
        """Run the missing points of a sweep; raises OptionsError if it cannot run or is running."""
        points(sweep)
        document = self._session.open_document
        run = next((r for r in self.runs.values() if r.sweep == sweep), None)
        if run and run.running:
            raise OptionsError("This sweep runs already.", "Wait for it, or stop it first.")
        if run is None:
            names = (*document.project.extras, *self.runs)
            run = self.runs[name] = Run(name := journal.member(names), sweep)
        run.error = ""
        self._submit(run)
        self._note(run)
        self.listed.emit()
        return run

    def _submit(self, run: Run) -> None:
        run.gives_way = False
        run.job = self._session.submit(tr("Sweep {}", run.title), self._work(run), lambda _: None)
        recipe, sweep = self._session.open_document.recipe, run.sweep
        self._session.repeats.note(run.job, lambda: self._repeat(sweep, recipe), recipe)

    def _repeat(self, sweep: Sweep, before: Recipe) -> None:
        """Run a sweep again on the present recipe; raises OptionsError where there is nothing to run."""
        wanted = transferred(sweep, before, self._session.open_document.recipe)
        run = next((r for r in self.runs.values() if r.sweep == wanted), None)
        if run and not run.running and not run.missing:
            raise OptionsError("All points of this sweep are measured.", "Change the recipe or the values first.")
        self.start(wanted)

    def _work(self, run: Run) -> SweepJob:
        """The job of a sweep, with the outcomes of finished points."""
        document = self._session.open_document
        source, base = document.project.source, document.project.base
        graphs = ((document.recipe.active, document.graph),) if document.recipe.active else ()
        locations = document.store.locate(keys_of(base, document.graph))
        outcomes = tuple(o for r in self.runs.values() for o in r.outcomes.values() if not o.error)
        return SweepJob(run.sweep, base, locations, document.store.folder, source, graphs, outcomes)

    def _rest(self, run: Run, result: Any) -> Rest | None:
        return Rest(self._work(run)) if len(run.outcomes) < len(points(run.sweep)) else None

    def stop(self, run: Run, *, after_point: bool = False) -> None:
        """Stop a run now or after the running point; its points are kept."""
        run.gives_way = False
        if run.job and after_point:
            self._session.stop_and_keep(run.job.id)
        elif run.job:
            self._session.cancel(run.job.id)

    def remove(self, run: Run) -> None:
        """Remove a sweep, also from the project; a running one is stopped."""
        self.stop(run)
        self.runs.pop(run.name, None)
        self._unwritten.discard(run.name)
        self._session.open_document.keep(run.name, None)
        self.listed.emit()
        self.stored.emit()

    def _on_job_event(self, job_event: JobEvent) -> None:
        self._time(job_event)
        run = next((r for r in self.runs.values() if r.job and r.job.id == job_event.job.id), None)
        if run is None:
            return
        if isinstance(job_event.event, PartialResult) and isinstance(job_event.event.part, Outcome):
            run.outcomes[job_event.event.part.place] = job_event.event.part
            self._learn([job_event.event.part])
            self._note(run)
            self._give_way(run)
        elif isinstance(job_event.event, TERMINAL):
            run.job = None
            run.error = message(job_event.event.message) if isinstance(job_event.event, Failed) else ""
            self.write()
        self.changed.emit(run)

    # -- durations

    def _learn(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self.timed.update(outcome.seconds)

    def _time(self, job_event: JobEvent) -> None:
        """Record the duration of each pass on this model, from the jobs of the window."""
        job = job_event.job
        if not isinstance(job_event.event, Done):
            return
        if is_evaluation(job) and job.finished:
            self.timed["evaluate"] = job.took
        elif isinstance(job.job, ReplayJob) and isinstance(job_event.event.result, ReplayResult):
            results = job_event.event.result.results
            self.timed.update({r.report.pass_name: r.seconds for r in results if r and r.seconds})

    # -- using

    def recipe_of(self, run: Run, outcome: Outcome) -> Recipe:
        """The recipe of a point."""
        wish = next(p for p in points(run.sweep) if (p.variant, p.x, p.seed) == outcome.place)
        return wish.recipe

    def use(self, run: Run, outcome: Outcome) -> None:
        """Apply a point's recipe in one undo step, with its score."""
        recipe = self.recipe_of(run, outcome)
        if outcome.score.get("loss") is not None:
            self._session.record_score(recipe, run.sweep.score, outcome.score)
        self._session.set_recipe(recipe, tr("Use {}", point_text(run.sweep, outcome)))
