"""The predicted front refined by measured trials: Thompson sampling under the limits.

The effect of a choice on the goal is its predicted divergence plus a random deviation that grows with it. Trials update
that by a Gaussian process whose kernel counts shared choices; each draw from its posterior is solved as a knapsack.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from espalier.model.graph.graph import Graph
from espalier.passes.allocation.convex_hulls import Hulls, Solution
from espalier.passes.allocation.exact_solver import exact
from espalier.passes.allocation.problem import Group, Ints, Problem
from espalier.passes.costs.base import Cost, Floats
from espalier.passes.search.goals import Wanted
from espalier.passes.search.margins import MeasuredMargins, fit_shifts, local_search
from espalier.passes.search.trial import Trial

FRONT = "front"  # attribute of a study: the predicted front, for all workers
ROUGH_FRONT = "front_rough"  # whether it comes from a part of the gradients
POWERS = {
    "accuracy": 0.25,
    "loss": 0.5,
    "mse": 0.5,
}  # deviation ∝ divergence ** power (labels flip with its root); otherwise 1
SLOPES, SLOPE = (0.003, 0.03, 0.1, 0.3, 1.0), (0.05, 1.5)  # goal lost per nat; median and spread (log) of its prior
WIDTHS, WIDTH = (0.003, 0.01, 0.03, 0.1), (0.02, 1.0)  # deviation at one nat; median and spread (log) of its prior
INTERACTIONS = (0.3, 1.0)  # variance of interactions, relative to that of additive effects
MIN_KL, LEVEL, JITTER = 1e-9, 0.1, 1e-6  # least divergence; spread of the goal's level; least variance
NARROWING, MIN_SHARE = 0.03, 0.8  # reduction of the budget for each trial that missed a limit; least share of it
STARTS = 3  # best trials from which the local search starts
DRAWS = 20  # at most, until one gives a new configuration


@dataclass(frozen=True, slots=True)
class Field:
    """All choices of a space under limits. `budgets`: signed budget of each cost."""

    problem: Problem
    budgets: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """The form stored in a study."""
        groups = [{"kl": g.kl.tolist(), "amounts": g.amounts.tolist()} for g in self.problem.groups]
        return {"groups": groups, "rest": self.problem.rest.tolist(), "budgets": list(self.budgets)}

    def within(self, share: float) -> list[float]:
        """Budgets with a share of the amount that the limits leave above the least possible."""
        return (self.problem.least + share * (np.array(self.budgets) - self.problem.least)).tolist()

    def solved(self, losses: Floats, share: float = 1.0) -> Solution | None:
        """The solution of least loss under `share` of the free budget; None if there is none. `losses`: of any sign,
        (choices, values).
        """
        low = losses - np.where(np.isfinite(losses), losses, np.inf).min(1, keepdims=True)
        groups = tuple(replace(g, kl=row[: len(g.kl)]) for g, row in zip(self.problem.groups, low, strict=True))
        problem = Problem(groups, self.problem.rest, self.problem.costs, self.problem.graph)
        budgets = self.within(share)
        return Hulls(problem).solve(budgets[0]) if len(budgets) == 1 else exact(problem, budgets)


def read_field(stored: Mapping[str, Any], costs: tuple[Cost, ...], graph: Graph) -> Field:
    """The inverse of `Field.to_json`; raises LookupError, TypeError or ValueError for another form."""
    groups = tuple(Group((), np.arange(len(g["kl"]))[None], np.array(g["kl"], np.float64), np.array(g["amounts"]))
                   for g in stored["groups"])  # fmt: skip
    return Field(Problem(groups, np.array(stored["rest"]), costs, graph), tuple(stored["budgets"]))


@dataclass(frozen=True, slots=True)
class _Fit:
    """A fitted process. `width`: prior deviation of each choice and value; `residual`: of each trial."""

    slope: float
    width: Floats
    kernel: Floats
    noise: Floats
    residual: Floats
    likely: float


class Refined:
    """Proposes trials under the limits of a field, for the first goal or the sum of all."""

    def __init__(self, field: Field, want: Wanted, seed: int) -> None:
        self.field, self.want = field, want
        kl = np.where(np.isfinite(field.problem.kl), field.problem.kl, 0.0)
        figure = next((g.figure for g in want.goals), "")
        self._kl = kl
        self._deviation: Floats = np.maximum(kl, MIN_KL) ** POWERS.get(figure, 1.0)
        self._scale = abs(want.goals[0].weight) if want.summed and want.goals else 1.0
        self._rows = np.arange(len(kl))
        self._chance = np.random.default_rng(seed)

    def propose(self, trials: Iterable[tuple[Ints, Trial]], margins: MeasuredMargins | None = None) -> Ints | None:
        """The picks of a new configuration; None if no draw gives one. `margins`: of the trials, if measured.

        If costs are no exact sums, trials may miss limits; each such trial reduces the budget.
        """
        pairs = list(trials)
        missed = sum(any(v > 0 for v in t.violation.values()) for _, t in pairs)
        known = {tuple(p.tolist()) for p, _ in pairs}
        complete = [(p, self.want.score(t)) for p, t in pairs if t.state == "complete"]
        picks = np.array([p for p, _ in complete], np.int64).reshape(len(complete), len(self._rows))
        fit = self._fitted(picks, np.array([s for _, s in complete]) / self._scale)
        share = max(MIN_SHARE, 1 - NARROWING * missed)
        for _ in range(DRAWS):
            solution = self.field.solved(self._draw(picks, fit), share)
            if solution is not None and tuple(solution.picks.tolist()) not in known:
                return solution.picks if margins is None else self._by_margins(margins, solution.picks, share, known)
        return None

    def _by_margins(self, margins: MeasuredMargins, drawn: Ints, share: float, known: set[tuple[int, ...]]) -> Ints:
        """The highest expected improvement near the best trials or near the drawn configuration."""
        best = margins.picks[np.argsort(-margins.accuracies, kind="stable")[:STARTS]]
        budgets, problem = np.array(self.field.within(share)), self.field.problem

        def fits(many: Ints) -> NDArray[np.bool_]:
            amounts = problem.rest + problem.amounts[:, self._rows, many].sum(2).T
            return (amounts <= budgets + 1e-9 * np.abs(budgets)).all(1)

        sizes = [len(g.kl) for g in problem.groups]
        shifts = fit_shifts(margins, self._kl)
        picks = local_search(shifts, [drawn, *best], fits, known, sizes, self._chance)
        return drawn if picks is None else picks

    # -- the process

    def _fitted(self, picks: Ints, scores: Floats) -> _Fit:
        """The slope and width of the highest posterior probability. `picks`: (trials, choices)."""
        same = picks[:, None, :] == picks[None, :, :]
        shared = (same * np.square(self._deviation)[self._rows, picks][:, None, :]).sum(2)
        changed = self._kl[self._rows, picks].sum(1)
        level = float(np.median(scores)) if len(scores) else 0.0
        fits = (self._fit(shared, scores - level + slope * changed, slope, width, interaction)
                for slope, width, interaction in itertools.product(SLOPES, WIDTHS, INTERACTIONS))  # fmt: skip
        return max(fits, key=lambda f: f.likely)

    def _fit(self, shared: Floats, residual: Floats, slope: float, width: float, interaction: float) -> _Fit:
        noise = width**2 * interaction * np.diag(shared) + JITTER
        kernel = width**2 * shared + np.diag(noise) + LEVEL**2
        expected = ((np.log(slope / SLOPE[0]) / SLOPE[1]) ** 2 + (np.log(width / WIDTH[0]) / WIDTH[1]) ** 2) / 2
        _, size = np.linalg.slogdet(kernel) if len(residual) else (1.0, 0.0)
        likely = -0.5 * (float(residual @ np.linalg.solve(kernel, residual)) + float(size)) - float(expected)
        return _Fit(slope, width * self._deviation, kernel, noise, residual, likely)

    def _draw(self, picks: Ints, fit: _Fit) -> Floats:
        """A posterior draw of the loss of each choice and value: a prior draw corrected by the residuals (Matheron)."""
        prior = self._chance.normal(size=self._deviation.shape) * fit.width
        scores = prior[self._rows, picks].sum(1) + self._chance.normal() * LEVEL
        scores = scores + self._chance.normal(size=len(picks)) * np.sqrt(fit.noise)
        weights = np.linalg.solve(fit.kernel, fit.residual - scores) if len(picks) else np.zeros(0)
        correction: NDArray[np.float64] = np.zeros_like(prior)
        for row, weight in zip(picks, weights, strict=True):
            correction[self._rows, row] += weight
        losses = fit.slope * self._kl - prior - np.square(fit.width) * correction
        return np.where(np.isfinite(self.field.problem.kl), losses, np.inf)
