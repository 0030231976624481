"""Jobs and their events: what the window and the command line send to a worker process, and hear from it.

No Qt, no torch: the window imports this before its first paint.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from espalier.model.document.project import Project
from espalier.model.document.recipe import Recipe, Step
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import TensorKey
from espalier.model.sources.info import SourceInfo
from espalier.model.store.open_files import Version
from espalier.model.store.weights import Location, WeightStore
from espalier.model.trust import Origin
from espalier.passes.jobs.kernel import KernelJob

if TYPE_CHECKING:
    from espalier.passes.score import Score, Scorer
    from espalier.passes.search.search import Search
    from espalier.passes.search.space import Space
    from espalier.passes.sweep.results import Outcome
    from espalier.passes.sweep.sweep import Sweep

Locations = dict[TensorKey, Location]


# -- jobs: plain values that travel to the worker


@dataclass(frozen=True, slots=True)
class OpenJob:
    """Open a source or project."""

    spec: str
    workdir: Path
    inputs: tuple[str, ...] = ()
    seed: int = 0
    origin: Origin = Origin.FILE


@dataclass(frozen=True, slots=True)
class OpenResult:
    """A project with the places of its tensors; `problems` are texts by node.

    `scorer` has counted the graphs of `scores`, so that nobody who shows them has to. `version`: of a project's file,
    taken before it was read.
    """

    project: Project
    locations: Locations
    problems: tuple[Any, ...]
    seconds: dict[str, float]
    scorer: Scorer | None = None
    scores: tuple[tuple[Graph, Score], ...] = ()
    version: Version | None = None


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """Run a recipe on a base graph; `known` is (number of active steps, the graph after them) where that is known.

    `beside`: the result is looked at beside the document, which it does not change.
    """

    base: Graph
    recipe: Recipe
    locations: Locations
    workdir: Path
    source: SourceInfo
    known: tuple[int, Graph] | None = None
    beside: bool = False


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What each active step gave (a StepResult; None where it did not need to run), and new tensors' places."""

    graph: Graph
    results: tuple[Any, ...]
    locations: Locations


@dataclass(frozen=True, slots=True)
class AnalyseJob:
    """Run one analysis on a graph; `base` is what the recipe that led to it began with, for those that compare."""

    graph: Graph
    step: Step
    locations: Locations
    workdir: Path
    source: SourceInfo
    base: Graph | None = None


