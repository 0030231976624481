"""Objectives and constraints of a search; the best trial and the Pareto front."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from espalier.model.data.base import CLASSIFICATION
from espalier.model.errors import DataError, OptionsError, unknown
from espalier.model.sources.reading import Reading
from espalier.passes.costs.base import COSTS
from espalier.passes.costs.limits import Limit, known_figures, measured_figures, parse_limit, violations
from espalier.passes.running.splits import EvaluateOptions, load_task
from espalier.passes.search.spec import Goal, SearchSpec
from espalier.passes.search.trial import Trial
from espalier.passes.tasks.base import TASKS, is_own, recognised

KL = "kl"  # divergence of the outputs from those of the recipe's first graph, nats a sample
MAIN = "main"  # in a file, the main metric of the data's task
MAX_VIOLATION = 1e12  # in place of an infinite one


def figures() -> dict[str, str]:
    """Every figure that may be a goal or a limit → whether low or high is better."""
    return {**known_figures(), KL: "low"}


def is_measured(figure: str) -> bool:
    """Whether a figure of the score needs a run on data."""
    return figure == KL or figure in measured_figures()


def with_main(spec: SearchSpec, main: str) -> SearchSpec:
    """The search with the name of the task's main metric where its goals say "main"."""
    goals = tuple(replace(g, figure=main) if g.figure == MAIN else g for g in spec.goals)
    return replace(spec, goals=goals)


def main_of(score: EvaluateOptions, reading: Reading) -> str:
    """The main metric of the task of the score's data, that of the model's head where the data cannot be read."""
    own = is_own(score.task)  # whose labels are known with the data
    name = "" if own else score.task or recognised(reading.limits)
    if not name and score.data:
        with contextlib.suppress(DataError):
            name = load_task(score, reading, whole=True).task
    return TASKS.get(name or score.task or CLASSIFICATION).main.name


@dataclass(frozen=True, slots=True)
class Wanted:
    """The goals of a search with their directions, and its constraints."""

    goals: tuple[Goal, ...]
    signs: tuple[int, ...]  # +1: high is better
    limits: tuple[Limit, ...]
    summed: bool

    @property
    def directions(self) -> tuple[Literal["maximize", "minimize"], ...]:
        """Optuna's directions; a sum is maximised."""
        if self.summed:
            return ("maximize",)
        return tuple("maximize" if s > 0 else "minimize" for s in self.signs)

    @property
    def figures(self) -> tuple[str, ...]:
        """The figures that a trial needs."""
        return tuple(dict.fromkeys([*(g.figure for g in self.goals), *(limit.figure for limit in self.limits)]))

    @property
    def measured(self) -> bool:
        """Whether a figure needs data."""
        return any(is_measured(f) or COSTS.get(f).measure for f in self.figures)

    def values(self, figures: Mapping[str, float]) -> tuple[float, ...]:
        """The goals' values; NaN where a figure is missing."""
        values = [figures.get(g.figure, math.nan) for g in self.goals]
        if self.summed:
            return (sum(s * g.weight * v for s, g, v in zip(self.signs, self.goals, values, strict=True)),)
        return tuple(values)

    def violated(self, figures: Mapping[str, float]) -> dict[str, float]:
        """Constraint → excess (≤ 0: met), for constraints whose figure is given."""
        limits = [limit for limit in self.limits if limit.figure in figures]
        return {k: min(v, MAX_VIOLATION) for k, v in violations(limits, figures).items()}

    def score(self, trial: Trial) -> float:
        """The first goal or the sum, signed so that higher is better."""
        if not trial.values:
            return -math.inf
        return trial.values[0] if self.summed else self.signs[0] * trial.values[0]


def wanted(spec: SearchSpec) -> Wanted:
    """The goals and constraints of a search; raises OptionsError for an invalid one."""
    if not spec.goals:
        raise OptionsError("The search has no goal.", "Name a figure, such as accuracy.")
    known = figures()
    signs: list[int] = []
    for i, goal in enumerate(spec.goals):
        if goal.figure not in known:
            hint = unknown(goal.figure, known)
            raise OptionsError(f"goals[{i}].figure: there is no figure {goal.figure!r}.", hint)
        if not math.isfinite(goal.weight):
            raise OptionsError(f"goals[{i}].weight is {goal.weight}.", "It must be a number.")
        signs.append(1 if (goal.better or known[goal.figure]) == "high" else -1)
    names = [g.figure for g in spec.goals]
    if len(set(names)) < len(names):
        raise OptionsError("A figure is a goal twice.", "Name each once.")
    limits = tuple(parse_limit(text, known) for text in spec.within)
    return Wanted(spec.goals, tuple(signs), limits, spec.summed and len(names) > 1)


# -- results


def best(trials: Iterable[Trial], want: Wanted) -> Trial | None:
    """The feasible trial that is best at the first goal (or the sum); ties go by the next goals, then by size."""
    return min((t for t in trials if t.feasible), key=lambda t: (_low(t, want), _thrift(t)), default=None)


def ranked(trials: Iterable[Trial], want: Wanted) -> list[Trial]:
    """The feasible trials, in the order of `best`."""
    return sorted((t for t in trials if t.feasible), key=lambda t: (_low(t, want), _thrift(t)))


def _low(trial: Trial, want: Wanted) -> tuple[float, ...]:
    """The goals in order, signed so that lower is better."""
    signs = (1,) if want.summed else want.signs
    return tuple(-s * v for s, v in zip(signs, trial.values, strict=True))


def _thrift(trial: Trial) -> tuple[float, float, int]:
    """Sort key of equal trials: weight bits, then size, then number."""
    bits, size = (trial.figures.get(n, math.inf) for n in ("weight_bits", "size_bytes"))
    return bits, size, trial.number


def front(trials: Iterable[Trial], want: Wanted) -> tuple[Trial, ...]:
    """The Pareto front of the feasible trials, sorted by the first goal; of equal trials the smallest."""
    points: list[tuple[tuple[float, ...], Trial]] = []
    for trial in ranked(trials, want):
        point = _low(trial, want)
        if not any(_no_worse(other, point) for other, _ in points):
            points.append((point, trial))
    return tuple(t for _, t in points)


def _no_worse(a: Sequence[float], b: Sequence[float]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))
