"""Parallel coordinates: brushes, axes, lines that come and go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from espalier.app.features.search.charts.board import StudyBoard
from tests.gui.search.made_study import GOALS, choices, trials
from tests.gui.study_plots.shown import drag, show

pytestmark = pytest.mark.gui


@pytest.mark.parametrize("width", [380, 700, 1200])
def test_labels_of_close_axes_keep_apart(board: StudyBoard, width: int) -> None:
    chart = show(board, 40, "Parallel coordinates")
    chart.resize(width, 300)
    gap = chart._x(1) - chart._x(0)
    assert chart._room(len(chart.axes) - 1, 60, gap, True) <= gap / 2
    words = [k for k, a in enumerate(chart.axes) if a.is_categorical]
    shared = [k for k in words if chart.axes[k].like(chart.axes[k + 1])]
    assert shared and all(chart._room(k, 200, gap, False) <= 2 * gap for k in shared)
    assert all(chart._room(k, 200, gap, False) <= gap for k in words if k not in shared)


def test_the_map_fades_what_brushes_leave_out(board: StudyBoard) -> None:
    chart = show(board, 30, "Choice map")
    whole, done = chart.grab().toImage(), [i for i, t in enumerate(board.study.trials) if t.state == "complete"]
    board._brushed(np.arange(30) == done[0])
    faded = chart.grab().toImage()
    left, out = middle_of(chart, done[0]), middle_of(chart, done[-1])
    assert faded.pixelColor(out).lightness() > whole.pixelColor(out).lightness() + 20
    assert faded.pixelColor(left) == whole.pixelColor(left)
    board._brushed(None)
    assert chart.grab().toImage() == whole


def test_a_brush_that_came_or_went_unseen_is_drawn_so(board: StudyBoard) -> None:
    chart = show(board, 30, "Slices")
    tile, mask = board.tiles[0], np.arange(30) == 3
    board._brushed(mask)
    assert len(chart._veil) == 2
    for there, seen in ((None, 0), (mask, 2)):
        tile.show_kind("Choice map")
        board._brushed(there)
        tile.show_kind("Slices")
        assert tile.chart is chart and len(chart._veil) == seen


def middle_of(chart: Any, place: int) -> QPoint:
    """Where a trial's first cell lies in the map."""
    box, column = chart._box(), int(np.flatnonzero(chart.indices == place)[0])
    wide, tall = box.width() / len(chart.indices), box.height() / len(chart.axes)
    return QPointF(box.left() + (column + 0.5) * wide, box.top() + 0.5 * tall).toPoint()


def test_brushes_choose_trials_here_and_fade_the_others_elsewhere(board: StudyBoard, qtbot: QtBot) -> None:
    show(board, 120)
    board.lay_out(2)
    board.tiles[1].show_kind("Parallel coordinates")
    chart = board.tiles[1].chart
    axis = next(k for k, a in enumerate(chart.axes) if a.name == "accuracy")
    ends = [QPoint(round(chart._x(axis)), round(chart._y(part))) for part in (1.0, 0.5)]
    with qtbot.waitSignal(board.brushed) as told:
        drag(chart, *ends)
    low = chart.axes[axis].low + 0.5 * (chart.axes[axis].high - chart.axes[axis].low)
    wanted = [t.number for t in board.study.trials if t.state == "complete" and t.values[0] >= low]
    found = [t.number for t in told.args[0]]
    assert len(set(found) ^ set(wanted)) <= 2 and len(found) > 5  # a pixel's width
    chart.settle()
    assert chart._layers.drawn[1].sum() == len(found) and chart._layers.drawn[0].sum() > len(found)
    assert len(board.tiles[0].chart._veil) == 2
    first = [QPoint(round(chart._x(0)), round(chart._y(part))) for part in (1.0, 0.7)]
    drag(chart, *first)
    more = [QPoint(round(chart._x(0)), round(chart._y(part))) for part in (0.3, 0.0)]
    drag(chart, *more, Qt.KeyboardModifier.ShiftModifier)
    assert len(chart.axes[0].brushes) == 2 and 0 < chart._wanted.sum() < len(found)
    QTest.keyClick(chart, Qt.Key.Key_Escape)
    assert not board.tiles[0].chart._veil and not any(a.brushes for a in chart.axes)
    chart.settle()
    assert chart._layers.drawn[1].sum() == sum(t.state == "complete" for t in board.study.trials)


def test_an_axis_is_dragged_to_another_place(board: StudyBoard) -> None:
    chart = show(board, 30, "Parallel coordinates")
    names = [a.name for a in chart.axes]
    drag(chart, QPoint(round(chart._x(0)) + 6, 12), QPoint(round(chart._x(3)), 12))
    assert [a.name for a in chart.axes] == [*names[1:4], names[0], *names[4:]]
    board.show_study(trials(40), GOALS, choices())
    assert [a.name for a in chart.axes][3] == names[0]


def test_formats_stand_as_their_labels_in_their_order(board: StudyBoard) -> None:
    chart = show(board, 30, "Parallel coordinates")
    assert [t for _, t in chart.axes[0].ticks()] == ["int 2/1", "int 4/2", "mxint4/32", "int 8/6", "float"]
    assert chart.axes[0].text == "enc 0 · attn.q"


def test_values_of_a_condition_that_did_not_hold_run_along_the_foot(board: StudyBoard) -> None:
    held = [replace(t, params={k: v for k, v in t.params.items() if k != "method"}) if t.number % 2 else t
            for t in trials(40)]  # fmt: skip
    board.tiles[0].show_kind("Parallel coordinates")
    board.show_study(held, GOALS, choices())
    chart = board.tiles[0].chart
    place = next(k for k, a in enumerate(chart.axes) if a.name == "method")
    assert np.isnan(chart._units[1, place]) and not np.isnan(chart._units[0, place])
    assert chart._rows(np.array([1]))[0, place] > chart._rows(np.array([0]))[0].max()
