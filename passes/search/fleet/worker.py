"""A worker of a study: given the storage and the study's name, it runs trials until none is left, and queues trials of
dead workers again.
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
from espalier.passes.search.storage import disconnected, load_study, open_storage, outages
from espalier.passes.search.trial import Trial

if TYPE_CHECKING:
    from optuna.study import Study

    from espalier.passes.search.study import Plan

PARENT = "ESPALIER_PARENT"  # the pid of the process that started a worker; the worker ends with it
ENDED = ("complete", "pruned", "failed")


@dataclass(frozen=True, slots=True)
class JoinOptions:
    """Options of a worker. `project`: its own model; `trials` and `timeout` (seconds) limit its share, 0: no limit."""

    storage: str
    study: str
    project: str | None = None
    data: str | None = None
    trials: int = 0
    timeout: float = 0.0


@dataclass(slots=True)
class WorkerState:
    """The trials that a worker has run, and why it ended."""

    options: JoinOptions
    begun: float = field(default_factory=time.monotonic)
    ended: list[Trial] = field(default_factory=list[Trial])
    why: str = ""

    def enough(self) -> bool:
        """Whether it has reached a limit, or its parent has ended."""
        if (parent := os.environ.get(PARENT)) and os.getppid() != int(parent):
            return True
        over = self.options.timeout and time.monotonic() - self.begun >= self.options.timeout
        return bool(over) or bool(self.options.trials and len(self.ended) >= self.options.trials)


def join_plan(
    options: JoinOptions, workdir: Path, progress: Progress, tell: Callable[[str], None], state: WorkerState
) -> Plan:  # fmt: skip
    """The plan of an existing study, on a model that is fetched if necessary; raises StorageError."""
    from espalier.passes.search.study import Plan

    study = load_study(open_storage(options.storage), options.study)
    search_of(study)  # raises before a model is fetched
    received = receive(study, options.storage, workdir, options.project, tell)
    spec, recipe, _ = search_of(study, received.moved)
    score = replace(spec.score, data=options.data) if options.data else spec.score
    spec = replace(spec, study=study.study_name, score=score)
    project, opened = received.opened.project, received.opened
    context = Context(opened.store, spec.seed, progress, opened.callables, project.source.reading,
                      enough=state.enough, base=project.base)  # fmt: skip
    search = Search(spec, recipe, project.base, project.source)
    name = study.user_attrs.get("fingerprint", "") if received.moved or options.data else ""
    return Plan(search, context, options.storage, resume=True, salt=os.getpid() % 100_003, fingerprint=name)


# -- the loop


def work(plan: Plan, state: WorkerState, tell: Callable[[str], None]) -> Generator[Trial]:
    """Yield trials as they begin and end here, until the study ends, lost trials of other workers included."""
    with OUTAGE.reporting(tell):
        try:
            yield from _worked(plan, state, tell)
        except outages() as error:
            raise disconnected(plan.storage, error) from error


def _worked(plan: Plan, state: WorkerState, tell: Callable[[str], None]) -> Generator[Trial]:
    from optuna.exceptions import UpdateFinishedTrialError

    study = None
    while True:
        try:
            yield from _trials(plan, state)
            if state.enough():
                return
            study = study or load_study(open_storage(plan.storage), plan.search.spec.study)
            if not wait_for_others(study, state.enough, tell):
                return
        except UpdateFinishedTrialError:
            tell("A trial that ran here was ended by another worker.")


def _trials(plan: Plan, state: WorkerState) -> Generator[Trial]:
    from espalier.passes.search.study import begin

    running = begin(plan)
    with contextlib.closing(running.trials()) as trials:
        for trial in trials:
            if trial.state in ENDED and trial.worker == worker_name():
                state.ended.append(trial)
            yield trial
    state.why = running.why


def wait_for_others(
    study: Study, enough: Callable[[], bool], tell: Callable[[str], None], check: Callable[[], None] = lambda: None
) -> bool:
    """Wait until no trial runs; returns True as soon as one is lost and queued again."""
    from optuna.trial import TrialState

    monitor = WorkerMonitor(study)
    while not enough():
        check()
        if lost := monitor.lost():
            tell(f"Trial {', '.join(map(str, lost))} was lost with its worker and is queued again.")
            return True
        if not study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            return False
        time.sleep(min(1.0, INTERVAL))
    return False
