"""A search as it runs: ask, build the recipe, measure, tell; each trial is in the storage before it is handed on.

`run` is a generator, so that the window's worker, the command line and fleets drive the same loop.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import TrialState

from espalier.model.document.graph_json import fingerprint
from espalier.model.errors import EspalierError, JobError, StorageError
from espalier.passes.base import Cancelled, Context
from espalier.passes.recipes.replay import Memo
from espalier.passes.search.data_check import check_data
from espalier.passes.search.empty_studies import note_creator, remove_abandoned, removed_if_empty
from espalier.passes.search.fleet import heartbeat
from espalier.passes.search.fleet.claim import claimed, is_settled, is_spare
from espalier.passes.search.goals import Wanted, best
from espalier.passes.search.inherited_weights import is_better, new_place, parent_of, tidy
from espalier.passes.search.predicted_front import FrontProposer
from espalier.passes.search.prepare import Prepared, prepared
from espalier.passes.search.records import ABOUT, STATES, about, coded_values, constrain, trial_of, trials_of
from espalier.passes.search.refine import FRONT
from espalier.passes.search.samplers import coded, pruner_of, sampler_of, stored, suggest
from espalier.passes.search.search import Search
from espalier.passes.search.space import Space
from espalier.passes.search.storage import open_storage, open_study, path_of, study_names
from espalier.passes.search.time_budget import TimeBudget
from espalier.passes.search.trial import Trial
from espalier.passes.search.trial_pruner import TrialPruner
from espalier.passes.search.trial_run import EndedEarly, Invalid, Order, TrialRun
from espalier.passes.sweep.run import FAULTS
from espalier.passes.training.curve import thinned

GATHERING = 15.0  # seconds at least of gradients between two trials
HOPELESS = 10  # so many failures, and nothing else, end a search
SAMPLED = ("tpe", "random", "grid", "qmc")  # samplers that learn of a missed constraint from a pruned trial


@dataclass(slots=True)
class Plan:
    """A search that is ready to run. `salt` keeps workers of one study from proposing the same.

    `by_hand`: choices of trials to run first. `heard`: is told the space as fitted and what the study holds already.
    `fingerprint`: the study's own, where a worker has its data at another path.
    """

    search: Search
    context: Context
    storage: str
    resume: bool = False
    salt: int = 0
    memo: Memo = field(default_factory=Memo)
    runner: Callable[[Search, Prepared, Context, Memo], TrialRun] | None = None
    by_hand: tuple[dict[str, Any], ...] = ()
    heard: Callable[[Space, tuple[Trial, ...]], None] | None = None
    fingerprint: str = ""


def run(plan: Plan) -> Generator[Trial, None, str]:
    """Each trial when it begins and when it has ended, of other workers too; raises what is wrong before any runs.

    Returns why it ended. After `context.enough` no further trial begins; a Cancelled or an interrupt gives the running
    one back.
    """
    return (yield from begin(plan).trials())


def begin(plan: Plan) -> Running:
    """A search that is ready to run, its study open; raises what is wrong with it."""
    ready = prepared(plan.search, plan.context, plan.memo)
    place = path_of(plan.storage)
    if not plan.resume or (place is not None and not place.exists()):
        _check(plan, ready)  # before anything is written
        return _running(plan, ready, opened(plan, ready, open_storage(plan.storage)))
    storage = open_storage(plan.storage)
    there = plan.search.spec.study in study_names(storage)
    if not there:
        _check(plan, ready)
    running = _running(plan, ready, opened(plan, ready, storage))
    if there and running.goes_on:
        _check(plan, ready)
    return running


def _running(plan: Plan, ready: Prepared, study: Study) -> Running:
    with removed_if_empty(study):
        return Running(plan, ready, study)


def _check(plan: Plan, ready: Prepared) -> None:
    if plan.runner is None:
        check_data(plan.search, ready.first, ready.want, plan.context, other=ready.architect is not None)


def opened(plan: Plan, ready: Prepared, storage: BaseStorage) -> Study:
    """The study of the search, made or gone on with; raises StorageError."""
    spec = plan.search.spec
    there = not remove_abandoned(storage, spec.study) and spec.study in study_names(storage)
    if there and not plan.resume:
        raise StorageError(f"The storage has a study {spec.study!r} already.",
                           "Resume it (--resume), or give the search another name.")  # fmt: skip
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = open_study(storage, spec.study, ready.want.directions, plan.fingerprint or ready.fingerprint)
    if not there:
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
    """Names for whoever opens the storage with another program."""
    import warnings

    names = ["sum"] if want.summed else [g.figure for g in want.goals]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study.set_metric_names(names)


def _aside(runner: TrialRun) -> dict[str, Any]:
    """What goes with the figures of the trial that ran last: its accuracy's noise, what holds its bits."""
    return {name: getattr(runner, name, {}) for name in ("noise", "bits")}


