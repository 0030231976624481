"""Lagrangian solution for one budget in microseconds: the convex hulls of all groups, merged by slope.

At a multiplier λ every group takes a corner of its hull. The steps between corners, sorted by slope, give all such
solutions, so a budget is solved by bisection; the rest of the budget is used greedily.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from espalier.passes.allocation.problem import Ints, Problem
from espalier.passes.costs.base import Floats

TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Solution:
    """One option per group, the sum of their divergences, signed amounts by cost, and a lower bound of all
    solutions."""

    picks: Ints
    kl: float
    amounts: Floats
    bound: float

    @property
    def gap(self) -> float:
        """Maximum relative distance from the optimum; 0: optimal."""
        return (self.kl - self.bound) / self.kl if self.kl > self.bound and self.kl > 0 else 0.0


def solution(problem: Problem, picks: Ints, bound: float) -> Solution:
    """The solution of picks."""
    rows = np.arange(len(picks))
    amounts = problem.rest + problem.amounts[:, rows, picks].sum(1)
    return Solution(picks, float(problem.kl[rows, picks].sum()), amounts, bound)


class Hulls:
    """The hulls of a problem for one cost."""

    def __init__(self, problem: Problem, cost: int = 0) -> None:
        self.problem, self.cost = problem, cost
        self._kl, self._amounts = problem.kl, problem.amounts[cost]
        steps: list[tuple[float, float, float, int, int]] = []
        self._first = np.zeros(len(problem.groups), np.int64)
        for g, group in enumerate(problem.groups):
            corners = hull(group.amounts[cost], group.kl)
            self._first[g] = corners[0]
            for a, b in itertools.pairwise(corners.tolist()):
                more, gain = float(group.amounts[cost][b] - group.amounts[cost][a]), float(group.kl[a] - group.kl[b])
                steps.append((gain / more, more, gain, g, b))
        steps.sort(key=lambda s: -s[0])  # stable, and a hull's own slopes fall
        rows = np.arange(len(self._first))
        self._slope = np.array([s[0] for s in steps])
        self._group = np.array([s[3] for s in steps], np.int64)
        self._target = np.array([s[4] for s in steps], np.int64)
        start = problem.rest[cost] + self._amounts[rows, self._first].sum()
        self.amounts = start + np.concatenate([[0.0], np.cumsum([s[1] for s in steps])])
        self.kls = self._kl[rows, self._first].sum() - np.concatenate([[0.0], np.cumsum([s[2] for s in steps])])

    @property
    def ends(self) -> tuple[float, float]:
        """The minimum amount, and the one of least divergence."""
        return float(self.amounts[0]), float(self.amounts[-1])

    def _reached(self, budget: float) -> int:
        room = TINY * max(abs(budget), abs(self.amounts[0]))
        return int(np.searchsorted(self.amounts, budget + room, side="right")) - 1

    def multiplier(self, budget: float) -> float:
        """The λ of a budget: divergence saved per unit of the amount."""
        k = self._reached(budget)
        return float(self._slope[k]) if 0 <= k < len(self._slope) else 0.0

    def bound(self, budget: float) -> float:
        """The divergence of the relaxed problem, a lower bound within the budget."""
        k = self._reached(budget)
        left = budget - self.amounts[k]
        part = self._slope[k] * left if k < len(self._slope) else 0.0
        return max(float(self.kls[k] - part), 0.0)

    def solve(self, budget: float) -> Solution | None:
        """A near-optimal solution within the budget; None if there is none."""
        k = self._reached(budget)
        if k < 0:
            return None
        picks = self._first.copy()
        picks[self._group[:k]] = self._target[:k]  # the last step of each group applies
        picks = self._filled(picks, budget - self.amounts[k], k)
        return solution(self.problem, picks, self.bound(budget))

    def _filled(self, picks: Ints, left: float, reached: int) -> Ints:
        """Use the rest of the budget greedily: repeat the single change with the largest gain."""
        rows = np.arange(len(picks))
        for _ in range(4 * len(picks)):
            now, spent = self._kl[rows, picks], self._amounts[rows, picks]
            fits = self._amounts <= (spent + left + TINY * abs(left))[:, None]
            best = np.where(fits, self._kl, np.inf)
            better = best.argmin(1)
            gain = now - best[rows, better]
            g = int(gain.argmax())
            if not gain[g] > 0:
                break
            left -= float(self._amounts[g, better[g]] - spent[g])
            picks[g] = better[g]
        return picks

    def front(self, count: int) -> list[Solution]:
        """Pareto solutions from the minimum amount to the least divergence, geometrically spaced if positive."""
        low, high = self.ends
        spaced = np.geomspace(low, high, count) if low > 0 and high > low else np.linspace(low, high, count)
        solutions = [s for b in (low, *spaced[1:-1].tolist(), high) if (s := self.solve(b)) is not None]
        front: list[Solution] = []
        for each in solutions:
            if not front or each.kl < front[-1].kl:
                front.append(each)
        return front


def hull(amounts: Floats, kl: Floats) -> Ints:
    """The corners of the lower left convex hull, from the least amount to the least divergence."""
    order = np.lexsort((kl, amounts))
    corners: list[int] = []
    for i in order.tolist():
        if corners and kl[i] >= kl[corners[-1]]:
            continue
        if corners and amounts[i] == amounts[corners[-1]]:
            continue
        while len(corners) > 1:
            a, b = corners[-2], corners[-1]
            if (kl[a] - kl[b]) * (amounts[i] - amounts[a]) > (kl[a] - kl[i]) * (amounts[b] - amounts[a]):
                break
            corners.pop()
        corners.append(i)
    return np.array(corners, np.int64)
