"""Allocation problem of one cost with its front, so that a budget is answered at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from espalier.app.features.allocate.state.predicted_total import TotalPredictor
from espalier.model.graph.graph import Graph
from espalier.passes.allocation.convex_hulls import Hulls, Solution
from espalier.passes.allocation.predicted_fronts import POINTS, Falling, falling
from espalier.passes.allocation.problem import Problem
from espalier.passes.allocation.solve import Competing, problem_of
from espalier.passes.costs.base import Cost
from espalier.passes.sensitivity.combined import CombinedDivergences
from espalier.passes.sensitivity.table import Sensitivity


@dataclass(frozen=True, slots=True)
class CostProblem:
    """Allocation problem of one cost, its hulls, and its front of (cost, total predicted divergence)."""

    problem: Problem
    hulls: Hulls
    front: Falling
    predictor: TotalPredictor

    @property
    def cost(self) -> Cost:
        """The cost."""
        return self.problem.costs[0]

    def figure(self, of: Solution) -> float:
        """The cost of a solution."""
        return self.problem.figure(0, float(of.amounts[0]))

    def points(self) -> list[tuple[float, float]]:
        """The front as (cost, predicted divergence)."""
        return [(self.figure(s), kl) for s, kl in zip(self.front.solutions, self.front.kls, strict=True)]

    def quick(self, budget: float) -> tuple[Solution, float]:
        """Best quick solution within an amount, else the cheapest, with its predicted divergence."""
        solution = self.hulls.solve(budget) or self.front.solutions[0]
        return self.front.better(solution, self.predictor.of(self.problem.chosen(solution.picks)), budget)


def build(
    graph: Graph, table: Sequence[Sensitivity], figure: str, competing: Competing, combined: CombinedDivergences
) -> CostProblem:
    """Build the problem, its hulls and its front."""
    problem = problem_of(graph, table, [figure], competing)
    hulls, predictor = Hulls(problem), TotalPredictor(combined, table, graph)
    return CostProblem(problem, hulls, falling(problem, hulls.front(POINTS), predictor.of), predictor)
