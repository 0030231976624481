"""Of many choices, parallel coordinates show those that tell most."""

from __future__ import annotations

import numpy as np
import pytest

from espalier.app.features.search.charts.board import StudyBoard
from espalier.app.features.search.charts.informative import explained
from espalier.app.features.search.charts.parallel import FEWEST
from tests.gui.search.made_study import GOALS, choices, trials

pytestmark = pytest.mark.gui
MANY = 60


def test_the_share_that_a_choice_explains() -> None:
    luck = np.random.default_rng(0)
    x, noise = luck.integers(0, 4, 500).astype(float), luck.normal(size=500)
    means = np.array([3.0, -3.0, 3.0, -3.0])  # no line sees them
    assert explained(x, means[x.astype(int)] + noise, True) == pytest.approx(0.9, abs=0.03)
    assert explained(x, means[x.astype(int)] + noise, False) < 0.3
    assert explained(x, noise, True) < 0.02 and explained(noise, 2 * noise, False) == pytest.approx(1.0)
    assert explained(x[:2], noise[:2], True) == 0.0 and explained(np.zeros(9), noise[:9], True) == 0.0


def test_of_many_choices_those_that_tell_most_are_drawn(board: StudyBoard) -> None:
    board.tiles[0].show_kind("Parallel coordinates")
    board.show_study(trials(400, layers=MANY), GOALS, choices(MANY))
    chart = board.tiles[0].chart
    names = [a.name for a in chart.axes]
    assert FEWEST <= len(names) < MANY and names[-2:] == ["accuracy", "weight_bits"]
    assert "sparsity" in names and choices(MANY)[0].name in names  # what the accuracy was made of
    assert f"{len(names)} of {MANY + 5} axes" in chart.legend()
    chart.choose("all choices", True)
    assert len(chart.axes) == MANY + 5 and "of 65 axes" not in chart.legend()


def test_axes_stay_while_one_is_brushed(board: StudyBoard) -> None:
    board.tiles[0].show_kind("Parallel coordinates")
    board.show_study(trials(60, layers=MANY), GOALS, choices(MANY))
    chart = board.tiles[0].chart
    before = [a.name for a in chart.axes]
    chart.axes[0].brushes.append((0.2, 0.6))
    for trial in trials(200, layers=MANY)[60:]:
        board.append(trial)
    board.draw_fresh()
    assert [a.name for a in chart.axes] == before and chart.axes[0].brushes
