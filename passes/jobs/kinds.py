"""Jobs and events: the messages from the window or the command line to a worker process and back.

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
from espalier.passes.export.settings import OnnxOptions
from espalier.passes.jobs.kernel import KernelJob

if TYPE_CHECKING:
    from espalier.passes.export.checking.target import CheckOptions
    from espalier.passes.score import Score, Scorer
    from espalier.passes.search.search import Search
    from espalier.passes.search.space import Space
    from espalier.passes.sweep.results import Outcome
    from espalier.passes.sweep.sweep import Sweep

Locations = dict[TensorKey, Location]


# -- jobs: plain values sent to the worker


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
    """A project with the locations of its tensors; `problems` are texts by node.

    `scorer` has cached the costs of the graphs in `scores`. `version`: of the project file before it was read.
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
    """Run a recipe on a base graph. `cached`: (number of active steps, the graph after them), if available.

    `beside`: the result is looked at beside the document, which it does not change.
    """

    base: Graph
    recipe: Recipe
    locations: Locations
    workdir: Path
    source: SourceInfo
    cached: tuple[int, Graph] | None = None
    beside: bool = False


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Results of the active steps (StepResult, or None for steps that were cached), and locations of new tensors."""

    graph: Graph
    results: tuple[Any, ...]
    locations: Locations


@dataclass(frozen=True, slots=True)
class AnalyseJob:
    """Run an analysis on a graph; `base`: the graph before the recipe, for comparisons."""

    graph: Graph
    step: Step
    locations: Locations
    workdir: Path
    source: SourceInfo
    base: Graph | None = None


@dataclass(frozen=True, slots=True)
class SweepJob:
    """Run a sweep; sends outcomes as PartialResult. `graphs`: cached graphs by steps; `outcomes`: of earlier points."""

    sweep: Sweep
    base: Graph
    locations: Locations
    workdir: Path
    source: SourceInfo
    graphs: tuple[tuple[tuple[Step, ...], Graph], ...] = ()
    outcomes: tuple[Outcome, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchJob:
    """Run a search on a base graph; sends trials as PartialResult when they start and when they end.

    `storage`: URL of the study's storage. `resume`: continue an existing study. `graphs`: as for sweeps. `by_hand`:
    choices of trials to run first. Before the trials it sends a text if records of the storage are damaged, the Space
    with fitted formats, and a tuple of the stored trials.
    """

    search: Search
    storage: str
    locations: Locations
    workdir: Path
    source: SourceInfo
    resume: bool = False
    graphs: tuple[tuple[tuple[Step, ...], Graph], ...] = ()
    by_hand: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class TrialJob:
    """Write a trial of another architecture, which no recipe can express, as a project."""

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
    """Save a project, in the calling process; the result is a Saved.

    `store`: a view of the document's store. `copy`: a recovery copy; does not change the document's file. `over`: the
    expected version of the file to replace, None for any; `anyway`: replace another version too. `placing` is called
    in the saving thread with the new version just before the file is renamed to `path`.
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
    """Export a project in a format of passes.export. `check`: options of measuring the file in its runtime."""

    project: Project
    locations: Locations
    path: Path
    form: str
    workdir: Path
    leave_float: bool = False
    onnx: OnnxOptions = field(default_factory=OnnxOptions)
    check: CheckOptions | None = None


@dataclass(frozen=True, slots=True)
class PluginJob:
    """Reload the user's plug-ins from files and folders; the result is a PluginState per plug-in."""

    places: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """A command to the running job: stop early and return the result so far."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A command to the running job: pause at its next progress report, until Continue, Finish or a cancellation."""


@dataclass(frozen=True, slots=True)
class Continue:
    """A command to a paused job: continue."""


Command = Finish | Pause | Continue
Job = OpenJob | ReplayJob | AnalyseJob | SweepJob | SearchJob | TrialJob | SaveJob | ExportJob | PluginJob | KernelJob