def _refuse_nothing(trials: Iterable[Trial]) -> None:
    """Raise JobError where many trials have ended, and all of them failed."""
    ended = [t for t in trials if t.state in ("complete", "pruned", "failed")]
    if len(ended) >= HOPELESS and all(t.state == "failed" for t in ended):
        raise JobError(f"All {len(ended)} trials failed; the last: {ended[-1].error}",
                       "Correct the space or the recipe; the trials are kept with their reasons.")  # fmt: skip


def _strange(name: str, figures: Mapping[str, float]) -> str:
    """Why a goal has no number."""
    if name in figures:
        return f"{name} is {figures[name]}: no number to compare."
    return f"{name} is not known of this configuration. Let weights and inputs of all layers take formats."


class Running:
    """One worker's part in a study. `told`: all that is known of its trials, by their numbers."""

    def __init__(self, plan: Plan, ready: Prepared, study: Study) -> None:
        self.plan, self.ready, self.study = plan, ready, study
        self.spec, self.space, self.want = plan.search.spec, ready.space, ready.want
        self.context = plan.context
        self.lost = heartbeat.WorkerMonitor(study)
        self.proposer = FrontProposer(
            study, self.space, ready.graph, self.want, self.spec.warm, self.spec.seed + plan.salt
        )
        self.codes = coded_values(study)
        self.runner = ready.runner(plan)
        self.time = TimeBudget(plan.context.progress, self.spec.timeout)
        self.told: dict[int, Trial] = {t.number: t for t in trials_of(study)}
        ended = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
        known = (t for t in ended if "key" in t.user_attrs and not t.user_attrs.get("early"))
        self.keys = {t.user_attrs["key"]: t.number for t in known}
        self.why = ""  # the search ended
        self.fresh: list[int] = []  # trials of others that came since they were last told

    def trials(self) -> Generator[Trial, None, str]:
        """One after another, until something ends the search; `why` says what, and is returned."""
        with removed_if_empty(self.study):
            yield from self._trials()
        return self.why

    def _trials(self) -> Generator[Trial]:
        if self.plan.heard is not None:
            self.plan.heard(self.space, tuple(self.told.values()))
        self._begin_well()
        took: float | None = None  # the trial that has just ended
        while not (why := self.ended()):
            yield from self._news()
            if took is not None and _refine(self, took):
                took = None
                continue  # it took long: the search may be over
            if self.spec.warm and (params := self.proposer.next(self.told.values(), self.runner)) is not None:
                self._enqueue(params, FRONT)
            if trial := claimed(self.study, self.spec.trials):
                yield from self._one(trial)
                _refuse_nothing(self.told.values())
                took = self.told[trial.number].seconds or 0.0
        yield from self._news()
        self.why = why

    def _progress(self, text: str) -> None:
        self.time.progress(self.done, self.spec.trials, text)

    # -- beginnings and ends

    def _begin_well(self) -> None:
        if self.spec.warm and not self.told:
            with contextlib.suppress(_Enough):
                for params in _foretell(self):
                    self._enqueue(params, FRONT)
        for params in self.plan.by_hand:
            self._enqueue(self.space.checked(params), "hand")

    def _enqueue(self, params: Mapping[str, Any], origin: str, **attrs: Any) -> None:
        self.study.enqueue_trial(stored(params, self.codes), user_attrs={"origin": origin, **attrs})

    def ended(self) -> str:
        """Why no further trial begins; empty while it goes on."""
        from espalier.passes.search.stop import reason

        if self.context.enough():
            return "as asked"
        self.lost.lost()
        self._hear_others()
        self._progress(f"trial {self.done + 1}")
        return reason(self.spec, self.want, self.space, self.study, self.told, self.time.now())

    @property
    def goes_on(self) -> bool:
        """Whether trials are left by what was told so far; one that runs may have lost its worker."""
        from espalier.passes.search.stop import reason

        runs = any(t.state == "running" for t in self.told.values())
        return runs or not reason(self.spec, self.want, self.space, self.study, self.told, 0.0)

    def _hear_others(self) -> None:
        """What other workers have told meanwhile."""
        for frozen in self.study.get_trials(deepcopy=False):
            held = self.told.get(frozen.number)
            if is_spare(frozen) or (held is None and not is_settled(frozen)):
                continue  # it may never begin
            if held is None or (held.state in ("running", "waiting") and STATES[frozen.state.name] != held.state):
                self.told[frozen.number] = trial_of(frozen, self.codes)
                self.fresh.append(frozen.number)

    def _news(self) -> Iterator[Trial]:
        """Trials of others, as they were last heard of."""
        numbers, self.fresh = self.fresh, []
        yield from (self.told[n] for n in numbers)

    @property
    def done(self) -> int:
        """Trials that have ended, of those that count."""
        return sum(t.ended for t in self.told.values())

    # -- one trial

    def _one(self, trial: optuna.Trial) -> Iterator[Trial]:
        try:
            ended = yield from self._tried(trial)
        except (Cancelled, KeyboardInterrupt, GeneratorExit):
            heartbeat.give_back(self.study, heartbeat.id_of(trial))
            raise
        yield ended

    def _tried(self, trial: optuna.Trial) -> Generator[Trial, None, Trial]:
        """The trial as it begins; returns what came of it. It beats also while the sampler thinks."""
        start = self.time.now()
        with heartbeat.beating(self.study, heartbeat.id_of(trial)):
            self._attribute(trial, origin=trial.user_attrs.get("origin", self.spec.sampler))
            try:
                params = suggest(trial, self.space, self.spec, self.codes)
            except (ValueError, KeyError) as error:
                return self._ended(trial, start, TrialState.FAIL, error=f"The sampler {self.spec.sampler}: {error}")
            began = replace(self._read(trial.number), params=params)
            self.told[trial.number] = began
            yield began
            return self._run(trial, params, start)

    def _run(self, trial: optuna.Trial, params: dict[str, Any], start: float) -> Trial:
        """Measured, or why not: nothing but a stop ends the search."""
        try:
            return self._measured(trial, params, start)
        except Cancelled:
            raise
        except Invalid as error:
            return self._ended(trial, start, TrialState.PRUNED, error=str(error))
        except EspalierError as error:
            return self._ended(trial, start, TrialState.FAIL, error=f"{error.message} {error.hint}".strip())
        except FAULTS as error:
            text = f"{type(error).__name__}: {str(error).strip()[:300]}"
            return self._ended(trial, start, TrialState.FAIL, error=text)

    def _order(self, trial: optuna.Trial, params: dict[str, Any]) -> Order:
        number = trial.number

        def progress(done: int, total: int, text: str) -> None:
            self._progress(f"trial {number}: {text}")

        plain = Context(self.context.store)
        inner = replace(self.context, seed=self.spec.seed, progress=progress, metric=plain.metric, found=plain.found,
                        enough=plain.enough)  # fmt: skip
        recipe = self.space.apply(self.plan.search.recipe, params)
        order = Order(params, recipe, inner, begins=self._begins(trial))
        return replace(order, show=TrialPruner(trial, self.spec, self.want, self._incumbent(order)))

    def _begins(self, trial: optuna.Trial) -> str:
        """The model at whose weights a trial begins; empty: the source's."""
        parent = parent_of(self.spec, self.want, self.told.values())
        if parent is None:
            return ""
        self._attribute(trial, begins=parent.kept, parent=parent.number)
        return parent.kept

    def _kept(self, trial: optuna.Trial, values: tuple[float, ...], figures: Mapping[str, float]) -> None:
        """Its weights too, where later trials are to begin at them; a disk that is full is no fault of the trial's."""
        missed = self.want.violated(figures)
        ends = Trial(trial.number, "complete", values=values, violation=missed, figures=dict(figures))
        keep = getattr(self.runner, "keep", None)
        if self.spec.begin_at == "source" or keep is None or not is_better(ends, self.told.values(), self.want):
            return
        try:
            keep(path := new_place())
            self._attribute(trial, kept=str(path))
            tidy([*trials_of(self.study), replace(ends, kept=str(path))], self.want)
        except (EspalierError, OSError) as error:
            self._attribute(trial, not_kept=str(error))

    def _incumbent(self, order: Order) -> Any:
        """What the best so far makes of each sample, for rungs."""
        samples = getattr(self.runner, "samples", None)
        lead = best(self.told.values(), self.want) if self.spec.pruner == "rungs" and samples else None
        if lead is None or samples is None:
            return None
        recipe = self.space.apply(self.plan.search.recipe, lead.params)
        return samples(replace(order, params=lead.params, recipe=recipe, begins=lead.begins))

    def _measured(self, trial: optuna.Trial, params: dict[str, Any], start: float) -> Trial:
        order = self._order(trial, params)
        key = self.runner.key(order)
        if key in self.keys:
            return self._again(trial, self.told[self.keys[key]], start)
        self._attribute(trial, key=key)
        costs = self.runner.costs(order)
        missed = {k: v for k, v in self.want.violated(costs).items() if v > 0}
        if missed and self.spec.sampler in SAMPLED and self.want.measured:
            figures, error = costs, f"not measured: it misses {', '.join(missed)}"
            constrain(self.study, trial.number, self.want.violated(figures))
            ended = self._ended(trial, start, TrialState.PRUNED, figures, error)
            self.keys[key] = trial.number
            return ended
        try:
            figures = _figures(self.runner, trial, order) if self.want.measured else costs
        except EndedEarly as early:
            return self._ended_early(trial, start, order, costs, str(early))
        ended = self._complete(trial, start, {**costs, **figures}, **_aside(self.runner))
        self.keys[key] = trial.number  # told: one that was given to another worker meanwhile is no result
        return ended

    def _ended_early(self, trial: optuna.Trial, start: float, order: Order, costs: dict[str, float], why: str) -> Trial:
        """Ended early: what was seen is kept, and called by how far it went."""
        seen = order.show.last if isinstance(order.show, TrialPruner) else None
        figures = {**costs, **(seen.figures if seen else {})}
        constrain(self.study, trial.number, self.want.violated(costs))
        self._attribute(trial, early=True)
        return self._ended(trial, start, TrialState.PRUNED, figures, why)

    def _complete(self, trial: optuna.Trial, start: float, figures: dict[str, float], **attrs: Any) -> Trial:
        values = self.want.values(figures)
        strange = [n for n in self.want.figures if not math.isfinite(figures.get(n, math.nan))]
        if strange:
            text = _strange(strange[0], figures)
            return self._ended(trial, start, TrialState.FAIL, figures, text)
        constrain(self.study, trial.number, self.want.violated(figures))
        self._kept(trial, values, figures)
        return self._ended(trial, start, TrialState.COMPLETE, figures, values=values, **attrs)

    def _again(self, trial: optuna.Trial, held: Trial, start: float) -> Trial:
        """Equal to an earlier one: its result is taken."""
        constrain(self.study, trial.number, held.violation)
        state = TrialState.COMPLETE if held.state == "complete" else TrialState.PRUNED
        values = held.values if held.state == "complete" else None
        return self._ended(trial, start, state, held.figures, held.error, values=values, reused=True,
                           noise=held.noise, bits=held.bits)  # fmt: skip

    def _ended(
        self, trial: optuna.Trial, start: float, state: TrialState, figures: Mapping[str, float] | None = None,
        error: str = "", *, values: tuple[float, ...] | None = None, **attrs: Any,
    ) -> Trial:  # fmt: skip
        """Into the storage first; the trial as it stands there."""
        finite = {k: float(v) for k, v in (figures or {}).items() if math.isfinite(v)}
        attrs = {"figures": finite, "seconds": round(self.time.now() - start, 4), **attrs}
        self._attribute(trial, **attrs, **({"error": error} if error else {}))
        heartbeat.tell(self.study, trial, state, values)
        self.told[trial.number] = told = self._read(trial.number)
        return told

    def _attribute(self, trial: optuna.Trial, **attrs: Any) -> None:
        for key, value in attrs.items():
            trial.set_user_attr(key, value)

    def _read(self, number: int) -> Trial:
        return trial_of(self.study.get_trials(deepcopy=False)[number], self.codes)


