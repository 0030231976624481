"""Optuna's samplers and pruners by their names in a search, and how choices are put to them."""

from __future__ import annotations

import math
import random
import secrets
import time
import warnings
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from espalier.model.errors import OptionsError
from espalier.passes.search.records import attribute
from espalier.passes.search.space import Choice, Space, values_of
from espalier.passes.search.spec import SearchSpec

NUMBERED = ("cmaes", "qmc")  # samplers of numbers: choices stand for them as the numbers of their values
LONG = 1 << 25  # bytes of a study's values as text, beyond which they stand in it as numbers


def coded(spec: SearchSpec, space: Space) -> dict[str, tuple[Any, ...]]:
    """The choices that stand in the storage as the numbers of their values, with these.

    A storage says all values of a choice in each trial: long ones, such as formats, were nine tenths of a large study.
    """
    many = {c.name: c.values for c in space.choices if len(c.values) > 1}
    if spec.sampler in NUMBERED:
        return many
    size = spec.trials * sum(len(str(v)) + 5 for values in many.values() for v in values)
    return many if size > LONG and spec.sampler != "grid" else {}


def sampler_of(spec: SearchSpec, space: Space, seed: int) -> BaseSampler:
    """Raises OptionsError where the sampler cannot take the space."""
    conditions = any(c.when for c in space.choices)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        match spec.sampler:
            case "tpe":
                return optuna.samplers.TPESampler(seed=seed, multivariate=True, group=conditions)
            case "random":
                return optuna.samplers.RandomSampler(seed=seed)
            case "grid":
                return Grid(space, seed)
            case "nsga2":
                return optuna.samplers.NSGAIISampler(seed=seed, population_size=_population(spec))
            case "nsga3":
                return optuna.samplers.NSGAIIISampler(seed=seed, population_size=_population(spec))
            case "gp":
                return optuna.samplers.GPSampler(
                    seed=seed, deterministic_objective=True, warn_independent_sampling=False
                )
            case "cmaes":
                return _cmaes(seed)
            case "qmc":
                return optuna.samplers.QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False,
                                                  warn_asynchronous_seeding=False)  # fmt: skip


