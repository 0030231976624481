"""The history of a study: dots, the best so far, its axes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QEvent
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QToolTip

from espalier.app.features.search.charts.board import StudyBoard
from espalier.app.features.search.charts.history import GREY, HistoryChart
from espalier.passes.figure import wilson
from espalier.passes.search.spec import Goal
from espalier.passes.search.trial import Trial
from tests.gui.search.made_study import GOALS, WITHIN, choices, trial, trials
from tests.gui.study_plots.shown import show, spot

pytestmark = pytest.mark.gui


def test_the_best_so_far_counts_only_what_holds_the_constraints(board: StudyBoard) -> None:
    chart = show(board, 100)
    x, y = chart._stairs.getData()
    feasible = [t for t in board.study.trials if t.feasible]
    assert y[-1] == max(t.values[0] for t in feasible) and list(y) == sorted(y)
    assert x[-1] == 99
    broken = [t for t in board.study.trials if t.state == "complete" and not t.feasible]
    assert (chart._dots.rows[:, 2] == GREY).sum() == len(broken)
    failed = [t.number for t in board.study.trials if t.state == "failed"]
    assert sorted(set(chart._edge.getData()[0].tolist())) == failed
    words = chart.hover_text_at(failed[0])
    assert "failed: The loss is no number." in words or "rows do not divide" in words


def test_a_figure_of_which_less_is_better_falls(board: StudyBoard) -> None:
    chart = show(board, 50)
    chart.choose("figure", "loss")
    y = chart._stairs.getData()[1]
    assert list(y) == sorted(y, reverse=True) and y[-1] == min(t.figures["loss"] for t in trials(50) if t.feasible)
    chart.choose("log", True)
    assert np.allclose(chart._stairs.getData()[1], np.log10(y))


@pytest.mark.parametrize("kind", ["History", "Pareto front"])
def test_both_axes_say_what_they_are_where_the_head_has_no_room(board: StudyBoard, kind: str) -> None:
    chart = show(board, 30, kind)
    board.resize(330, 300)
    assert chart.plot.getAxis("left").labelText.lower() == "accuracy"
    assert chart.plot.getAxis("bottom").labelText.lower() in ("trial", "weight bits")
    chart.choose("log" if kind == "History" else "log y", True)
    assert chart.plot.getAxis("left").labelText.lower() == "accuracy (log)"


def test_trials_are_counted_in_whole_numbers(board: StudyBoard) -> None:
    chart = show(board, 2)
    assert chart.plot.getAxis("bottom").tickSpacing(0.0, 1.0, 900) == [(1.0, 0)]


def test_an_axis_that_grows_keeps_some_room(board: StudyBoard) -> None:
    chart = show(board, 100)
    ends = []
    for number in range(100, 106):
        board.append(trial(number))
        board.draw_fresh()
        ends.append(chart.plot.vb.viewRange()[0][1])
    assert len(set(ends)) <= 3 and ends[-1] >= 105
    chart.reset()
    assert 105 <= chart.plot.vb.viewRange()[0][1] < 105 * 1.04


def test_what_was_never_measured_has_not_failed(board: StudyBoard) -> None:
    early = replace(trial(5), state="pruned", steps=(), figures={"weight_bits": 20.0}, values=())
    board.show_study([trial(0), early, trial(11)], GOALS, choices(), within=WITHIN)
    chart = board.tiles[0].chart
    assert sorted(set(chart._left_out.getData()[0].tolist())) == [5]
    assert sorted(set(chart._edge.getData()[0].tolist())) == [11]
    assert "1 not measured" in chart.legend() and "ended early" not in chart.legend()


def test_qt_shows_nothing_else_than_the_words_that_the_pointer_brought(board: StudyBoard) -> None:
    chart = show(board, 30)
    at = spot(chart, 0)
    chart.plot.vb.setToolTip("of an item")  # where items have none, Qt takes the words away
    here = chart.viewport().mapToGlobal(at)
    QToolTip.showText(here, "Trial 0", chart)
    QApplication.sendEvent(chart.viewport(), QHelpEvent(QEvent.Type.ToolTip, at, here))
    assert QToolTip.text() == "Trial 0"
    QToolTip.hideText()


def test_an_accuracy_has_its_noise_and_the_line_of_guessing(board: StudyBoard) -> None:
    noise = {"n": 270, "guessing": 0.6, "hits": ""}
    made = [Trial(n, "complete", values=(share,), figures={"accuracy": share}, noise=noise)
            for n, share in enumerate((0.7, 0.9, 0.8))]  # fmt: skip
    board.show_study(made, (Goal("accuracy"),), baseline={"accuracy": 0.88}, named="pin 1")
    chart = board.tiles[0].chart
    assert isinstance(chart, HistoryChart)
    board.draw_fresh()
    low, high = (curve.getData()[1][-1] for curve in chart._ends)
    assert (low, high) == pytest.approx(wilson(0.9, 270))
    assert chart._guess is not None and chart._guess.value() == 0.6
    legend = chart.legend().replace("\u2009", " ")
    assert "pin 1 88.0 %" in legend and "95 % of n = 270" in legend and "guessing 60.0 %" in legend
    board.show_study([replace(t, noise={}) for t in made], (Goal("accuracy"),))
    assert "guessing" not in chart.legend()
