"""The predicted front, refined by what trials measured: each next trial is the best under the limits as far as known.

What a choice does to the goal is its prediction and luck, the wider the more it changes. Trials narrow that (a Gaussian
process whose kernel counts shared choices); a draw from what is left is solved as a knapsack: Thompson sampling.
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
from espalier.passes.allocation.problem import Group, Problem, Whole
from espalier.passes.costs.base import Cost, Floats
from espalier.passes.search.goals import Wanted
from espalier.passes.search.margins import Known, climbed, learned
from espalier.passes.search.trial import Trial

FRONT = "front"  # the study's attribute: what is predicted, for all its workers
ROUGH_FRONT = "front_rough"  # whether that is from a part of the gradients
POWERS = {"accuracy": 0.25, "loss": 0.5}  # luck grows with the divergence to this (labels flip with its root); else 1
SLOPES, SLOPE = (0.003, 0.03, 0.1, 0.3, 1.0), (0.05, 1.5)  # what a nat costs; what is expected, and its spread (log)
WIDTHS, WIDTH = (0.003, 0.01, 0.03, 0.1), (0.02, 1.0)  # how wide luck is where a nat changes
ALONE = (0.3, 1.0)  # variance of what choices do only together, beside what adds up
LEAST, LEVEL, ROUGH = 1e-9, 0.1, 1e-6  # divergence that counts; spread of the goal's level; variance there always is
NARROWER, LESS = 0.03, 0.8  # how much less of the limits is taken for each trial that missed them, down to what share
STARTS = 3  # of the best trials, from which what is next is looked for
TRIES = 20  # draws, until one is no trial yet


@dataclass(frozen=True, slots=True)
class Field:
    """All choices of a space under limits. `budgets`: the signed amounts of each cost that the limits leave."""

    problem: Problem
    budgets: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """As a study keeps it."""
        groups = [{"kl": g.kl.tolist(), "amounts": g.amounts.tolist()} for g in self.problem.groups]
        return {"groups": groups, "rest": self.problem.rest.tolist(), "budgets": list(self.budgets)}

    def within(self, share: float) -> list[float]:
        """Budgets of a share of what the limits leave to decide."""
        return (self.problem.least + share * (np.array(self.budgets) - self.problem.least)).tolist()

    def solved(self, losses: Floats, share: float = 1.0) -> Solution | None:
        """The picks of least loss under a share of what the limits leave to decide; `losses` of any sign, by choice."""
        low = losses - np.where(np.isfinite(losses), losses, np.inf).min(1, keepdims=True)
        groups = tuple(replace(g, kl=row[: len(g.kl)]) for g, row in zip(self.problem.groups, low, strict=True))
        problem = Problem(groups, self.problem.rest, self.problem.costs, self.problem.graph)
        budgets = self.within(share)
        return Hulls(problem).solve(budgets[0]) if len(budgets) == 1 else exact(problem, budgets)


def read_field(held: Mapping[str, Any], costs: tuple[Cost, ...], graph: Graph) -> Field:
    """What `to_json` told; raises LookupError, TypeError or ValueError for anything else."""
    groups = tuple(Group((), np.arange(len(g["kl"]))[None], np.array(g["kl"], np.float64), np.array(g["amounts"]))
                   for g in held["groups"])  # fmt: skip
    return Field(Problem(groups, np.array(held["rest"]), costs, graph), tuple(held["budgets"]))


@dataclass(frozen=True, slots=True)
class _Fit:
    """What trials tell of luck: `residual` of each, the kernel under it; `wide`: of each choice before any trial."""

    slope: float
    wide: Floats
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
        self._luck: Floats = np.maximum(kl, LEAST) ** POWERS.get(figure, 1.0)
        self._scale = abs(want.goals[0].weight) if want.summed and want.goals else 1.0
        self._rows = np.arange(len(kl))
        self._chance = np.random.default_rng(seed)

    def proposed(self, told: Iterable[tuple[Whole, Trial]], seen: Known | None = None) -> Whole | None:
        """The next picks, none of those that are there; None where draws give nothing new.

        Costs that are no exact sums may be missed: then less of the limits is taken. `seen`: each sample of trials.
        """
        known = list(told)
        missed = sum(any(v > 0 for v in t.violation.values()) for _, t in known)
        tried = {tuple(p.tolist()) for p, _ in known}
        done = [(p, self.want.score(t)) for p, t in known if t.state == "complete"]
        picks = np.array([p for p, _ in done], np.int64).reshape(len(done), len(self._rows))
        fit, share = self._fitted(picks, np.array([s for _, s in done]) / self._scale), max(LESS, 1 - NARROWER * missed)
        for _ in range(TRIES):
            found = self.field.solved(self._drawn(picks, fit), share)
            if found is not None and tuple(found.picks.tolist()) not in tried:
                return found.picks if seen is None else self._by_samples(seen, found.picks, share, tried)
        return None

    def _by_samples(self, seen: Known, drawn: Whole, share: float, tried: set[tuple[int, ...]]) -> Whole:
        """What may gain most of all that is near the best trials, or near what was drawn."""
        best = seen.picks[np.argsort(-seen.accuracies, kind="stable")[:STARTS]]
        budgets, problem = np.array(self.field.within(share)), self.field.problem

        def fits(many: Whole) -> NDArray[np.bool_]:
            amounts = problem.rest + problem.amounts[:, self._rows, many].sum(2).T
            return (amounts <= budgets + 1e-9 * np.abs(budgets)).all(1)

        sizes = [len(g.kl) for g in problem.groups]
        found = climbed(learned(seen, self._kl), [drawn, *best], fits, tried, sizes, self._chance)
        return drawn if found is None else found

    # -- what is known

    def _fitted(self, picks: Whole, scores: Floats) -> _Fit:
        """The slope and the widths of luck that what was measured speaks for most."""
        same = picks[:, None, :] == picks[None, :, :]
        shared = (same * np.square(self._luck)[self._rows, picks][:, None, :]).sum(2)
        changed = self._kl[self._rows, picks].sum(1)
        level = float(np.median(scores)) if len(scores) else 0.0
        fits = (self._fit(shared, scores - level + slope * changed, slope, width, alone)
                for slope, width, alone in itertools.product(SLOPES, WIDTHS, ALONE))  # fmt: skip
        return max(fits, key=lambda f: f.likely)

    def _fit(self, shared: Floats, residual: Floats, slope: float, width: float, alone: float) -> _Fit:
        noise = width**2 * alone * np.diag(shared) + ROUGH
        kernel = width**2 * shared + np.diag(noise) + LEVEL**2
        expected = ((np.log(slope / SLOPE[0]) / SLOPE[1]) ** 2 + (np.log(width / WIDTH[0]) / WIDTH[1]) ** 2) / 2
        _, size = np.linalg.slogdet(kernel) if len(residual) else (1.0, 0.0)
        likely = -0.5 * (float(residual @ np.linalg.solve(kernel, residual)) + float(size)) - float(expected)
        return _Fit(slope, width * self._luck, kernel, noise, residual, likely)

    def _drawn(self, picks: Whole, fit: _Fit) -> Floats:
        """What each choice loses, drawn from what may be true: luck as it could be, put right by what was measured."""
        luck = self._chance.normal(size=self._luck.shape) * fit.wide
        made = luck[self._rows, picks].sum(1) + self._chance.normal() * LEVEL
        made = made + self._chance.normal(size=len(picks)) * np.sqrt(fit.noise)
        missing = np.linalg.solve(fit.kernel, fit.residual - made) if len(picks) else np.zeros(0)
        put_right: NDArray[np.float64] = np.zeros_like(luck)
        for row, by in zip(picks, missing, strict=True):
            put_right[self._rows, row] += by
        losses = fit.slope * self._kl - luck - np.square(fit.wide) * put_right
        return np.where(np.isfinite(self.field.problem.kl), losses, np.inf)
