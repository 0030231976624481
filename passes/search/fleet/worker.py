"""One worker's part in a study: it needs only the storage and the study's name, runs trials until there are none left,
and looks after those whose workers died.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.passes.base import Context, Progress
from espalier.passes.search.fleet.heartbeat import INTERVAL, WorkerMonitor, worker_name
from espalier.passes.search.fleet.model_transfer import receive
from espalier.passes.search.outage import OUTAGE
from espalier.passes.search.records import search_of
from espalier.passes.search.search import Search
from espalier.passes.search.storage import broken_off, load_study, open_storage, outages
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from optuna.study import Study

    from espalier.passes.search.study import Plan

PARENT = "ESPALIER_PARENT"  # the process that a worker was started for, and does not outlive
ENDED = ("complete", "pruned", "failed")


@dataclass(frozen=True, slots=True)
class JoinOptions:
    """What a worker joins. `project`: a model of its own; `trials` and `timeout` end its part, 0 sets no bound."""

    storage: str
    study: str
    project: str | None = None
    data: str | None = None
    trials: int = 0
    timeout: float = 0.0


@dataclass(slots=True)
class WorkerState:
    """What a worker has done so far, and whether that is enough."""

    wish: JoinOptions
    begun: float = field(default_factory=time.monotonic)
    ended: list[Trial] = field(default_factory=list[Trial])
    why: str = ""

    def enough(self) -> bool:
        """Whether it has done its share."""
        if (parent := os.environ.get(PARENT)) and os.getppid() != int(parent):
            return True
        over = self.wish.timeout and time.monotonic() - self.begun >= self.wish.timeout
        return bool(over) or bool(self.wish.trials and len(self.ended) >= self.wish.trials)


def joined(
    wish: JoinOptions, workdir: Path, progress: Progress, tell: Callable[[str], None], part: WorkerState
) -> Plan:  # fmt: skip
    """The search of a study that is there, on a model that is here; raises StorageError."""
    from espalier.passes.search.study import Plan

    study = load_study(open_storage(wish.storage), wish.study)
    search_of(study)  # before a model is fetched
    received = receive(study, wish.storage, workdir, wish.project, tell)
    spec, recipe, _ = search_of(study, received.moved)
    score = replace(spec.score, data=wish.data) if wish.data else spec.score
    spec = replace(spec, study=study.study_name, score=score)
    project, opened = received.opened.project, received.opened
    context = Context(opened.store, spec.seed, progress, opened.callables, project.source.reading,
                      enough=part.enough, base=project.base)  # fmt: skip
    search = Search(spec, recipe, project.base, project.source)
    name = study.user_attrs.get("fingerprint", "") if received.moved or wish.data else ""
    return Plan(search, context, wish.storage, resume=True, salt=os.getpid() % 100_003, fingerprint=name)


# -- the loop


def work(plan: Plan, part: WorkerState, tell: Callable[[str], None]) -> Generator[Trial]:
    """Trials as they begin and end here. Ends when the study has, also the trials of workers that die meanwhile."""
    with OUTAGE.told(tell):
        try:
            yield from _worked(plan, part, tell)
        except outages() as error:
            raise broken_off(plan.storage, error) from error


def _worked(plan: Plan, part: WorkerState, tell: Callable[[str], None]) -> Generator[Trial]:
    from optuna.exceptions import UpdateFinishedTrialError

    study = None
    while True:
        try:
            yield from _trials(plan, part)
            if part.enough():
                return
            study = study or load_study(open_storage(plan.storage), plan.search.spec.study)
            if not wait_for_others(study, part.enough, tell):
                return
        except UpdateFinishedTrialError:
            tell("A trial that ran here was ended by another worker.")


def _trials(plan: Plan, part: WorkerState) -> Generator[Trial]:
    from espalier.passes.search.study import begin

    running = begin(plan)
    with contextlib.closing(running.trials()) as trials:
        for trial in trials:
            if trial.state in ENDED and trial.worker == worker_name():
                part.ended.append(trial)
            yield trial
    part.why = running.why


def wait_for_others(
    study: Study, enough: Callable[[], bool], tell: Callable[[str], None], look: Callable[[], None] = lambda: None
) -> bool:
    """Until no trial runs anywhere; True where one was lost, so that there is something to do."""
    from optuna.trial import TrialState

    watch = WorkerMonitor(study)
    while not enough():
        look()
        if lost := watch.lost():
            tell(f"Trial {', '.join(map(str, lost))} was lost with its worker, and is offered again.")
            return True
        if not study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            return False
        time.sleep(min(1.0, INTERVAL))
    return False
