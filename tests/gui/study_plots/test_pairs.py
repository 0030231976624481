"""A figure over two choices: means and best trials of cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from espalier.app.features.search.charts.board import StudyBoard
from espalier.app.features.search.charts.pairs import LINE, PARTS
from espalier.app.figures.study.words import value_words
from tests.gui.search.made_study import GOALS, choices, trials
from tests.gui.study_plots.shown import show

pytestmark = pytest.mark.gui


def test_cells_hold_the_mean_and_the_best_of_their_trials(board: StudyBoard) -> None:
    chart = show(board, 300, "Two choices")
    first, second = (c.name for c in choices()[:2])
    chart.choose("across", first)
    chart.choose("up", second)
    done = [t for t in board.study.trials if t.state == "complete"]
    values = choices()[0].values
    mine = [t for t in done if t.params[first] == values[1] and t.params[second] == values[3]]
    assert len(mine) > 2 and chart._many[3, 1] == len(mine) and chart._many.sum() == len(done)
    assert chart._cells[3, 1] == pytest.approx(np.mean([t.values[0] for t in mine]))
    chart.choose("of", "best")
    assert chart._cells[3, 1] == max(t.values[0] for t in mine)
    chart.choose("figure", "weight_bits")  # of which less is better
    assert chart._cells[3, 1] == min(t.values[1] for t in mine)
    head, *rows = (chart.table()[0], *chart.table()[1])
    assert len(head) == len(values) + 1 and len(rows) == len(values)


def test_the_choices_that_tell_most_stand_first_and_numbers_in_parts(board: StudyBoard) -> None:
    chart = show(board, 300, "Two choices")
    assert "sparsity" in (chart.across, chart.up)  # the made accuracy falls with it
    assert PARTS in chart._cells.shape
    chart.choose("across", "method")
    board.append(replace(board.study.trials[0], number=1000))
    board.draw_fresh()
    assert chart.across == "method" and chart._cells.shape[1] == 3  # what people choose stays


def test_a_cell_means_its_best_trial(board: StudyBoard, qtbot: QtBot) -> None:
    chart = show(board, 300, "Two choices")
    row, column = (int(k) for k in np.argwhere(chart._many > 1)[0])
    at = chart._cell(row, column).center()
    best = board.study.trials[int(chart._best[row, column])]
    assert f"of {chart._many[row, column]} trials" in chart.hover_words(QPointF(at))
    assert f"Trial {best.number}" in chart.hover_words(QPointF(at))
    with qtbot.waitSignal(board.picked) as told:
        QTest.mouseClick(chart, Qt.MouseButton.LeftButton, pos=at.toPoint())
    assert told.args[0].number == best.number


def test_one_choice_makes_no_pair(board: StudyBoard) -> None:
    board.tiles[0].show_kind("Two choices")
    name = choices()[0].name
    lone = [replace(t, params={name: t.params[name]}) for t in trials(9)]
    board.show_study(lone, GOALS, choices()[:1])
    assert "one choice only" in board.tiles[0].chart.empty()


def test_no_number_is_cut_and_names_take_turns_in_two_lines(board: StudyBoard) -> None:
    chart = show(board, 300, "Two choices")
    chart.choose("across", "sparsity")
    chart.choose("up", "method")
    wide = chart.fontMetrics().horizontalAdvance
    assert chart.words_in(0.7431, 200) == value_words("accuracy", 0.7431)
    short = chart.words_in(0.7431, wide("74.3 %") - 3)
    assert short == "74.3" and chart.words_in(0.7431, wide("74.3")) == ""
    chart.setFixedSize(360, 200)
    below = chart.names_below()
    names = chart._sides[0].names
    assert [text for _, text in below] == list(names) and len({at.y() for at, _ in below}) == 2
    assert max(at.y() for at, _ in below) < chart.height() - LINE + 2
    chart.setFixedSize(1400, 200)
    assert len({at.y() for at, _ in chart.names_below()}) == 1
    chart.choose("across", choices()[0].name)
    chart.setFixedSize(300, 200)
    assert all("…" not in text for _, text in chart.names_below())
