"""The front of two figures."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication

from espalier.app.features.search.charts.board import StudyBoard
from espalier.app.features.search.charts.option_menu import fill
from espalier.app.figures.study.data import nondominated
from espalier.passes.search.spec import Goal
from espalier.passes.search.trial import Trial
from tests.gui.search.made_study import GOALS, choices, trial, trials
from tests.gui.study_plots.shown import show

pytestmark = pytest.mark.gui


def test_the_front_is_what_nothing_beats(board: StudyBoard) -> None:
    chart = show(board, 150, "Pareto front")
    feasible = [t for t in board.study.trials if t.feasible]
    best = {t.number for t in feasible if not any(beats(o, t) for o in feasible)}
    assert {board.study.trials[p].number for p in chart.front} == best
    for number in range(150, 220):
        board.append(trial(number))
        board.draw_fresh()
    feasible = [t for t in board.study.trials if t.feasible]
    best = {t.number for t in feasible if not any(beats(o, t) for o in feasible)}
    assert {board.study.trials[p].number for p in chart.front} == best
    assert "weight bits ≤ 16" in board.tiles[0].legend.text().lower()
    limits = [i for i in chart.plot.items if type(i).__name__ == "InfiniteLine"]
    assert [i.value() for i in limits] == [16.0] and not any(hasattr(i, "label") for i in limits)


def beats(a: Trial, b: Trial) -> bool:
    """Accuracy high, bits low."""
    return a.values[0] >= b.values[0] and a.values[1] <= b.values[1] and a.values != b.values


def test_equal_points_are_all_on_the_front_and_none_without_values() -> None:
    merits = np.array([[1.0, 1.0], [1.0, 1.0], [0.5, 0.9], [2.0, -np.inf], [0.0, 3.0]])
    assert sorted(nondominated(merits).tolist()) == [0, 1, 4]


def test_three_goals_have_a_colour_and_a_front_of_all(board: StudyBoard) -> None:
    board.tiles[0].show_kind("Pareto front")
    goals = (*GOALS, Goal("size_bytes"))
    board.show_study(trials(80, third=True), goals, choices())
    chart = board.tiles[0].chart
    assert chart.shade == "size_bytes" and "size" in chart.legend() and len(chart._best.data) == len(chart.front)


def test_a_figure_is_told_by_size_and_a_hover_tells_all(board: StudyBoard) -> None:
    board.tiles[0].show_kind("Pareto front")
    goals = (*GOALS, Goal("size_bytes"))
    board.show_study(trials(80, third=True), goals, choices())
    chart = board.tiles[0].chart
    assert not len(chart._bubbles.data), "one size, unless a figure is chosen"
    chart.choose("size", "size_bytes")
    shown = [t for t in board.study.trials if t.state == "complete" and t.feasible]
    sizes, values = chart._bubbles.data["size"], sorted((t.figures["size_bytes"] for t in shown), reverse=True)
    assert len(sizes) == len(shown) and list(sizes) == sorted(sizes, reverse=True), "large ones lie below"
    assert sizes[0] > 2 * sizes[-1] and values[0] > values[-1] and "●" in chart.legend()
    words = chart.hover_text_at(int(chart.front[0])).lower()
    assert all(w in words for w in ("accuracy", "weight bits", "size"))
    board.append(trial(99, third=True))
    board.draw_fresh()
    assert len(chart._bubbles.data) in (len(shown), len(shown) + 1)
    chart.choose("size", "")
    assert not len(chart._bubbles.data)


def test_what_the_head_has_no_room_for_is_in_a_menu(board: StudyBoard) -> None:
    chart, tile = show(board, 30, "Pareto front"), board.tiles[0]
    tile.setFixedWidth(1600)
    QApplication.processEvents()
    assert tile.more.isHidden() and not any(f.isHidden() for f in tile.fields.values())
    tile.setFixedWidth(420)
    QApplication.processEvents()
    assert not tile.more.isHidden() and tile.fields["size"].isHidden()
    hidden = [o for o in chart.options() if tile.fields[o.name].isHidden()]
    fill(tile.rest, hidden, chart.option, tile._take)
    texts = {a.text(): a for a in tile.rest.actions()}
    assert "Metric shown by the size of the dots" in texts and "Logarithmic vertical axis" in texts
    sizes = texts["Metric shown by the size of the dots"].menu()
    next(a for a in sizes.actions() if a.text() == "weight bits").trigger()
    texts["Logarithmic vertical axis"].trigger()
    assert chart.bulk == "weight_bits" and chart.log_y and len(chart._bubbles.data)


def test_a_study_of_one_goal_has_no_front_until_a_figure_is_told(board: StudyBoard) -> None:
    board.tiles[0].show_kind("Pareto front")
    board.show_study([Trial(0, "complete", {}, (0.5,))], (Goal("accuracy"),))
    assert "one metric only" in board.tiles[0]._words.text()


def test_a_front_says_what_it_waits_for(board: StudyBoard) -> None:
    board.tiles[0].show_kind("Pareto front")
    board.show_study([trial(0, running=True)], GOALS[:1])
    assert "No trial is complete yet" in board.tiles[0]._words.text()
    board.append(Trial(0, "complete", {}, (0.5,), {"accuracy": 0.5}))
    board.draw_fresh()
    assert "one metric only" in board.tiles[0]._words.text()


def test_a_goal_is_not_drawn_against_itself(board: StudyBoard) -> None:
    """The bits of weights alone as a goal: the size goes across."""
    board.tiles[0].show_kind("Pareto front")
    board.show_study(trials(12), (Goal("weight_bits"),), choices())
    chart = board.tiles[0].chart
    assert (chart.y_name, chart.x_name) == ("weight_bits", "size_bytes")
