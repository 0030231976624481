"""Optuna's samplers and pruners by their names in a search, and how choices are put to them."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from espalier.model.errors import OptionsError
from espalier.passes.search.space import Choice, Space
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
                return Grid(seed)
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


class Grid(optuna.samplers.BruteForceSampler):
    """Every configuration once, in an order that the seed shuffles."""

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Optuna's stops the loop that it runs; ours ends by `stop`."""
