"""The knapsack against trying everything: exact is the best, the Lagrangian is within its bound, fronts are fronts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.passes.allocation.convex_hulls import Hulls, hull
from espalier.passes.allocation.exact_solver import exact, least_under
from espalier.passes.allocation.problem import undominated
from tests.passes.allocation.cases import bare_problem, brute

Rows = list[list[float]]


@st.composite
def problems(draw: st.DrawFn, costs: int) -> tuple[Rows, list[Rows], list[float]]:
    """Up to five groups of up to five options, with whole amounts, so that budgets are met exactly."""
    shape = [draw(st.integers(1, 5)) for _ in range(draw(st.integers(1, 5)))]
    kl = [[draw(st.integers(0, 50)) * 1e-6 for _ in range(n)] for n in shape]
    amounts = [[[float(draw(st.integers(-3, 12))) for _ in range(n)] for n in shape] for _ in range(costs)]
    budgets = [float(draw(st.integers(-5, 40))) for _ in range(costs)]
    return kl, amounts, budgets


@settings(max_examples=150, deadline=None)
@given(problems(1))
def test_one_budget(case: tuple[Rows, list[Rows], list[float]]) -> None:
    kl, amounts, budgets = case
    problem, best = bare_problem(kl, amounts), brute(*case)
    hulls = Hulls(problem)
    found, near = exact(problem, budgets, hulls), hulls.solve(budgets[0])
    if math.isinf(best):
        assert found is None and near is None and problem.least[0] > budgets[0]
        return
    assert found is not None and near is not None
    assert found.kl == pytest.approx(best, abs=1e-12) and found.amounts[0] <= budgets[0] + 1e-9
    assert near.amounts[0] <= budgets[0] + 1e-9
    assert near.bound - 1e-12 <= best <= near.kl + 1e-12, "the bound is below the best, the best below the solution"
    assert near.kl <= best / (1 - near.gap) + 1e-12 if near.gap < 1 else True


@settings(max_examples=80, deadline=None)
@given(problems(3))
def test_several_budgets(case: tuple[Rows, list[Rows], list[float]]) -> None:
    kl, amounts, budgets = case
    problem, best = bare_problem(kl, amounts), brute(*case)
    found = exact(problem, budgets)
    if math.isinf(best):
        assert found is None
    else:
        assert found is not None and found.kl == pytest.approx(best, abs=1e-12)
        assert (found.amounts <= np.array(budgets) + 1e-9).all()


@settings(max_examples=60, deadline=None)
@given(problems(2))
def test_the_least_under_a_budget(case: tuple[Rows, list[Rows], list[float]]) -> None:
    kl, amounts, budgets = case
    found = least_under(bare_problem(kl, amounts), budgets[:1], 1)
    best = brute(amounts[1], [amounts[0]], budgets[:1])
    assert (found is None) == math.isinf(best)
    if found is not None:
        assert found.amounts[1] == pytest.approx(best)


@settings(max_examples=80, deadline=None)
@given(problems(1))
def test_a_front_falls(case: tuple[Rows, list[Rows], list[float]]) -> None:
    kl, amounts, _ = case
    problem = bare_problem(kl, amounts)
    found = Hulls(problem).front(9)
    assert found[0].amounts[0] == problem.least[0]
    assert found[-1].kl == pytest.approx(sum(min(row) for row in kl), abs=1e-12)
    pairs = [(float(s.amounts[0]), s.kl) for s in found]
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in itertools.pairwise(pairs))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 6)] * 3), min_size=1, max_size=25))
def test_what_another_beats_is_dropped(points: list[tuple[int, int, int]]) -> None:
    values = np.array(points, np.float64)
    for count in (1, 2):
        kept = undominated(values[:, 0], values[:, 1 : 1 + count].T)
        seen = {tuple(p[: 1 + count]) for p in points}
        front = {p for p in seen if not any(q != p and all(b <= a for a, b in zip(p, q, strict=True)) for q in seen)}
        assert {tuple(p[: 1 + count]) for p in values[kept].tolist()} == front and len(kept) == len(front)


def test_a_hull_has_its_corners() -> None:
    amounts = np.array([0.0, 1, 2, 3, 4, 4, 5])
    kl = np.array([8.0, 4, 3.5, 1, 1, 0.5, 0.5])
    assert hull(amounts, kl).tolist() == [0, 1, 3, 5]


def test_budgets_of_any_size_are_solved() -> None:
    """Divergences of 1e-12 and amounts of 1e12 are solved as well as those of about 1."""
    dice = np.random.default_rng(3)
    kl = (dice.random((6, 5)) * 1e-12).tolist()
    amounts = [np.round(dice.random((6, 5)) * 1e12).tolist() for _ in range(2)]
    for budgets in ([3e12, 3e12], [2e12, 4e12]):
        best, found = brute(kl, amounts, budgets), exact(bare_problem(kl, amounts), budgets)
        assert found is not None and found.kl == pytest.approx(best, rel=1e-9)
