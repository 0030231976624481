"""Pareto fronts by the predicted divergence of configurations: errors of layers add up or cancel, so some solutions
with least sums are dominated by cheaper ones."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from espalier.passes.allocation.convex_hulls import TINY, Hulls, Solution
from espalier.passes.allocation.decisions import PortRef
from espalier.passes.allocation.problem import Problem, undominated
from espalier.passes.sensitivity.table import Candidate

Tell = Callable[[Mapping[PortRef, Candidate]], float]  # predicted divergence of a configuration
POINTS = 64


@dataclass(frozen=True, slots=True)
class Falling:
    """A Pareto front along one cost, by increasing amount; `kls`: divergences of the configurations."""

    cost: int
    solutions: tuple[Solution, ...]
    kls: tuple[float, ...]

    @property
    def ends(self) -> tuple[float, float]:
        """The minimum amount, and the one of least divergence."""
        return self._amount(self.solutions[0]), self._amount(self.solutions[-1])

    def within(self, budget: float) -> Iterator[tuple[Solution, float]]:
        """(solution, divergence) within an amount, best first."""
        room = TINY * max(abs(budget), abs(self.ends[0]))
        for i in reversed(range(bisect_right(self.solutions, budget + room, key=self._amount))):
            yield self.solutions[i], self.kls[i]

    def better(self, found: Solution, kl: float, budget: float) -> tuple[Solution, float]:
        """The better of a solution and the front's best within an amount; its gap refers to the least sum within the
        amount."""
        best, least = next(self.within(budget), (found, kl))
        return (replace(best, bound=found.bound), least) if least < kl else (found, kl)

    def _amount(self, solution: Solution) -> float:
        return float(solution.amounts[self.cost])


def falling(problem: Problem, solutions: Sequence[Solution], tell: Tell, cost: int = 0) -> Falling:
    """The front of the solutions that are not dominated as configurations."""
    kls = [tell(problem.chosen(s.picks)) for s in solutions]
    front = undominated(np.array(kls), np.array([[s.amounts[cost] for s in solutions]]))
    front = front[np.argsort([solutions[i].amounts[cost] for i in front])]
    return Falling(cost, tuple(solutions[i] for i in front), tuple(kls[i] for i in front))


def fronts(problem: Problem, tell: Tell) -> tuple[Falling, ...]:
    """The front along each cost."""
    count = len(problem.costs)
    return tuple(falling(problem, Hulls(problem, i).front(POINTS), tell, i) for i in range(count))
