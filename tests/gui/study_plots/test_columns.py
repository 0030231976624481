"""The columns that all charts draw from, and how choices are called."""

from __future__ import annotations

import pytest

from app.plots.study.axes import Axis, step_of
from app.plots.study.board import StudyBoard
from app.plots.study.data import Scale, Study
from app.plots.study.words import bits_of, plain, short_names
from passes.search.space import Choice
from passes.search.spec import Goal
from passes.search.trial import Trial
from tests.gui.search.made_study import choices

pytestmark = pytest.mark.gui


def test_names_lose_what_they_share_and_stay_apart() -> None:
    made = short_names(choices(8))
    assert made["bert.encoder.layer.0.attention.query.dense weight"] == "0.attention.query"
    assert made["learning rate"] == "learning rate" and len(set(made.values())) == len(made)
    assert short_names([Choice("a.b weight", "format")]) == {"a.b weight": "a.b weight"}


def test_long_names_keep_both_ends() -> None:
    names = ("first.of.a.very.long.path.to.dense", "second.of.a.very.long.path.to.weight")
    made = short_names([Choice(n, "format") for n in names])
    assert made[names[0]].startswith("first.") and made[names[1]].endswith(".weight")
    assert all(len(t) <= 24 for t in made.values())


def test_a_format_that_is_fitted_to_each_layer_is_called_so(board: StudyBoard) -> None:
    values = ("integer(width=8)", "integer(width=8, frac_width=4)", "mxint(width=4)", "float")
    for fit, told in ((True, "int 8 fitted"), (False, plain("integer(width=8)"))):
        scale = Scale(Choice("a weight", "format", values, fit=fit))
        assert [scale.text(i) for i in range(4)] == [told, *map(plain, values[1:])]
    study = [Trial(i, "complete", {"a weight": v}, (0.5,)) for i, v in enumerate(values)]
    board.tiles[0].show_kind("Choice map")
    board.show_study(study, (Goal("accuracy"),), [Choice("a weight", "format", values, fit=True)])
    chart = board.tiles[0].chart
    assert chart._chosen(Axis("a weight", "a", chart.study.scales["a weight"]), 0) == "int 8 fitted"


def test_bits_of_formats_and_of_what_is_none() -> None:
    assert bits_of("integer(width=4, frac_width=2)") == 4 and bits_of("float") == 32 and bits_of("gelu") is None


def test_a_study_without_its_space_gets_axes_from_what_was_chosen() -> None:
    study = Study(
        [Trial(3, "complete", {"a": "x"}, (0.5,)), Trial(7, "complete", {"a": "y"}, (0.6,))], (Goal("accuracy"),)
    )
    assert study.scales["a"].values == ["x", "y"] and study.number.tolist() == [3, 7]
    assert study.best("accuracy").tolist() == [0.5, 0.6]


def test_the_sum_of_goals_is_a_figure_of_its_own() -> None:
    goals = (Goal("accuracy"), Goal("weight_bits", weight=0.1))
    study = Study([Trial(0, "complete", {}, (0.4,), {"accuracy": 0.8, "weight_bits": 4.0})], goals)
    assert study.names[0] == "sum of goals" and study.merit("sum of goals").tolist() == [0.4]
    assert study.merit("weight_bits").tolist() == [-4.0]


def test_sizes_are_labelled_at_round_numbers_of_their_unit() -> None:
    assert step_of("size_bytes", 1.9 * 1024**3, 4) == 0.5 * 1024**3
    assert step_of("size_bytes", 300 * 1024**2, 4) == 100 * 1024**2
    assert step_of("weight_bits", 1.9e9, 4) == 5e8 and step_of("size_bytes", 0.5, 4) == 0.2
