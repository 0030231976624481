"""A search as it runs: ask, build the recipe, measure, tell; each trial is in the storage before it is yielded.

`run` is a generator, so that the window's worker, the command line and fleets drive the same loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.study import Study

from espalier.model.document.graph_json import fingerprint
from espalier.model.errors import JobError, StorageError
from espalier.passes.base import Cancelled, Context
from espalier.passes.recipes.replay import Memo
from espalier.passes.search.data_check import check_data
from espalier.passes.search.empty_studies import note_creator, remove_abandoned, removed_if_empty
from espalier.passes.search.fleet import heartbeat
from espalier.passes.search.fleet.claim import claimed, is_settled, is_spare
from espalier.passes.search.goals import MAIN, Wanted, main_of, with_main
from espalier.passes.search.prepare import Prepared, prepared
from espalier.passes.search.records import ABOUT, STATES, about, trial_of
from espalier.passes.search.refine import FRONT
from espalier.passes.search.samplers import coded, pruner_of, sampler_of, stored
from espalier.passes.search.search import Search
from espalier.passes.search.space import Space
from espalier.passes.search.stop import reason
from espalier.passes.search.storage import open_storage, open_study, path_of, study_names
from espalier.passes.search.time_budget import TimeBudget
from espalier.passes.search.trial import Trial
from espalier.passes.search.trial_executor import TrialExecutor
from espalier.passes.search.trial_run import TrialRun
from espalier.passes.search.warm_start import WarmStart

MAX_FAILURES = 10  # a search ends after this many trials if all of them failed


@dataclass(slots=True)
class Plan:
    """A search with its storage. `salt` keeps workers of one study from proposing the same configurations.

    `by_hand`: parameters of trials to run first. `on_start`: called with the fitted space and the trials that the study
    holds. `fingerprint`: the study's own, for a worker that has the data at another path.
    """

    search: Search
    context: Context
    storage: str
    resume: bool = False
    salt: int = 0
    memo: Memo = field(default_factory=Memo)
    runner: Callable[[Search, Prepared, Context, Memo], TrialRun] | None = None
    by_hand: tuple[dict[str, Any], ...] = ()
    on_start: Callable[[Space, tuple[Trial, ...]], None] | None = None
    fingerprint: str = ""


def run(plan: Plan) -> Generator[Trial, None, str]:
    """Yield each trial when it begins and when it has ended, of other workers too; return why the search ended.

    Raises OptionsError, DataError or StorageError before any trial runs. After `context.enough` no further trial
    begins; Cancelled or an interrupt puts the running trial back into the queue.
    """
    return (yield from begin(plan).trials())


def begin(plan: Plan) -> StudyRun:
    """Check the search and open its study; raises OptionsError, DataError, StorageError."""
    spec = plan.search.spec
    if any(goal.figure == MAIN for goal in spec.goals):
        spec = with_main(spec, main_of(spec.score, plan.context.reading))
        plan = replace(plan, search=replace(plan.search, spec=spec))
    ready = prepared(plan.search, plan.context, plan.memo)
    path = path_of(plan.storage)
    if not plan.resume or (path is not None and not path.exists()):
        _check(plan, ready)  # before anything is written
        return _study_run(plan, ready, create_or_resume(plan, ready, open_storage(plan.storage)))
    storage = open_storage(plan.storage)
    exists = plan.search.spec.study in study_names(storage)
    if not exists:
        _check(plan, ready)
    study_run = _study_run(plan, ready, create_or_resume(plan, ready, storage))
    if exists and study_run.has_trials_to_run:
        _check(plan, ready)
    return study_run


def _study_run(plan: Plan, ready: Prepared, study: Study) -> StudyRun:
    with removed_if_empty(study):
        return StudyRun(plan, ready, study)


def _check(plan: Plan, ready: Prepared) -> None:
    if plan.runner is None:
        check_data(plan.search, ready.first, ready.want, plan.context, other=ready.architect is not None)


def create_or_resume(plan: Plan, ready: Prepared, storage: BaseStorage) -> Study:
    """The study of the search; raises StorageError where the name is taken."""
    spec = plan.search.spec
    exists = not remove_abandoned(storage, spec.study) and spec.study in study_names(storage)
    if exists and not plan.resume:
        raise StorageError(f"The storage has a study {spec.study!r} already.",
                           "Resume it (--resume), or give the search another name.")  # fmt: skip
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = open_study(storage, spec.study, ready.want.directions, plan.fingerprint or ready.identity)
    if not exists:
        note_creator(study)
    if ABOUT not in study.user_attrs:
        study.set_user_attr(ABOUT, about(spec, plan.search.recipe, ready.space, fingerprint(plan.search.base)))
        study.set_user_attr("coded", {k: list(v) for k, v in coded(spec, ready.space).items()})
        _name_metrics(study, ready.want)
    seed = (spec.seed + 1_000_003 * (len(study.get_trials(deepcopy=False)) + plan.salt)) % 2**31
    study.sampler = sampler_of(spec, ready.space, spec.seed if spec.sampler == "qmc" else seed)
    study.pruner = pruner_of(spec)
    return study


def _name_metrics(study: Study, want: Wanted) -> None:
    """Set Optuna's metric names, for other programs that open the storage."""
    import warnings

    names = ["sum"] if want.summed else [g.figure for g in want.goals]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study.set_metric_names(names)