def _figures(runner: Any, trial: optuna.Trial, order: Order) -> dict[str, float]:
    """What the runner finds; the losses of its training are kept however it ends."""
    try:
        return runner.figures(order)
    finally:
        if losses := getattr(runner, "losses", None):
            trial.set_user_attr("losses", thinned(losses))


def _foretell(running: Running) -> tuple[dict[str, Any], ...]:
    """Where to begin, by what is known now; the lead goes by it from here on."""
    found = running.ready.forecast(running.spec.warm, _gathering(running), running.time.start)
    running.proposer.keep(found)
    return found.starts


class _Enough(Exception):
    """Nobody waits for more gradients."""


def _refine(running: Running, seconds: float) -> bool:
    """Where trials go by a part of the gradients, find more, for as long as a trial took: whether any were missing.

    What goes wrong there is told once, and ends no search: trials go on by what there is.
    """
    if not running.proposer.rough(running.told.values()):
        return False
    context = _gathering(running)
    try:
        if running.ready.gathered(running.time.at_most(max(seconds, GATHERING)), context):
            running.proposer.settle()  # also where no new forecast can be made of them
            _foretell(running)
    except _Enough:
        pass
    except (Cancelled, StorageError):
        raise
    except EspalierError as error:
        running.proposer.settle()
        context.progress(running.done, running.spec.trials, f"no more gradients: {error.message}")
    return True


def _gathering(running: Running) -> Context:
    """A context that also ends what runs in it where the user has enough or time is up; what it gathered is kept."""
    context = running.context

    def progress(done: int, total: int, text: str) -> None:
        running.time.progress(done, total, text)
        if context.enough() or running.time.spent:
            raise _Enough

    return replace(context, base=running.plan.search.base, progress=progress)