@dataclass(frozen=True, slots=True)
class SweepJob:
    """Run a sweep; each outcome comes as Found. `held`: graphs of known steps; `known`: outcomes not to run again."""

    sweep: Sweep
    base: Graph
    locations: Locations
    workdir: Path
    source: SourceInfo
    held: tuple[tuple[tuple[Step, ...], Graph], ...] = ()
    known: tuple[Outcome, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchJob:
    """Run a search on a base graph; its trials come as Found when they begin and when they have ended.

    `storage`: the URL of the study's storage. `resume`: go on with a study that is there. `held` as for sweeps.
    `by_hand`: choices of trials to run first. Before all come a text where records of the storage are damaged, the
    Space, each format as fitted, and a tuple of the trials that the study holds.
    """

    search: Search
    storage: str
    locations: Locations
    workdir: Path
    source: SourceInfo
    resume: bool = False
    held: tuple[tuple[tuple[Step, ...], Graph], ...] = ()
    by_hand: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class TrialJob:
    """Write a trial of another architecture, which no recipe leads to, as a project of its own."""

    search: Search
    space: Space
    params: dict[str, Any]
    path: Path
    locations: Locations
    workdir: Path
    source: SourceInfo
    begins: str = ""


@dataclass(frozen=True, slots=True)
class SaveJob:
    """Save a project: done in the program that asks, whatever its worker does; its result is a Saved.

    `store`: a view of the document's. `copy`: for recovery; the document's own file stays what it is. `over`: the
    version of the file that is to be replaced, None where it does not matter; `anyway`: also where it is another.
    `placing` hears, in the thread that saves, the new version just before it has the path.
    """

    project: Project
    store: WeightStore
    path: Path
    copy: bool = False
    over: Version | None = None
    anyway: bool = False
    placing: Callable[[Version], object] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ExportJob:
    """Hand a project on in a form of passes.export."""

    project: Project
    locations: Locations
    path: Path
    form: str
    workdir: Path
    leave_float: bool = False


@dataclass(frozen=True, slots=True)
class PluginJob:
    """Load the user's plug-ins afresh from files and folders; the result is a PluginState for each."""

    places: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """Not a job but a word to the one that runs: end soon, and keep what there is so far."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A word to the job that runs: wait where it next tells its progress, until a Continue, a Finish or a cancel."""


@dataclass(frozen=True, slots=True)
class Continue:
    """A word to a job that waits: go on."""


Word = Finish | Pause | Continue
Job = OpenJob | ReplayJob | AnalyseJob | SweepJob | SearchJob | TrialJob | SaveJob | ExportJob | PluginJob | KernelJob


def emptied(job: Job) -> Job:
    """A job that has ended, as lists keep it: what it did, without the graphs, tensors and results it was given."""
    none = Graph({})
    match job:
        case ReplayJob():
            return replace(job, base=none, locations={}, known=None)
        case AnalyseJob():
            return replace(job, graph=none, locations={}, base=None)
        case SweepJob():
            return replace(job, base=none, locations={}, held=(), known=())
        case SearchJob():
            return replace(job, search=replace(job.search, base=none), locations={}, held=(), by_hand=())
        case TrialJob():
            return replace(job, search=replace(job.search, base=none), locations={})
        case SaveJob(project=was):
            store = WeightStore(job.store.folder)  # with none of the files that a closed document had open
            return replace(job, project=Project(was.source, none, was.recipe, none), store=store, placing=None)
        case ExportJob(project=was):
            return replace(job, project=Project(was.source, none, was.recipe, none), locations={})
        case _:
            return job


# -- events: plain values that come back; each job ends with exactly one of Done, Failed, Cancelled


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker has loaded what it needs, and takes jobs from now on."""


@dataclass(frozen=True, slots=True)
class Started:
    """The worker took the job."""


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` (0 = unknown), with a few words."""

    done: int
    total: int
    text: str


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure while the job runs, such as the training loss at an optimiser step."""

    name: str
    step: int
    value: float


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that the job (or the user's model code) printed."""

    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """A part of the result, as soon as it is known."""

    part: Any


@dataclass(frozen=True, slots=True)
class Paused:
    """The job waits, as it was asked to."""


@dataclass(frozen=True, slots=True)
class Continued:
    """The job goes on."""


@dataclass(frozen=True, slots=True)
class Done:
    """The job's result; `seconds`: of the processor, by the thread that ran it, since its steps began.

    Another program on the machine makes a job last longer, not take more of these. The threads of torch work beside
    that thread and as long, so that it is about the time on a machine that does nothing else.
    """

    result: Any
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Yielded:
    """The job made room for one that waits, and waits itself; `result`: what it gave up to there.

    It never comes from the worker, which ends a part of the job as Done.
    """

    result: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """The job failed; `details` holds the traceback of a bug, empty for a user's mistake."""

    message: str
    hint: str = ""
    node: str | None = None
    details: str = ""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The job was cancelled."""


Event = Ready | Started | Progress | Metric | LogLine | Found | Paused | Continued | Yielded | Done | Failed | Stopped
TERMINAL = (Done, Failed, Stopped)
# What pickle raises for values that cannot travel.
UNSENDABLE = (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError)


@dataclass(slots=True)
class JobInfo:
    """A job as the window lists it, from its request to its end, with all the parts in which it may run.

    `state`: waiting (also between two parts), running, paused, done, failed or stopped. `metrics`: name →
    (step, value) in order.
    """

    id: int
    title: str
    job: Job
    state: str = "waiting"
    progress: Progress | None = None
    started: float = field(default_factory=time.monotonic)
    finished: float | None = None
    log: list[str] = field(default_factory=list)  # type: ignore[assignment]
    metrics: dict[str, list[tuple[int, float]]] = field(default_factory=dict)  # type: ignore[assignment]
    outcome: str = ""
    begun: bool = False
    waited: float = 0.0  # seconds that it was paused, or waited between two parts
    halted: float | None = None  # since when it is paused or waits
    first: tuple[int, int, float] | None = None  # done and total when its steps began, and the time worked until then

    def note(self, event: Event, now: float) -> None:
        """Take in an event."""
        match event:
            case Done() | Failed() | Stopped():
                self.state, self.finished = type(event).__name__.lower(), now
            case Started():
                self._start(now)
            case Progress(done, total):
                self.progress = event
                if self.first is None or self.first[1] != total or done < self.first[0]:
                    self.first = (done, total, self.worked(now))
            case LogLine(text):
                self.log.append(text)
            case Metric(name, step, value):
                self.metrics.setdefault(name, []).append((step, value))
            case Paused() | Yielded():
                self.state = "paused" if isinstance(event, Paused) else "waiting"
                self.halted = now if self.halted is None else self.halted
            case Continued():
                self._start(now)
            case _:
                pass

    def _start(self, now: float) -> None:
        """It runs: for the first time, or on after a pause."""
        self.state = "running"
        if not self.begun:
            self.begun, self.started = True, now
        elif self.halted is not None:
            self.waited += now - self.halted
        self.halted = None

    @property
    def took(self) -> float:
        """Seconds that it has run, once it has ended."""
        return self.worked(self.started if self.finished is None else self.finished)

    def worked(self, now: float) -> float:
        """Seconds that it has run, without pauses."""
        if not self.begun:
            return 0.0
        return (now if self.halted is None else self.halted) - self.started - self.waited

    def remaining(self, now: float) -> float | None:
        """Seconds that its steps still take at their pace so far, without what came before them; None: not known."""
        p, (first, _, before) = self.progress, self.first or (0, 0, 0.0)
        spent = self.worked(now) - before
        if p is None or p.total < 2 or not first < p.done < p.total or spent < 1:
            return None
        return spent / (p.done - first) * (p.total - p.done)


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event with the job that it belongs to."""

    job: JobInfo
    event: Event
