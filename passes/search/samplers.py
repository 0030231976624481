"""Optuna's samplers and pruners by their names in a search, and choices as Optuna's distributions."""

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

NUMBERED = ("cmaes", "qmc")  # numeric samplers: values are given to them as indices
MAX_TEXT = 1 << 25  # bytes of a study's values as text, above which it stores indices


def coded(spec: SearchSpec, space: Space) -> dict[str, tuple[Any, ...]]:
    """Choice → its values, for choices that the storage holds as indices.

    A storage repeats all values of a choice in each trial: long ones, such as formats, were 90 % of a large study.
    """
    many = {c.name: c.values for c in space.choices if len(c.values) > 1}
    if spec.sampler in NUMBERED:
        return many
    size = spec.trials * sum(len(str(v)) + 5 for values in many.values() for v in values)
    return many if size > MAX_TEXT and spec.sampler != "grid" else {}


def sampler_of(spec: SearchSpec, space: Space, seed: int) -> BaseSampler:
    """Optuna's sampler of a search; raises OptionsError if the installed Optuna does not support it."""
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
    """The population size of genetic samplers: several generations within the budget."""
    return max(4, min(50, spec.trials // 4))


def _cmaes(seed: int) -> BaseSampler:
    """CMA-ES stores its state as a pickle in the trials: a random prefix keeps it from reading another process'."""
    sampler: Any = optuna.samplers.CmaEsSampler(seed=seed, with_margin=True, warn_independent_sampling=False)
    prefix = f"cma:{secrets.token_hex(8)}:"
    if not isinstance(getattr(sampler, "_attr_prefix", None), str):
        raise OptionsError("The CMA-ES of this version of Optuna is not supported.", "Choose tpe or gp.")
    sampler._attr_prefix = prefix
    return sampler


def pruner_of(spec: SearchSpec) -> optuna.pruners.BasePruner:
    """Optuna's pruner of a search; one that never prunes for `rungs`, which is not Optuna's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _pruner(spec)


def _pruner(spec: SearchSpec) -> optuna.pruners.BasePruner:
    pruners, first = optuna.pruners, spec.judge_from
    match spec.pruner:
        case "median":
            return pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=first)
        case "percentile":
            return pruners.PercentilePruner(25.0, n_startup_trials=5, n_warmup_steps=first)
        case "halving":
            return pruners.SuccessiveHalvingPruner()
        case "hyperband":
            return pruners.HyperbandPruner()
        case "patient":
            return pruners.PatientPruner(pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=first), patience=2)
        case "threshold":
            return pruners.ThresholdPruner(lower=spec.lower, upper=spec.upper, n_warmup_steps=first)
        case "wilcoxon":
            return pruners.WilcoxonPruner(p_threshold=0.1)
        case _:
            return pruners.NopPruner()


# -- choices


def distribution(choice: Choice, spec: SearchSpec, codes: Mapping[str, tuple[Any, ...]]) -> BaseDistribution:
    """Optuna's distribution of a choice."""
    kinds = optuna.distributions
    if choice.name in codes and spec.sampler in NUMBERED:
        return kinds.IntDistribution(0, len(choice.values) - 1)
    if choice.values:
        return kinds.CategoricalDistribution(range(len(choice.values)) if choice.name in codes else choice.values)
    assert choice.low is not None and choice.high is not None
    if choice.whole:
        return kinds.IntDistribution(int(choice.low), int(choice.high), log=choice.log)
    return kinds.FloatDistribution(choice.low, choice.high, log=choice.log)


def suggest(
    trial: optuna.Trial, space: Space, spec: SearchSpec, codes: Mapping[str, tuple[Any, ...]]
) -> dict[str, Any]:
    """The sampler's values of the active choices. `codes`: values of choices that are stored as indices."""
    params: dict[str, Any] = {}
    for choice in space.choices:
        if choice.when is not None and params.get(choice.when.name) not in choice.when.values:
            continue
        value = _suggested(trial, choice, distribution(choice, spec, codes))
        params[choice.name] = codes[choice.name][value] if choice.name in codes else value
    return params


def _suggested(trial: optuna.Trial, choice: Choice, domain: BaseDistribution) -> Any:
    name = choice.name
    match domain:
        case optuna.distributions.CategoricalDistribution():
            return trial.suggest_categorical(name, domain.choices)
        case optuna.distributions.IntDistribution():
            return trial.suggest_int(name, domain.low, domain.high, log=domain.log)
        case optuna.distributions.FloatDistribution():
            return trial.suggest_float(name, domain.low, domain.high, log=domain.log)
        case _:
            raise TypeError(type(domain).__name__)


def stored(params: Mapping[str, Any], codes: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Parameters in the form of `study.enqueue_trial`."""
    return {k: codes[k].index(v) if k in codes else v for k, v in params.items()}


class Grid(optuna.samplers.BruteForceSampler):
    """Every configuration once, in an order shuffled by the seed."""

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Do not stop Optuna's own loop, which is not used: `stop` ends the search."""
