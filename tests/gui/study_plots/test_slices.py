"""Slices, the choice map, and the other charts by trial."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QPointF
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from espalier.app.features.search.charts.board import StudyBoard
from espalier.app.features.search.charts.comparison import Compared
from espalier.app.features.search.charts.informative import explained
from espalier.app.features.search.charts.intermediate import SHADES
from espalier.app.features.search.charts.scatter import CHOICE
from espalier.app.figures.study.data import COMPLETE
from espalier.passes.search.spec import Goal
from espalier.passes.search.trial import Trial
from tests.gui.search import made_study
from tests.gui.search.made_study import GOALS, choices, trial, trials
from tests.gui.study_plots.shown import LEFT, NONE, show

pytestmark = pytest.mark.gui


def test_a_slice_shows_a_figure_by_the_categories_of_a_choice(board: StudyBoard) -> None:
    chart = show(board, 200, "Slices")
    assert chart.x_name.startswith(CHOICE) and chart.y_name == "accuracy"
    name = choices()[0].name
    chart.choose("across", CHOICE + name)
    x, _, _ = chart.spots()
    scale, study = board.study.scales[name], board.study
    assert np.array_equal(np.round(x), study.params[name]) and not np.array_equal(x, study.params[name])
    strokes = np.array(chart._middles.getData()).T
    told = [t.values[0] for t in study.trials if t.state == "complete" and scale.place(t.params[name]) == 0]
    assert strokes[0][1] == strokes[1][1] == pytest.approx(np.median(told)) and "median" in chart.legend()
    assert not len(chart.front) and "front" not in chart.legend()
    assert f"{name}: " in chart.hover_text_at(3)


def test_two_choices_at_once_tell_a_figure_by_colour(board: StudyBoard) -> None:
    chart = show(board, 200, "Slices")
    across, up = choices()[0].name, choices()[1].name
    chart.choose("across", CHOICE + across)
    chart.choose("up", CHOICE + up)
    chart.choose("colour", "accuracy")
    x, y, _ = chart.spots()
    study, done = board.study, board.study.state == COMPLETE
    assert np.array_equal(np.round(x), study.params[across])
    assert np.array_equal(np.round(y[done]), study.params[up][done])
    assert len(set(chart._dots.rows[:, 2])) > 3 and "median" not in chart.legend()
    assert chart.plot.getAxis("left")._tickLevels[0][0][1] == study.scales[up].text(0)


def test_the_choice_of_a_slice_is_the_most_informative_until_one_is_chosen(board: StudyBoard) -> None:
    chart = show(board, 10, "Slices")
    for more in trials(60)[10:]:
        board.append(more)
    board.draw_fresh()
    study, done = board.study, board.study.state == COMPLETE
    shares = {n: explained(study.params[n][done], study.figures["accuracy"][done], not study.scales[n].numeric)
              for n in study.params.names}  # fmt: skip
    assert shares[chart.x_name.removeprefix(CHOICE)] > np.median(list(shares.values()))
    chart.choose("across", CHOICE + "sparsity")
    for more in trials(200)[60:]:
        board.append(more)
    board.draw_fresh()
    assert chart.x_name == CHOICE + "sparsity"


def test_labels_of_the_map_tell_whole_names(board: StudyBoard) -> None:
    """What is drawn is cut to what tells layers apart."""
    chart = show(board, 100, "Choice map")
    box, axis = chart._box(), chart.axes[1]
    assert axis.text != axis.name == chart.hover_text(QPointF(5, box.top() + 1.5 * box.height() / len(chart.axes)))
    assert chart.hover_text(QPointF(5, 2)) == ""


def test_the_timeline_has_a_lane_a_worker_and_bars_that_grow(
    board: StudyBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(made_study, "START", now - 60)
    chart = show(board, 12, "Timeline")
    assert list(chart._lanes) == ["worker 1", "worker 2", "worker 3"]
    board.append(replace(trial(12, running=True), started=now - 5))
    board.draw_fresh()
    first = float(chart._running.rows[0, 2])
    assert chart._clock.isActive()
    monkeypatch.setattr(time, "time", lambda: now + 10)
    chart._grow()
    assert float(chart._running.rows[0, 2]) > first + 5
    board.append(replace(trial(12), started=now - 5))
    board.draw_fresh()
    assert not chart._clock.isActive()


@pytest.mark.parametrize("kind", ["Timeline", "Intermediate values"])
def test_what_was_not_measured_did_not_end_early(board: StudyBoard, kind: str) -> None:
    over = {"violation": {"weight_bits<=16": 4.0}, "values": (), "steps": ()}
    board.tiles[0].show_kind(kind)
    board.show_study([trial(0), replace(trial(1), state="pruned", **over)], GOALS, choices(), within=made_study.WITHIN)
    assert "ended early" not in board.tiles[0].chart.legend()
    board.append(replace(trial(2), state="pruned", steps=((64, 0.5),)))
    board.draw_fresh()
    assert "1 ended early" in board.tiles[0].chart.legend().replace("ended early 1", "1 ended early")
    if kind == "Timeline":
        assert "not measured 1" in board.tiles[0].chart.legend()


def test_intermediate_values_end_where_a_trial_was_pruned(board: StudyBoard) -> None:
    chart = show(board, 60, "Intermediate values")
    study = board.study
    early = next(i for i, t in enumerate(study.trials) if t.state == "pruned")
    steps, values, places = chart.spots()
    assert steps[places == early].tolist() == list(made_study.RUNGS)[:2]
    assert values[places == early].tolist() == [v for _, v in study.trials[early].steps]
    grey = chart._lines.rows[chart._lines.rows[:, 4] == SHADES]
    assert len(grey) == sum(len(t.steps) - 1 for t in study.trials if t.state == "pruned")
    before = len(chart._lines)
    board.append(replace(trial(60), steps=((50, 0.7), (1600, 0.72))))
    board.draw_fresh()
    assert len(chart._lines) == before + 1 and chart.ends()[:2] == (50, 1600)
    chart.mark(60)
    assert chart._strong["pick"].getData()[0].tolist()[:2] == [50, 1600]


@pytest.mark.parametrize("counted", ["samples", "steps"])
def test_values_of_trainings_are_told_after_steps(board: StudyBoard, counted: str) -> None:
    board.tiles[0].show_kind("Intermediate values")
    board.show_study([replace(trial(1), state="pruned", violation={}, steps=((8, 0.5),))], GOALS, counted=counted)
    assert f"ended early after 8 {counted}" in board.tiles[0].chart.hover_text_at(0)


def test_without_intermediate_values_it_says_what_would_tell_them(board: StudyBoard) -> None:
    board.tiles[0].show_kind("Intermediate values")
    board.show_study([Trial(0, "complete", {}, (0.5,))], (Goal("accuracy"),))
    assert "A search with rungs" in board.tiles[0]._words.text()


def test_the_map_shows_which_layer_took_which_format(board: StudyBoard, qtbot: QtBot) -> None:
    chart = show(board, 100, "Choice map")
    feasible = sorted((t for t in board.study.trials if t.feasible), key=lambda t: -t.values[0])
    assert [board.study.trials[p].number for p in chart.indices] == [t.number for t in feasible[:30]]
    head, rows = chart.table()
    assert head[1] == f"trial {feasible[0].number}" and rows[0][1] in (
        "int 2/1",
        "int 4/2",
        "mxint4/32",
        "int 8/6",
        "float",
    )
    box = chart._box()
    at = QPointF(box.left() + 2, box.top() + 2)
    assert rows[0][0] in chart.hover_text(at) and rows[0][1] in chart.hover_text(at)
    with qtbot.waitSignal(board.picked) as told:
        QTest.mouseClick(chart, LEFT, NONE, at.toPoint())
    assert told.args[0].number == feasible[0].number
    chart.choose("trials", "front")
    assert set(chart.indices.tolist()) == set(board.study.front(["accuracy", "weight_bits"]).tolist())


def test_seeds_of_a_sampler_are_a_mean_with_its_spread(board: StudyBoard) -> None:
    board.tiles[0].show_kind("Comparison")
    seeds = [Compared(f"tpe {k}", "tpe", tuple(trials(30 + 5 * k, seed=k)), GOALS) for k in range(3)]
    board.compare([*seeds, Compared("grid", "grid", tuple(trials(20, seed=9)), GOALS)])
    chart = board.tiles[0].chart
    assert list(chart.lines) == ["tpe", "grid"] and chart.lines["tpe"].shape == (3, 40)
    last = [max(t.values[0] for t in c.trials if t.feasible) for c in seeds]
    assert np.allclose(chart.lines["tpe"][:, -1], last)
    assert "3 studies" in chart.legend() and "±" in chart.words_of(30)
    _, rows = chart.table()
    assert len(rows) == 40 and rows[-1][1] == pytest.approx(np.mean(last)) and rows[-1][4] == ""
    chart.choose("each study", True)
    assert len(chart.lines) == 4
