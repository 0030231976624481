"""Exact allocation under any number of budgets, as a mixed-integer linear programme solved by HiGHS."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from espalier.passes.allocation.convex_hulls import Hulls, Solution, solution
from espalier.passes.allocation.problem import Bools, Ints, Problem
from espalier.passes.costs.base import Floats
from espalier.passes.solver import quiet

ROUNDS = 6
GAP, SECONDS = 1e-6, 20.0  # relative gap and time limit of the solver; the gap is reported
SLACK = 1e-9  # relative tolerance of a budget, for rounding errors of sums


def exact(problem: Problem, budgets: Sequence[float], hulls: Hulls | None = None) -> Solution | None:
    """The solution of least divergence whose signed amounts are at most `budgets`; None if there is none.

    With one budget, the Lagrangian solution bounds the optimum from both sides, and the solver gets only options
    between these bounds.
    """
    alive = np.isfinite(problem.kl)
    if len(budgets) == 1:
        hulls = hulls or Hulls(problem)
        near = hulls.solve(budgets[0])
        if near is None or near.gap <= SLACK:
            return near
        alive &= _possible(problem, hulls.multiplier(budgets[0]), budgets[0], near.kl)
        return _solved(problem, np.array(budgets), alive) or near
    return _solved(problem, np.array(budgets, np.float64), alive)


def _possible(problem: Problem, multiplier: float, budget: float, best: float) -> Bools:
    """Options that may be in a solution better than `best`: their reduced costs are within the gap."""
    with np.errstate(invalid="ignore"):
        reduced = problem.kl + multiplier * problem.amounts[0]
    reduced = np.where(np.isfinite(problem.kl), reduced, np.inf)
    least = reduced.min(1)
    bound = float(least.sum()) - multiplier * (budget - float(problem.rest[0]))
    possible: Bools = reduced - least[:, None] <= (best - bound) * (1 + 1e-9)
    return possible


def _solved(problem: Problem, budgets: Floats, alive: Bools) -> Solution | None:
    """Solve by HiGHS; if its tolerance violates a budget slightly, tighten the budget and solve again."""
    room = budgets - problem.rest
    allowed = budgets + SLACK * np.maximum(np.abs(budgets), np.abs(problem.rest))
    for _ in range(ROUNDS):
        solved = _milp(problem, room, alive)
        if solved is None:
            return None
        result = solution(problem, *solved)
        over = result.amounts - allowed
        if (over <= 0).all():
            return result
        room = np.where(over > 0, room - 2 * over, room)
    return None


def least_under(problem: Problem, budgets: Sequence[float], number: int) -> Solution | None:
    """The solution with the least amount of cost `number`, under budgets of the costs before it."""
    count, alive = len(problem.costs), np.isfinite(problem.kl)
    room = np.full(count, np.inf)
    room[: len(budgets)] = np.array(budgets, np.float64) - problem.rest[: len(budgets)]
    solved = _milp(problem, room, alive, problem.amounts[number])
    return None if solved is None else solution(problem, solved[0], 0.0)


def _milp(problem: Problem, room: Floats, alive: Bools, goal: Floats | None = None) -> tuple[Ints, float] | None:
    """(picks of least divergence or `goal` by HiGHS, lower bound); None if infeasible."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    groups, options = np.nonzero(alive)
    low, count = (problem.kl if goal is None else goal)[groups, options], len(groups)
    one = csr_array((np.ones(count), (groups, np.arange(count))), shape=(len(problem.groups), count))
    rows, limits = _scaled(problem.amounts[:, groups, options], room)
    scale = max(float(np.abs(low).max(initial=0.0)), 1e-300)  # the solver's tolerances are absolute
    with quiet():
        result = milp(
            low / scale * 1e3,
            integrality=np.ones(count),
            bounds=Bounds(0, 1),
            constraints=[LinearConstraint(one, 1, 1), LinearConstraint(rows, -np.inf, limits)],  # type: ignore[arg-type]
            options={"mip_rel_gap": GAP, "time_limit": SECONDS},
        )
    if result.x is None:
        return None
    chosen = np.full(len(problem.groups), -1)
    taken = np.flatnonzero(result.x > 0.5)
    chosen[groups[taken]] = options[taken]
    if not (chosen >= 0).all():
        return None
    reached, bound = float(low[taken].sum()), float(result.mip_dual_bound or 0.0) * scale / 1e3
    return chosen, reached if reached - bound <= 2 * GAP * abs(reached) else bound


def _scaled(amounts: Floats, room: Floats) -> tuple[Floats, Floats]:
    """Scale rows to about 1, so that the solver's absolute tolerance is relative to the budget."""
    size = np.maximum(np.abs(amounts).max(1, initial=0.0), np.abs(room) / 1e3)
    size = np.where((size > 0) & np.isfinite(size), size, 1.0)
    return amounts / size[:, None], np.where(np.isfinite(room), room / size, np.inf)
