"""A problem along one cost with its front, so that a budget is answered at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from espalier.app.features.allocate.state.whole import Told
from espalier.model.graph.graph import Graph
from espalier.passes.allocation.convex_hulls import Hulls, Solution
from espalier.passes.allocation.predicted_fronts import POINTS, Falling, falling
from espalier.passes.allocation.problem import Problem
from espalier.passes.allocation.solve import Competing, problem_of
from espalier.passes.costs.base import Cost
from espalier.passes.sensitivity.combined import Wholes
from espalier.passes.sensitivity.table import Sensitivity


@dataclass(frozen=True, slots=True)
class Built:
    """A problem along one cost, its hulls and its front, by what whole configurations are predicted to cost."""

    problem: Problem
    hulls: Hulls
    front: Falling
    told: Told

    @property
    def cost(self) -> Cost:
        """The cost that it is along."""
        return self.problem.costs[0]

    def figure(self, of: Solution) -> float:
        """The cost of a solution."""
        return self.problem.figure(0, float(of.amounts[0]))

    def points(self) -> list[tuple[float, float]]:
        """The front as (cost, predicted divergence)."""
        return [(self.figure(s), kl) for s, kl in zip(self.front.solutions, self.front.kls, strict=True)]

    def quick(self, budget: float) -> tuple[Solution, float]:
        """The best that is known at once within an amount, else the cheapest, and what it is predicted to cost."""
        found = self.hulls.solve(budget) or self.front.solutions[0]
        return self.front.better(found, self.told.of(self.problem.chosen(found.picks)), budget)


def build(graph: Graph, table: Sequence[Sensitivity], figure: str, competing: Competing, wholes: Wholes) -> Built:
    """Count what everything costs, and find the front."""
    problem = problem_of(graph, table, [figure], competing)
    hulls, told = Hulls(problem), Told(wholes, table, graph)
    return Built(problem, hulls, falling(problem, hulls.front(POINTS), told.of), told)
