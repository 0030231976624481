"""The best allocation under any number of budgets, by HiGHS."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Sequence

import numpy as np

from espalier.passes.allocation.hulls import Hulls, Solution, solution
from espalier.passes.allocation.problem import Bools, Problem, Whole
from espalier.passes.costs.base import Floats

ROUNDS = 6
GAP, SECONDS = 1e-6, 20.0  # where the solver ends: so near to the best, or with what it has; the gap is told
SLACK = 1e-9  # share of a budget by which sums of floats may miss it


def exact(problem: Problem, budgets: Sequence[float], hulls: Hulls | None = None) -> Solution | None:
    """The solution of least divergence whose signed amounts are at most `budgets`; None where there is none.

    With one budget the Lagrangian solution bounds the best from both sides, and only options that may lie between go
    to the solver.
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
    """Options that a solution better than `best` may have: their reduced costs do not fill the gap."""
    with np.errstate(invalid="ignore"):
        reduced = problem.kl + multiplier * problem.amounts[0]
    reduced = np.where(np.isfinite(problem.kl), reduced, np.inf)
    least = reduced.min(1)
    bound = float(least.sum()) - multiplier * (budget - float(problem.rest[0]))
    found: Bools = reduced - least[:, None] <= (best - bound) * (1 + 1e-9)
    return found


def _solved(problem: Problem, budgets: Floats, alive: Bools) -> Solution | None:
    """By HiGHS; its tolerance may miss a budget by a hair: then it is drawn in by as much and solved again."""
    room = budgets - problem.rest
    allowed = budgets + SLACK * np.maximum(np.abs(budgets), np.abs(problem.rest))
    for _ in range(ROUNDS):
        solved = _milp(problem, room, alive)
        if solved is None:
            return None
        found = solution(problem, *solved)
        over = found.amounts - allowed
        if (over <= 0).all():
            return found
        room = np.where(over > 0, room - 2 * over, room)
    return None


def least_under(problem: Problem, budgets: Sequence[float], number: int) -> Solution | None:
    """The solution of least amount of cost `number` under budgets of the costs before it."""
    count, alive = len(problem.costs), np.isfinite(problem.kl)
    room = np.full(count, np.inf)
    room[: len(budgets)] = np.array(budgets, np.float64) - problem.rest[: len(budgets)]
    solved = _milp(problem, room, alive, problem.amounts[number])
    return None if solved is None else solution(problem, solved[0], 0.0)


def _milp(problem: Problem, room: Floats, alive: Bools, goal: Floats | None = None) -> tuple[Whole, float] | None:
    """The picks of least divergence (or `goal`) by HiGHS, and a bound that none is below; None where there are none."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    groups, options = np.nonzero(alive)
    low, count = (problem.kl if goal is None else goal)[groups, options], len(groups)
    one = csr_array((np.ones(count), (groups, np.arange(count))), shape=(len(problem.groups), count))
    rows, limits = _scaled(problem.amounts[:, groups, options], room)
    scale = max(float(np.abs(low).max(initial=0.0)), 1e-300)  # the solver's tolerances are absolute
    with _quiet():
        found = milp(
            low / scale * 1e3,
            integrality=np.ones(count),
            bounds=Bounds(0, 1),
            constraints=[LinearConstraint(one, 1, 1), LinearConstraint(rows, -np.inf, limits)],  # type: ignore[arg-type]
            options={"mip_rel_gap": GAP, "time_limit": SECONDS},
        )
    if found.x is None:
        return None
    chosen = np.full(len(problem.groups), -1)
    taken = np.flatnonzero(found.x > 0.5)
    chosen[groups[taken]] = options[taken]
    if not (chosen >= 0).all():
        return None
    reached, bound = float(low[taken].sum()), float(found.mip_dual_bound or 0.0) * scale / 1e3
    return chosen, reached if reached - bound <= 2 * GAP * abs(reached) else bound


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """HiGHS writes lines of its own to file descriptor 1, whatever it is asked."""
    try:
        held = os.dup(1)
    except OSError:  # there is none to write to
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(held, 1)
        os.close(held)
        os.close(nowhere)


def _scaled(amounts: Floats, room: Floats) -> tuple[Floats, Floats]:
    """Rows of about 1, so that the solver's absolute tolerance is a share of the budget."""
    size = np.maximum(np.abs(amounts).max(1, initial=0.0), np.abs(room) / 1e3)
    size = np.where((size > 0) & np.isfinite(size), size, 1.0)
    return amounts / size[:, None], np.where(np.isfinite(room), room / size, np.inf)