def without_data(job: Job) -> Job:
    """An ended job without its graphs, tensors and results, for lists of jobs."""
    none = Graph({})
    match job:
        case ReplayJob():
            return replace(job, base=none, locations={}, cached=None)
        case AnalyseJob():
            return replace(job, graph=none, locations={}, base=None)
        case SweepJob():
            return replace(job, base=none, locations={}, graphs=(), outcomes=())
        case SearchJob():
            return replace(job, search=replace(job.search, base=none), locations={}, graphs=(), by_hand=())
        case TrialJob():
            return replace(job, search=replace(job.search, base=none), locations={})
        case SaveJob(project=old):
            store = WeightStore(job.store.folder)  # without open files of a closed document
            return replace(job, project=Project(old.source, none, old.recipe, none), store=store, placing=None)
        case ExportJob(project=old):
            return replace(job, project=Project(old.source, none, old.recipe, none), locations={})
        case _:
            return job


# -- events: plain values sent back; each job ends with exactly one of Done, Failed, Stopped


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker has loaded its libraries and accepts jobs."""


@dataclass(frozen=True, slots=True)
class Started:
    """The worker has started the job."""


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` (0 = unknown), with a short text."""

    done: int
    total: int
    text: str


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of the running job, such as the training loss at an optimiser step."""

    name: str
    step: int
    value: float


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line printed by the job or by the user's model code."""

    text: str


@dataclass(frozen=True, slots=True)
class PartialResult:
    """A part of the result, sent as soon as it is available."""

    part: Any


@dataclass(frozen=True, slots=True)
class Paused:
    """The job is paused, as requested."""


@dataclass(frozen=True, slots=True)
class Continued:
    """The job continues."""


@dataclass(frozen=True, slots=True)
class Done:
    """The job's result; `seconds`: processor time of the thread that ran it, since its steps began.

    Other programs on the machine make a job last longer but do not change this time. The threads of torch run in
    parallel for as long, so it is approximately the run time on an idle machine.
    """

    result: Any
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Yielded:
    """The job yielded to a queued one and is queued again; `result`: its result so far.

    Sent by the runner; the worker ends each part of a job with Done.
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


Event = (
    Ready
    | Started
    | Progress
    | Metric
    | LogLine
    | PartialResult
    | Paused
    | Continued
    | Yielded
    | Done
    | Failed
    | Stopped
)
TERMINAL = (Done, Failed, Stopped)
# What pickle raises for values that cannot be sent.
UNSENDABLE = (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError)


@dataclass(slots=True)
class JobInfo:
    """A job in the window's list, from request to end, over all parts in which it runs.

    `state`: waiting (also between two parts), running, paused, done, failed or stopped. `metrics`: name →
    (step, value) in order. `waits`: why a waiting job does not run beside the others, if it is for lack of memory.
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
    waits: str = ""
    begun: bool = False
    waited: float = 0.0  # seconds paused or queued between two parts
    idle_since: float | None = None  # start of the present pause
    first: tuple[int, int, float] | None = None  # done and total at its first step, and the seconds run before

    def note(self, event: Event, now: float) -> None:
        """Update the state by an event."""
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
                self.idle_since = now if self.idle_since is None else self.idle_since
            case Continued():
                self._start(now)
            case _:
                pass

    def _start(self, now: float) -> None:
        """Set the state to running, for the first time or after a pause."""
        self.state = "running"
        if not self.begun:
            self.begun, self.started = True, now
        elif self.idle_since is not None:
            self.waited += now - self.idle_since
        self.idle_since = None

    @property
    def took(self) -> float:
        """Seconds that an ended job has run."""
        return self.worked(self.started if self.finished is None else self.finished)

    def worked(self, now: float) -> float:
        """Seconds that the job has run, without pauses."""
        if not self.begun:
            return 0.0
        return (now if self.idle_since is None else self.idle_since) - self.started - self.waited

    def remaining(self, now: float) -> float | None:
        """Estimated remaining seconds at the mean time per step so far, without the set-up; None if unknown."""
        p, (first, _, before) = self.progress, self.first or (0, 0, 0.0)
        spent = self.worked(now) - before
        if p is None or p.total < 2 or not first < p.done < p.total or spent < 1:
            return None
        return spent / (p.done - first) * (p.total - p.done)


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event with its job."""

    job: JobInfo
    event: Event
