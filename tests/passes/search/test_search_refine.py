"""The front as refined by trials: limits hold, what is learned counts, and every worker can go on with it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from espalier.model.graph.graph import Graph
from espalier.passes.allocation.problem import Group, Problem
from espalier.passes.search.goals import Wanted, wanted
from espalier.passes.search.refine import Field, Refined, read_field
from espalier.passes.search.spec import Goal, SearchSpec
from espalier.passes.search.trial import Trial

LAYERS, WIDTHS = 6, np.array([2.0, 3.0, 4.0, 8.0])
GOAL: Wanted = wanted(SearchSpec(goals=(Goal("accuracy"),)))


class _Cost:
    """One that is a sum; the problem asks nothing else of it."""

    name = "bits"


def field(budget: float) -> Field:
    kl = 4.0**-WIDTHS
    groups = tuple(Group((), np.arange(4)[None], kl * (1 + g), WIDTHS[None]) for g in range(LAYERS))
    return Field(Problem(groups, np.zeros(1), (_Cost(),), Graph({}, (), ())), (budget,))  # type: ignore[arg-type]


def trial(number: int, score: float) -> Trial:
    return Trial(number, "complete", values=(score,))


def bits(picks: np.ndarray) -> float:
    return float(WIDTHS[picks].sum())


def test_every_proposal_is_new_and_holds_the_limit() -> None:
    refined = Refined(field(20.0), GOAL, 0)
    told: list[tuple[np.ndarray, Trial]] = []
    for number in range(25):
        picks = refined.propose(told)
        assert picks is not None and bits(picks) <= 20 and not any((p == picks).all() for p, _ in told)
        told.append((picks, trial(number, 0.78)))


def test_what_was_measured_counts() -> None:
    """Where 3 bits in the first layer raise the goal, against the prediction, proposals come to have them."""
    refined = Refined(field(30.0), GOAL, 1)
    told: list[tuple[np.ndarray, Trial]] = []
    for number in range(40):
        picks = refined.propose(told)
        assert picks is not None
        told.append((picks, trial(number, 0.8 if picks[0] == 1 else 0.7)))
    late = [int(p[0]) for p, _ in told[-10:]]
    assert late.count(1) >= 8
    blind = Refined(field(30.0), GOAL, 1)
    flat = [(p, trial(t.number, 0.7)) for p, t in told]
    assert sum(int(p[0]) == 1 for _ in range(10) if (p := blind.propose(flat)) is not None) < 8


def test_missed_limits_make_it_careful() -> None:
    """A cost that is no exact sum may be missed by what should hold it."""
    missed = [(np.full(LAYERS, 3), Trial(i, "pruned", violation={"size": 1.0})) for i in range(9)]
    found = [Refined(field(24.0), GOAL, s).propose(missed) for s in range(5)]
    assert all(p is not None and bits(p) <= 12 + 0.8 * (24 - 12) for p in found)


@pytest.mark.parametrize("seed", [0, 3])
def test_it_travels_as_json(seed: int) -> None:
    held = field(18.0)
    again = read_field(json.loads(json.dumps(held.to_json())), held.problem.costs, held.problem.graph)
    first, second = (Refined(f, GOAL, seed).propose([]) for f in (held, again))
    assert first is not None and second is not None and (first == second).all()
