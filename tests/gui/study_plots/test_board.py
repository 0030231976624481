"""The board of a study: what every chart draws, keeps and says when there is nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QImage, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.app.features.search.charts.board import KINDS, StudyBoard
from espalier.app.features.search.charts.comparison import Compared
from espalier.app.widgets.forms.fields import Check
from espalier.app.widgets.forms.fields import Choice as Chooser
from espalier.app.widgets.style import Appearance
from espalier.passes.search.trial import Trial
from tests.gui.search.made_study import BASELINE, GOALS, WITHIN, choices, trial, trials
from tests.gui.study_plots.shown import LEFT, NONE, show, spot, target

pytestmark = pytest.mark.gui


@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_says_in_words_that_there_is_nothing(board: StudyBoard, kind: str) -> None:
    tile = board.tiles[0]
    tile.show_kind(kind)
    assert tile._pages.currentWidget() is tile._words and len(tile._words.text()) > 20
    assert not tile._save.isEnabled() and not tile.legend.isVisible()


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_study_no_head_offers_what_cannot_be_chosen(board: StudyBoard, kind: str) -> None:
    tile = board.tiles[0]
    tile.show_kind(kind)
    assert not any(isinstance(f, Check) for f in tile.fields.values())
    for name, field in list(tile.fields.items()):
        field.edited.emit()
        assert tile.chart.option(name) == field.get()
    show(board, 60, kind)
    lists = [f for o in tile.chart.options() if o.values is not None and (f := tile.fields.get(o.name))]
    assert all(isinstance(f, Chooser) and f.count() for f in lists)


@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_draws_in_both_themes_and_small(board: StudyBoard, kind: str, qapp: QApplication) -> None:
    appearance = Appearance(qapp, "dark")
    chart = show(board, 60, kind)
    board.compare([Compared("one", "tpe", tuple(trials(40)), GOALS)])
    assert not chart.empty() and chart.look.dark
    for size in ((1200, 700), (600, 350), (260, 200)):
        board.resize(*size)
        qapp.processEvents()
        if hasattr(chart, "settle"):
            chart.settle()
        picture = board.grab().toImage()
        colours = {picture.pixel(x, y) for x in range(0, size[0], 3) for y in range(0, size[1], 3)}
        assert len(colours) > 12
    before = board.tiles[0].legend.toolTip()
    appearance.set_mode("light")
    assert not chart.look.dark
    after = board.tiles[0].legend.toolTip()
    assert after == chart.legend() and (before != after or "color" not in before)
    appearance.deleteLater()


def test_a_trial_that_ends_takes_the_place_of_the_one_that_ran(board: StudyBoard, qtbot: QtBot) -> None:
    chart = show(board, 10)
    board.append(trial(10, running=True))
    qtbot.waitUntil(lambda: not board._fresh)
    assert chart._now.getData()[0].tolist() == [10, 10]
    board.append(trial(10))
    qtbot.waitUntil(lambda: not board._fresh)
    assert len(board.study) == 11 and board.study.trials[10].state == "complete"
    assert chart._now.getData()[0] is None or not len(chart._now.getData()[0])


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("Importance", "Comparison")])
def test_trials_one_by_one_give_the_picture_of_all_at_once(board: StudyBoard, kind: str, qtbot: QtBot) -> None:
    chart = show(board, 80, kind)
    for number in range(80, 120):
        board.append(trial(number, running=True))
        board.append(trial(number))
        if number % 7 == 0:
            board.draw_fresh()
    board.draw_fresh()
    chart.append([])
    grown = settled(chart)
    board.show_study(trials(120), GOALS, choices(), baseline=BASELINE, within=WITHIN)
    whole = settled(chart)
    assert len(board.study) == 120
    if kind == "Timeline":
        assert len(chart._ended) == 120 and chart._spans()[1].max() > 0
    differ = np.abs(pixels(grown).astype(int) - pixels(whole).astype(int)).max(-1) > 60
    assert differ.mean() < 0.03  # dots in another order, ranges that keep some room


def settled(chart: Any) -> QImage:
    QApplication.processEvents()
    if hasattr(chart, "settle"):
        chart.settle()
        chart.refresh()
    else:
        chart.reset()  # what grows keeps some room
    return chart.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)


def pixels(picture: QImage) -> np.ndarray:
    held = np.frombuffer(picture.constBits(), np.uint8).reshape(picture.height(), picture.bytesPerLine() // 4, 4)
    return held[:, : picture.width(), :3].copy()


def test_charts_that_are_not_seen_draw_nothing_and_catch_up(board: StudyBoard, qtbot: QtBot) -> None:
    chart = show(board, 20)
    board.tiles[0].show_kind("Pareto front")
    board.append(trial(20))
    board.draw_fresh()
    assert chart._drawn_count == 20
    board.tiles[0].show_kind("History")
    assert chart._drawn_count == 21


def test_one_to_four_charts_each_of_its_own_kind(board: StudyBoard) -> None:
    show(board)
    for many in (4, 1, 3, 2):
        board.lay_out(many)
        assert [t.isVisible() for t in board.tiles] == [k < many for k in range(4)]
    assert len({t.kind.get() for t in board.tiles}) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_four_charts_of_any_kind_fit_a_small_window(board: StudyBoard, kind: str, qapp: QApplication) -> None:
    show(board, 30, kind)
    board.lay_out(4)
    for tile in board.tiles:
        tile.show_kind(kind)
    qapp.processEvents()
    assert board.minimumSizeHint().height() <= 300


def test_a_pick_is_marked_in_all_charts_and_told(board: StudyBoard, qtbot: QtBot) -> None:
    show(board)
    board.lay_out(2)
    QApplication.processEvents()
    history = board.tiles[0].chart
    heard: list[Trial | None] = []
    board.hovered.connect(heard.append)

    def hovered() -> bool:  # the chart may not be laid out yet
        on, no = target(history), Qt.MouseButton.NoButton
        for number in (0, 7):  # sent to the chart itself: the pointer may rest there from a test before
            at = QPointF(spot(history, number))
            event = QMouseEvent(QEvent.Type.MouseMove, at, on.mapToGlobal(at), no, no, NONE)
            QApplication.sendEvent(on, event)
        return bool(heard) and heard[-1] is board.study.trials[7]

    qtbot.waitUntil(hovered)
    with qtbot.waitSignal(board.picked) as told:
        QTest.mouseClick(target(history), LEFT, NONE, spot(history, 7))
    assert told.args[0].number == 7
    assert board.tiles[1].chart.pick == 7
    with qtbot.waitSignal(board.applied) as wanted:
        QTest.mouseDClick(target(history), LEFT, NONE, spot(history, 7))
    assert wanted.args[0].number == 7
    board.pick(9)
    assert history.pick == 9 and board.tiles[1].chart.pick == 9


def test_charts_take_turns_in_drawing_what_has_come(board: StudyBoard, qtbot: QtBot) -> None:
    show(board, 10)
    board.lay_out(4)
    told: list[tuple[int, list[int]]] = []
    for place, tile in enumerate(board.tiles):
        tile.append = lambda places, place=place: told.append((place, list(places)))
    board.append(trial(10))
    board.append(trial(11))
    board._wait.stop()
    board._draw_next()
    assert told == [(0, [10, 11])]
    board.append(trial(12))
    qtbot.waitUntil(lambda: len(told) == 8, timeout=60_000)
    assert told == [*((k, [10, 11]) for k in range(4)), *((k, [12]) for k in range(4))]


@pytest.mark.parametrize("kind", KINDS)
def test_a_study_that_grew_before_the_chart_had_its_turn_is_painted(board: StudyBoard, kind: str) -> None:
    """Charts share the study; what a paint raises would leave Qt with an open painter."""
    board.resize(1400, 700)
    chart = show(board, 20, kind)
    for number in range(20, 26):
        chart.study.note(trial(number))
    (chart.refresh if hasattr(type(chart), "refresh") else chart.update)()
    chart.mark(25)
    board.grab()
    target(chart).grab()
