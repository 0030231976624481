"""What a search wants: figures and their good sides, goals as numbers, constraints; the best trial and the front."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from espalier.model.errors import OptionsError, unknown
from espalier.passes.costs.base import COSTS
from espalier.passes.costs.limits import MEASURED as OF_SCORE
from espalier.passes.costs.limits import Limit, known_figures, parse_limit, violations
from espalier.passes.search.spec import Goal, SearchSpec
from espalier.passes.search.trial import Trial

KL = "kl"  # divergence of the outputs from those of the recipe's first graph, nats a sample
MEASURED: dict[str, str] = {**OF_SCORE, KL: "low"}  # what only a run on data tells
FAR = 1e12  # a violation that is no number


def figures() -> dict[str, str]:
    """Every figure that a search can want → whether low or high is better."""
    return {**known_figures(), **MEASURED}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The goals of a search with their good sides, and its constraints."""

    goals: tuple[Goal, ...]
    signs: tuple[int, ...]  # +1: high is better
    limits: tuple[Limit, ...]
    summed: bool

    @property
    def directions(self) -> tuple[Literal["maximize", "minimize"], ...]:
        """As Optuna names them; a sum is to be high."""
        if self.summed:
            return ("maximize",)
        return tuple("maximize" if s > 0 else "minimize" for s in self.signs)

    @property
    def figures(self) -> tuple[str, ...]:
        """All that has to be known of a trial."""
        return tuple(dict.fromkeys([*(g.figure for g in self.goals), *(limit.figure for limit in self.limits)]))

    @property
    def measured(self) -> bool:
        """Whether data are needed."""
        return any(f in MEASURED or COSTS.get(f).measure for f in self.figures)

    def values(self, known: Mapping[str, float]) -> tuple[float, ...]:
        """The goals' numbers; NaN where a figure is not known."""
        found = [known.get(g.figure, math.nan) for g in self.goals]
        if self.summed:
            return (sum(s * g.weight * v for s, g, v in zip(self.signs, self.goals, found, strict=True)),)
        return tuple(found)

    def violated(self, known: Mapping[str, float]) -> dict[str, float]:
        """Constraint → by how much it is missed, of those whose figure is known."""
        told = [limit for limit in self.limits if limit.figure in known]
        return {k: min(v, FAR) for k, v in violations(told, known).items()}

    def score(self, trial: Trial) -> float:
        """One number, the higher the better: of the first goal, or of their sum."""
        if not trial.values:
            return -math.inf
        return trial.values[0] if self.summed else self.signs[0] * trial.values[0]


def wanted(spec: SearchSpec) -> Wanted:
    """Raises OptionsError for a goal or constraint that cannot be."""
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


# -- what came of it


def best(trials: Iterable[Trial], want: Wanted) -> Trial | None:
    """The feasible complete trial that is best at the first goal (or the sum), of equal ones at the next goals, else
    the smallest: one of the front.
    """
    return min((t for t in trials if t.feasible), key=lambda t: (_low(t, want), _thrift(t)), default=None)


def ranked(trials: Iterable[Trial], want: Wanted) -> list[Trial]:
    """The feasible complete trials, the best first, as `best` tells it."""
    return sorted((t for t in trials if t.feasible), key=lambda t: (_low(t, want), _thrift(t)))


def _low(trial: Trial, want: Wanted) -> tuple[float, ...]:
    """The goals in their order, the lower the better."""
    signs = (1,) if want.summed else want.signs
    return tuple(-s * v for s, v in zip(signs, trial.values, strict=True))


def _thrift(trial: Trial) -> tuple[float, float, int]:
    """By this the less costly of equal trials comes first: weight bits, then size, then the earlier one."""
    bits, size = (trial.figures.get(n, math.inf) for n in ("weight_bits", "size_bytes"))
    return bits, size, trial.number


def front(trials: Iterable[Trial], want: Wanted) -> tuple[Trial, ...]:
    """The feasible trials that none is better than at every goal, the smallest of equal ones; by the first goal."""
    there = [t for t in trials if t.feasible]
    points = [(_low(t, want), _thrift(t), t) for t in there]
    kept: list[tuple[tuple[float, ...], Trial]] = []
    for point, _, trial in sorted(points, key=lambda p: (p[0], p[1])):
        if not any(_no_worse(held, point) for held, _ in kept):
            kept.append((point, trial))
    return tuple(t for _, t in kept)


def _no_worse(a: Sequence[float], b: Sequence[float]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))
