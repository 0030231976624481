"""Fronts by what whole configurations are predicted to cost: the errors of layers add up or cancel, so that of the
solutions with the least sums some are worse than cheaper ones. Those are no points of a front."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from espalier.passes.allocation.hulls import TINY, Hulls, Solution
from espalier.passes.allocation.places import Place
from espalier.passes.allocation.problem import Problem, undominated
from espalier.passes.sensitivity.table import Candidate

Tell = Callable[[Mapping[Place, Candidate]], float]  # the divergence of a whole configuration
POINTS = 64


@dataclass(frozen=True, slots=True)
class Falling:
    """Solutions along one cost, dearer and dearer, and better and better: `kls` are those of the wholes."""

    cost: int
    solutions: tuple[Solution, ...]
    kls: tuple[float, ...]

    @property
    def ends(self) -> tuple[float, float]:
        """The least amount, and that from which on nothing gets better."""
        return self._amount(self.solutions[0]), self._amount(self.solutions[-1])

    def within(self, budget: float) -> Iterator[tuple[Solution, float]]:
        """Those not above an amount, the best first."""
        room = TINY * max(abs(budget), abs(self.ends[0]))
        for i in reversed(range(bisect_right(self.solutions, budget + room, key=self._amount))):
            yield self.solutions[i], self.kls[i]

    def better(self, found: Solution, kl: float, budget: float) -> tuple[Solution, float]:
        """A solution within an amount, or the point of the front that is as cheap and better; its gap is that to the
        least sum within the amount."""
        best, least = next(self.within(budget), (found, kl))
        return (replace(best, bound=found.bound), least) if least < kl else (found, kl)

    def _amount(self, solution: Solution) -> float:
        return float(solution.amounts[self.cost])


def falling(problem: Problem, solutions: Sequence[Solution], tell: Tell, cost: int = 0) -> Falling:
    """The solutions that no cheaper one equals as a whole."""
    kls = [tell(problem.chosen(s.picks)) for s in solutions]
    kept = undominated(np.array(kls), np.array([[s.amounts[cost] for s in solutions]]))
    kept = kept[np.argsort([solutions[i].amounts[cost] for i in kept])]
    return Falling(cost, tuple(solutions[i] for i in kept), tuple(kls[i] for i in kept))


def fronts(problem: Problem, tell: Tell) -> tuple[Falling, ...]:
    """One along each cost."""
    count = len(problem.costs)
    return tuple(falling(problem, Hulls(problem, i).front(POINTS), tell, i) for i in range(count))