def _refuse_only_failures(trials: Iterable[Trial]) -> None:
    """Raise JobError if many trials have ended and all of them failed."""
    ended = [t for t in trials if t.state in ("complete", "pruned", "failed")]
    if len(ended) >= MAX_FAILURES and all(t.state == "failed" for t in ended):
        raise JobError(f"All {len(ended)} trials failed; the last: {ended[-1].error}",
                       "Correct the space or the recipe; the trials are kept with their reasons.")  # fmt: skip


class StudyRun:
    """One worker's loop over a study. `records`: the last known state of each trial, by number."""

    def __init__(self, plan: Plan, ready: Prepared, study: Study) -> None:
        self.plan, self.study = plan, study
        self.spec, self.space, self.want = plan.search.spec, ready.space, ready.want
        self.context = plan.context
        self.monitor = heartbeat.WorkerMonitor(study)
        self.time = TimeBudget(plan.context.progress, self.spec.timeout)
        self.runner = (
            ready.runner(plan.search, plan.context, plan.memo)
            if plan.runner is None
            else plan.runner(plan.search, ready, plan.context, plan.memo)
        )
        self.executor = TrialExecutor(study, plan.search, ready, self.runner, plan.context, self.time)
        self.records = self.executor.records
        self.warm_start = WarmStart(study, plan.search, ready, plan.context, self.time, plan.salt)
        self.why = ""  # why the search ended
        self._unreported: list[int] = []  # trials of other workers that changed since they were last yielded

    def trials(self) -> Generator[Trial, None, str]:
        """Run trials until the search ends; returns why, as `why` says too."""
        with removed_if_empty(self.study):
            yield from self._trials()
        return self.why

    def _trials(self) -> Generator[Trial]:
        if self.plan.on_start is not None:
            self.plan.on_start(self.space, tuple(self.records.values()))
        self._enqueue_starts()
        seconds: float | None = None  # of the trial that has just ended
        while not (why := self.ended()):
            yield from self._changes()
            if seconds is not None and self.warm_start.refine(self.records.values(), seconds, self.executor.done):
                seconds = None
                continue  # gathering took time: check again whether the search ends
            if (params := self.warm_start.next(self.records.values(), self.runner)) is not None:
                self._enqueue(params, FRONT)
            if trial := claimed(self.study, self.spec.trials):
                yield from self._one(trial)
                _refuse_only_failures(self.records.values())
                seconds = self.records[trial.number].seconds or 0.0
        yield from self._changes()
        self.why = why

    def _enqueue_starts(self) -> None:
        if not self.records:
            for params in self.warm_start.first():
                self._enqueue(params, FRONT)
        for params in self.plan.by_hand:
            self._enqueue(self.space.checked(params), "hand")

    def _enqueue(self, params: Mapping[str, Any], origin: str) -> None:
        self.study.enqueue_trial(stored(params, self.executor.codes), user_attrs={"origin": origin})

    def ended(self) -> str:
        """Why no further trial begins; empty while the search continues."""
        if self.context.enough():
            return "as asked"
        self.monitor.lost()
        self._read_others()
        self.executor.progress(f"trial {self.done + 1}")
        return reason(self.spec, self.want, self.space, self.study, self.records, self.time.now())

    @property
    def has_trials_to_run(self) -> bool:
        """Whether the records leave trials to run; a running one may have lost its worker."""
        runs = any(t.state == "running" for t in self.records.values())
        return runs or not reason(self.spec, self.want, self.space, self.study, self.records, 0.0)

    def _read_others(self) -> None:
        """Read the trials that other workers have changed."""
        for frozen in self.study.get_trials(deepcopy=False):
            record = self.records.get(frozen.number)
            if is_spare(frozen) or (record is None and not is_settled(frozen)):
                continue  # it may never begin
            if record is None or (record.state in ("running", "waiting") and STATES[frozen.state.name] != record.state):
                self.records[frozen.number] = trial_of(frozen, self.executor.codes)
                self._unreported.append(frozen.number)

    def _changes(self) -> Iterator[Trial]:
        numbers, self._unreported = self._unreported, []
        yield from (self.records[n] for n in numbers)

    @property
    def done(self) -> int:
        """The number of ended trials that count."""
        return self.executor.done

    def _one(self, trial: optuna.Trial) -> Iterator[Trial]:
        try:
            ended = yield from self.executor.run(trial)
        except (Cancelled, KeyboardInterrupt, GeneratorExit):
            heartbeat.give_back(self.study, heartbeat.id_of(trial))
            raise
        yield ended
