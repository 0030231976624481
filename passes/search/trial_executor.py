"""Runs single trials of a study: suggest parameters, check costs, measure, and store the result."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any

import optuna
from optuna.study import Study
from optuna.trial import TrialState

from espalier.model.errors import EspalierError
from espalier.passes.base import Cancelled, Context
from espalier.passes.search.fleet import heartbeat
from espalier.passes.search.goals import best
from espalier.passes.search.inherited_weights import is_better, new_weights_file, parent_of, remove_unneeded
from espalier.passes.search.prepare import Prepared
from espalier.passes.search.records import coded_values, constrain, trial_of, trials_of
from espalier.passes.search.samplers import suggest
from espalier.passes.search.search import Search
from espalier.passes.search.time_budget import TimeBudget
from espalier.passes.search.trial import Trial
from espalier.passes.search.trial_pruner import TrialPruner
from espalier.passes.search.trial_run import EndedEarly, Invalid, Order, TrialRun
from espalier.passes.sweep.run import FAULTS
from espalier.passes.training.curve import thinned

SAMPLED = ("tpe", "random", "grid", "qmc")  # samplers that learn of a missed constraint from a pruned trial


class TrialExecutor:
    """Executes trials with one runner. `records`: the last known state of each trial of the study, by number."""

    def __init__(
        self, study: Study, search: Search, ready: Prepared, runner: TrialRun, context: Context, time: TimeBudget
    ) -> None:
        self.study, self.search, self.runner, self.context, self.time = study, search, runner, context, time
        self.spec, self.space, self.want = search.spec, ready.space, ready.want
        self.codes = coded_values(study)
        self.records: dict[int, Trial] = {t.number: t for t in trials_of(study)}
        ended = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
        reusable = (t for t in ended if "key" in t.user_attrs and not t.user_attrs.get("early"))
        self._keys = {t.user_attrs["key"]: t.number for t in reusable}

    @property
    def done(self) -> int:
        """The number of ended trials that count."""
        return sum(t.ended for t in self.records.values())

    def progress(self, text: str) -> None:
        """Report `text` with the number of ended trials."""
        self.time.progress(self.done, self.spec.trials, text)

    def run(self, trial: optuna.Trial) -> Generator[Trial, None, Trial]:
        """Yield the trial as it begins; return it as it ended. It sends heartbeats while the sampler works too."""
        start = self.time.now()
        with heartbeat.beating(self.study, heartbeat.id_of(trial)):
            self._set(trial, origin=trial.user_attrs.get("origin", self.spec.sampler))
            try:
                params = suggest(trial, self.space, self.spec, self.codes)
            except (ValueError, KeyError) as error:
                return self._end(trial, start, TrialState.FAIL, error=f"The sampler {self.spec.sampler}: {error}")
            record = replace(self._read(trial.number), params=params)
            self.records[trial.number] = record
            yield record
            return self._measure_or_fail(trial, params, start)

    def _measure_or_fail(self, trial: optuna.Trial, params: dict[str, Any], start: float) -> Trial:
        """Only Cancelled ends the search: every other error fails or prunes this trial alone."""
        try:
            return self._measure(trial, params, start)
        except Cancelled:
            raise
        except Invalid as error:
            return self._end(trial, start, TrialState.PRUNED, error=str(error))
        except EspalierError as error:
            return self._end(trial, start, TrialState.FAIL, error=f"{error.message} {error.hint}".strip())
        except FAULTS as error:
            text = f"{type(error).__name__}: {str(error).strip()[:300]}"
            return self._end(trial, start, TrialState.FAIL, error=text)

    def _measure(self, trial: optuna.Trial, params: dict[str, Any], start: float) -> Trial:
        order = self._order(trial, params)
        key = self.runner.key(order)
        if key in self._keys:
            return self._reuse(trial, self.records[self._keys[key]], start)
        self._set(trial, key=key)
        costs = self.runner.costs(order)
        missed = {k: v for k, v in self.want.violated(costs).items() if v > 0}
        if missed and self.spec.sampler in SAMPLED and self.want.measured:
            error = f"not measured: it misses {', '.join(missed)}"
            constrain(self.study, trial.number, self.want.violated(costs))
            ended = self._end(trial, start, TrialState.PRUNED, costs, error)
            self._keys[key] = trial.number
            return ended
        try:
            figures = self._figures(trial, order) if self.want.measured else costs
        except EndedEarly as early:
            return self._end_early(trial, start, order, costs, str(early))
        ended = self._complete(trial, start, {**costs, **figures})
        self._keys[key] = trial.number  # not before it is stored: another worker may have taken the trial over
        return ended

    # -- what a trial is to do

    def _order(self, trial: optuna.Trial, params: dict[str, Any]) -> Order:
        number = trial.number

        def progress(done: int, total: int, text: str) -> None:
            self.progress(f"trial {number}: {text}")

        plain = Context(self.context.store)
        inner = replace(self.context, seed=self.spec.seed, progress=progress, metric=plain.metric, found=plain.found,
                        enough=plain.enough)  # fmt: skip
        recipe = self.space.apply(self.search.recipe, params)
        order = Order(params, recipe, inner, begins=self._initial_weights(trial))
        return replace(order, show=TrialPruner(trial, self.spec, self.want, self._incumbent(order)))

    def _initial_weights(self, trial: optuna.Trial) -> str:
        """The file of the model whose weights the trial inherits; empty: the source's weights."""
        parent = parent_of(self.spec, self.want, self.records.values())
        if parent is None:
            return ""
        self._set(trial, begins=parent.kept, parent=parent.number)
        return parent.kept

    def _incumbent(self, order: Order) -> Any:
        """(losses, correct) per sample of the best trial so far, which rungs compare with; None if unknown."""
        samples = getattr(self.runner, "samples", None)
        lead = best(self.records.values(), self.want) if self.spec.pruner == "rungs" and samples else None
        if lead is None or samples is None:
            return None
        recipe = self.space.apply(self.search.recipe, lead.params)
        return samples(replace(order, params=lead.params, recipe=recipe, begins=lead.begins))

    def _figures(self, trial: optuna.Trial, order: Order) -> dict[str, float]:
        """The measured figures; training losses are stored however the trial ends."""
        try:
            return self.runner.figures(order)
        finally:
            if losses := getattr(self.runner, "losses", None):
                trial.set_user_attr("losses", thinned(losses))

    # -- how a trial ends

    def _end_early(self, trial: optuna.Trial, start: float, order: Order, costs: dict[str, float], why: str) -> Trial:
        """Prune the trial; the figures that it showed last are stored."""
        last = order.show.last if isinstance(order.show, TrialPruner) else None
        figures = {**costs, **(last.figures if last else {})}
        constrain(self.study, trial.number, self.want.violated(costs))
        self._set(trial, early=True)
        return self._end(trial, start, TrialState.PRUNED, figures, why)

    def _complete(self, trial: optuna.Trial, start: float, figures: dict[str, float]) -> Trial:
        values = self.want.values(figures)
        missing = [n for n in self.want.figures if not math.isfinite(figures.get(n, math.nan))]
        if missing:
            return self._end(trial, start, TrialState.FAIL, figures, _not_finite(missing[0], figures))
        constrain(self.study, trial.number, self.want.violated(figures))
        self._save_weights(trial, values, figures)
        details: dict[str, Any] = {name: getattr(self.runner, name, {}) for name in ("noise", "bits")}
        return self._end(trial, start, TrialState.COMPLETE, figures, values=values, **details)

    def _save_weights(self, trial: optuna.Trial, values: tuple[float, ...], figures: Mapping[str, float]) -> None:
        """Save the model if later trials inherit its weights; a failed write does not fail the trial."""
        missed = self.want.violated(figures)
        ended = Trial(trial.number, "complete", values=values, violation=missed, figures=dict(figures))
        save = getattr(self.runner, "keep", None)
        if self.spec.begin_at == "source" or save is None or not is_better(ended, self.records.values(), self.want):
            return
        try:
            save(path := new_weights_file())
            self._set(trial, kept=str(path))
            remove_unneeded([*trials_of(self.study), replace(ended, kept=str(path))], self.want)
        except (EspalierError, OSError) as error:
            self._set(trial, not_kept=str(error))

    def _reuse(self, trial: optuna.Trial, earlier: Trial, start: float) -> Trial:
        """End a duplicate with the result of the earlier trial."""
        constrain(self.study, trial.number, earlier.violation)
        state = TrialState.COMPLETE if earlier.state == "complete" else TrialState.PRUNED
        values = earlier.values if earlier.state == "complete" else None
        return self._end(trial, start, state, earlier.figures, earlier.error, values=values, reused=True,
                         noise=earlier.noise, bits=earlier.bits)  # fmt: skip

    def _end(
        self, trial: optuna.Trial, start: float, state: TrialState, figures: Mapping[str, float] | None = None,
        error: str = "", *, values: tuple[float, ...] | None = None, **attrs: Any,
    ) -> Trial:  # fmt: skip
        """Store how the trial ended; return it as the storage has it."""
        finite = {k: float(v) for k, v in (figures or {}).items() if math.isfinite(v)}
        attrs = {"figures": finite, "seconds": round(self.time.now() - start, 4), **attrs}
        self._set(trial, **attrs, **({"error": error} if error else {}))
        heartbeat.tell(self.study, trial, state, values)
        self.records[trial.number] = record = self._read(trial.number)
        return record

    def _set(self, trial: optuna.Trial, **attrs: Any) -> None:
        for key, value in attrs.items():
            trial.set_user_attr(key, value)

    def _read(self, number: int) -> Trial:
        return trial_of(self.study.get_trials(deepcopy=False)[number], self.codes)


def _not_finite(name: str, figures: Mapping[str, float]) -> str:
    """Why a trial without a finite `name` fails."""
    if name in figures:
        return f"{name} is {figures[name]}: no number to compare."
    return f"{name} is not known of this configuration. Let weights and inputs of all layers take formats."