def _population(spec: SearchSpec) -> int:
    """Several generations within the trials that are asked for."""
    return max(4, min(50, spec.trials // 4))


def _cmaes(seed: int) -> BaseSampler:
    """CMA-ES keeps its state as a pickle in the trials: one that another process wrote is never read."""
    sampler: Any = optuna.samplers.CmaEsSampler(seed=seed, with_margin=True, warn_independent_sampling=False)
    own = f"cma:{secrets.token_hex(8)}:"
    if not isinstance(getattr(sampler, "_attr_prefix", None), str):
        raise OptionsError("This version of Optuna has another CMA-ES.", "Choose tpe or gp.")
    sampler._attr_prefix = own
    return sampler


def pruner_of(spec: SearchSpec) -> optuna.pruners.BasePruner:
    """The pruner; `rungs` is ours, and Optuna's does nothing then."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _pruner(spec)


def _pruner(spec: SearchSpec) -> optuna.pruners.BasePruner:
    made, first = optuna.pruners, spec.judge_from
    match spec.pruner:
        case "median":
            return made.MedianPruner(n_startup_trials=5, n_warmup_steps=first)
        case "percentile":
            return made.PercentilePruner(25.0, n_startup_trials=5, n_warmup_steps=first)
        case "halving":
            return made.SuccessiveHalvingPruner()
        case "hyperband":
            return made.HyperbandPruner()
        case "patient":
            return made.PatientPruner(made.MedianPruner(n_startup_trials=5, n_warmup_steps=first), patience=2)
        case "threshold":
            return made.ThresholdPruner(lower=spec.lower, upper=spec.upper, n_warmup_steps=first)
        case "wilcoxon":
            return made.WilcoxonPruner(p_threshold=0.1)
        case _:
            return made.NopPruner()


# -- choices


def distribution(choice: Choice, spec: SearchSpec, codes: Mapping[str, tuple[Any, ...]]) -> BaseDistribution:
    """A choice as Optuna has it."""
    made = optuna.distributions
    if choice.name in codes and spec.sampler in NUMBERED:
        return made.IntDistribution(0, len(choice.values) - 1)
    if choice.values:
        return made.CategoricalDistribution(range(len(choice.values)) if choice.name in codes else choice.values)
    assert choice.low is not None and choice.high is not None
    if choice.whole:
        return made.IntDistribution(int(choice.low), int(choice.high), log=choice.log)
    return made.FloatDistribution(choice.low, choice.high, log=choice.log)


def suggest(
    trial: optuna.Trial, space: Space, spec: SearchSpec, codes: Mapping[str, tuple[Any, ...]]
) -> dict[str, Any]:
    """What the sampler chooses, condition by condition. `codes`: the choices whose numbers the storage holds."""
    found: dict[str, Any] = {}
    for choice in space.choices:
        if choice.when is not None and found.get(choice.when.name) not in choice.when.values:
            continue
        value = _suggested(trial, choice, distribution(choice, spec, codes))
        found[choice.name] = codes[choice.name][value] if choice.name in codes else value
    return found


def _suggested(trial: optuna.Trial, choice: Choice, made: BaseDistribution) -> Any:
    name = choice.name
    match made:
        case optuna.distributions.CategoricalDistribution():
            return trial.suggest_categorical(name, made.choices)
        case optuna.distributions.IntDistribution():
            return trial.suggest_int(name, made.low, made.high, log=made.log)
        case optuna.distributions.FloatDistribution():
            return trial.suggest_float(name, made.low, made.high, log=made.log)
        case _:
            raise TypeError(type(made).__name__)


def stored(params: Mapping[str, Any], codes: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Choices as `study.enqueue_trial` takes them."""
    return {k: codes[k].index(v) if k in codes else v for k, v in params.items()}


# -- grid

CLAIMS = 8  # times that a worker looks for a place that no other took at the same moment


class Grid(BaseSampler):
    """Every configuration once, in an order that the seed shuffles; listed one by one, whatever their number."""

    def __init__(self, space: Space, seed: int) -> None:
        self._choices = [(c, values_of(c)) for c in space.choices]
        self._total = math.prod(len(v) for _, v in self._choices)
        step = int(self._total * 0.6180339887) | 1
        while math.gcd(step, self._total) != 1:
            step += 2
        self._step, self._first = step, seed % self._total
        self._places: dict[int, int] = {}

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """The next place that no trial has; of workers that take the same at once, each looks for another."""
        if "fixed_params" in trial.system_attrs:
            return
        for _ in range(CLAIMS):
            place = self._free(study, trial)
            attribute(study, trial.number, grid=place)
            self._places[trial.number] = place
            others = (t for t in study.get_trials(deepcopy=False) if t.number != trial.number)
            if all(t.user_attrs.get("grid") != place for t in others):
                return
            attribute(study, trial.number, grid=-1)
            time.sleep(random.uniform(0, 0.05))

    def _free(self, study: Study, trial: FrozenTrial) -> int:
        trials = study.get_trials(deepcopy=False)
        taken = {t.user_attrs["grid"] for t in trials if "grid" in t.user_attrs}
        seen = {self._active({n: str(t.params.get(n)) for n, _ in self._named()}) for t in trials
                if t.state.is_finished() and t.number != trial.number}  # fmt: skip
        return next((i for i in range(self._total) if i not in taken
                     and self._active(self._texts(i)) not in seen), self._total - 1)  # fmt: skip

    def _named(self) -> list[tuple[str, Choice]]:
        return [(c.name, c) for c, _ in self._choices]

    def _texts(self, place: int) -> dict[str, str]:
        return {k: str(v) for k, v in self.at(place).items()}

    def _active(self, texts: Mapping[str, str]) -> tuple[str, ...]:
        """What counts of a configuration: choices whose condition does not hold do not."""
        found: dict[str, str] = {}
        for choice, _ in self._choices:
            held = choice.when is None or found.get(choice.when.name) in {str(v) for v in choice.when.values}
            found[choice.name] = texts[choice.name] if held else ""
        return tuple(found.values())

    def at(self, place: int) -> dict[str, Any]:
        """The configuration at a place of the order."""
        rest = (self._first + place * self._step) % self._total
        found: dict[str, Any] = {}
        for choice, values in self._choices:
            rest, number = divmod(rest, len(values))
            found[choice.name] = values[number]
        return found

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Nothing is related."""
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Nothing is related."""
        return {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """The value at the trial's place; an enqueued trial names its own."""
        return self.at(self._places.get(trial.number, 0))[param_name]
