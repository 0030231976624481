"""The board of a study: what each chart draws, tells, keeps and says when there is nothing."""

from __future__ import annotations

import csv
import json
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.fields import Check
from app.fields import Choice as Chooser
from app.plots.study.axes import Axis
from app.plots.study.board import KINDS, StudyBoard
from app.plots.study.comparison import Compared
from app.plots.study.data import Scale, Study, nondominated
from app.plots.study.density import Density, colours_of
from app.plots.study.importance_work import importances
from app.plots.study.words import bits_of, plain, short_names
from app.style import Appearance
from app.theme import LIGHT
from passes.search.space import Choice
from passes.search.spec import Goal
from passes.search.trial import Trial
from tests.gui import made_study
from tests.gui.made_study import BASELINE, GOALS, WITHIN, choices, trial, trials

pytestmark = pytest.mark.gui
LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier


@pytest.fixture
def board(qtbot: QtBot) -> Iterator[StudyBoard]:
    """A board that is shown, with one chart and no study."""
    made = StudyBoard()
    made.lay_out(1)
    made.resize(1200, 700)
    made.show()
    yield made
    made.close()
    made.deleteLater()


def show(board: StudyBoard, count: int = 60, kind: str = "History") -> Any:
    """A made study of so many trials; the chart of this kind."""
    board.tiles[0].show_kind(kind)
    board.show_study(trials(count), GOALS, choices(), baseline=BASELINE, within=WITHIN)
    return board.tiles[0].chart


def target(chart: Any) -> Any:
    """The widget that takes the mouse."""
    return chart.viewport() if hasattr(chart, "viewport") else chart


def spot(chart: Any, place: int) -> QPoint:
    """Where a plotted trial lies on the widget."""
    x, y, places = chart.spots()
    found = int(np.flatnonzero(places == place)[0])
    scene = chart.plot.vb.mapViewToScene(QPointF(float(x[found]), float(y[found])))
    return chart.mapFromScene(scene)


def drag(chart: Any, begin: QPoint, end: QPoint, keys: Qt.KeyboardModifier = NONE) -> None:
    QTest.mousePress(target(chart), LEFT, keys, begin)
    QTest.mouseMove(target(chart), end)
    QTest.mouseRelease(target(chart), LEFT, keys, end)


# -- the board


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
    before = board.tiles[0].legend.text()
    appearance.set_mode("light")
    assert not chart.look.dark
    after = board.tiles[0].legend.text()
    assert after == chart.legend() and (before != after or "color" not in before)
    appearance.deleteLater()


@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_is_written_to_a_file(board: StudyBoard, kind: str, tmp_path: Path) -> None:
    show(board, 40, kind)
    board.compare([Compared("one", "tpe", tuple(trials(40)), GOALS)])
    for ending in ("png", "svg", "csv"):
        board.tiles[0].export(tmp_path / f"chart.{ending}")
    assert QImage(str(tmp_path / "chart.png")).width() == 2 * board.tiles[0].chart.width()
    assert ET.parse(tmp_path / "chart.svg").getroot().tag.endswith("svg")
    rows = list(csv.reader((tmp_path / "chart.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) > 10 or kind == "Importance"
    assert kind in ("Choice map", "Comparison", "Importance") or rows[1][:2] == ["0", "complete"]


def test_what_cannot_be_written_is_told(board: StudyBoard, tmp_path: Path, qtbot: QtBot) -> None:
    show(board)
    with qtbot.waitSignal(board.failed) as told:
        board.tiles[0].export(tmp_path / "no folder" / "chart.png")
    assert "chart.png could not be written" in told.args[0]


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
        assert [b.opts["x1"].tolist() for b in chart._bars] and chart._spans()[1].max() > 0
    differ = np.abs(pixels(grown).astype(int) - pixels(whole).astype(int)).max(-1) > 60
    assert differ.mean() < 0.03  # dots in another order, ranges that keep some room


def settled(chart: Any) -> QImage:
    QApplication.processEvents()
    if hasattr(chart, "settle"):
        chart.settle()
        chart.refresh()
    return chart.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)


def pixels(picture: QImage) -> np.ndarray:
    held = np.frombuffer(picture.constBits(), np.uint8).reshape(picture.height(), picture.bytesPerLine() // 4, 4)
    return held[:, : picture.width(), :3].copy()


def test_charts_that_are_not_seen_draw_nothing_and_catch_up(board: StudyBoard, qtbot: QtBot) -> None:
    chart = show(board, 20)
    board.tiles[0].show_kind("Pareto front")
    board.append(trial(20))
    board.draw_fresh()
    assert chart._known == 20
    board.tiles[0].show_kind("History")
    assert chart._known == 21


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
    QTest.mouseMove(target(history), spot(history, 7))
    assert heard[-1] is board.study.trials[7]
    with qtbot.waitSignal(board.picked) as told:
        QTest.mouseClick(target(history), LEFT, NONE, spot(history, 7))
    assert told.args[0].number == 7
    assert board.tiles[1].chart.pick == 7
    with qtbot.waitSignal(board.applied) as wanted:
        QTest.mouseDClick(target(history), LEFT, NONE, spot(history, 7))
    assert wanted.args[0].number == 7
    board.pick(9)
    assert history.pick == 9 and board.tiles[1].chart.pick == 9


# -- charts


def test_the_best_so_far_counts_only_what_holds_the_constraints(board: StudyBoard) -> None:
    chart = show(board, 100)
    x, y = chart._stairs.getData()
    feasible = [t for t in board.study.trials if t.feasible]
    assert y[-1] == max(t.values[0] for t in feasible) and list(y) == sorted(y)
    assert x[-1] == 99 and len(chart._grey) == sum(t.state == "complete" and not t.feasible for t in board.study.trials)
    failed = [t.number for t in board.study.trials if t.state == "failed"]
    assert sorted(set(chart._edge.getData()[0].tolist())) == failed
    words = chart.words_at(failed[0])
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


def test_a_study_of_one_goal_has_no_front_until_a_figure_is_told(board: StudyBoard) -> None:
    board.tiles[0].show_kind("Pareto front")
    board.show_study([Trial(0, "complete", {}, (0.5,))], (Goal("accuracy"),))
    assert "one figure only" in board.tiles[0]._words.text()


def test_a_front_says_what_it_waits_for(board: StudyBoard) -> None:
    board.tiles[0].show_kind("Pareto front")
    board.show_study([trial(0, running=True)], GOALS[:1])
    assert "No trial is complete yet" in board.tiles[0]._words.text()
    board.append(Trial(0, "complete", {}, (0.5,), {"accuracy": 0.5}))
    board.draw_fresh()
    assert "one figure only" in board.tiles[0]._words.text()


@pytest.mark.parametrize("width", [380, 700, 1200])
def test_labels_of_close_axes_keep_apart(board: StudyBoard, width: int) -> None:
    chart = show(board, 40, "Parallel coordinates")
    chart.resize(width, 300)
    gap = chart._x(1) - chart._x(0)
    assert chart._room(len(chart.axes) - 1, 60, gap, True) <= gap / 2
    words = [k for k, a in enumerate(chart.axes) if a.words]
    shared = [k for k in words if chart.axes[k].like(chart.axes[k + 1])]
    assert shared and all(chart._room(k, 200, gap, False) <= 2 * gap for k in shared)
    assert all(chart._room(k, 200, gap, False) <= gap for k in words if k not in shared)


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
    assert chart._pieces.drawn[1].sum() == len(found) and chart._pieces.drawn[0].sum() > len(found)
    assert len(board.tiles[0].chart._veil) == 2
    first = [QPoint(round(chart._x(0)), round(chart._y(part))) for part in (1.0, 0.7)]
    drag(chart, *first)
    more = [QPoint(round(chart._x(0)), round(chart._y(part))) for part in (0.3, 0.0)]
    drag(chart, *more, Qt.KeyboardModifier.ShiftModifier)
    assert len(chart.axes[0].brushes) == 2 and 0 < chart._wanted.sum() < len(found)
    QTest.keyClick(chart, Qt.Key.Key_Escape)
    assert not board.tiles[0].chart._veil and not any(a.brushes for a in chart.axes)
    chart.settle()
    assert chart._pieces.drawn[1].sum() == sum(t.state == "complete" for t in board.study.trials)


def test_an_axis_is_dragged_to_another_place(board: StudyBoard) -> None:
    chart = show(board, 30, "Parallel coordinates")
    names = [a.name for a in chart.axes]
    drag(chart, QPoint(round(chart._x(0)) + 6, 12), QPoint(round(chart._x(3)), 12))
    assert [a.name for a in chart.axes] == [*names[1:4], names[0], *names[4:]]
    board.show_study(trials(40), GOALS, choices())
    assert [a.name for a in chart.axes][3] == names[0]


def test_lines_that_are_taken_away_leave_the_picture_as_it_was() -> None:
    luck = np.random.default_rng(0)
    y = luck.uniform(0, 99, (2, 300)).astype(np.float32)
    shades = luck.integers(0, 16, 300)
    few, many = Density(40, 100), Density(40, 100)
    few.add(0, 40, y[0, :100], y[1, :100], shades[:100])
    many.add(0, 40, y[0], y[1], shades)
    for k in range(100, 300, 4):
        many.add(0, 40, y[0, k : k + 4], y[1, k : k + 4], shades[k : k + 4], -1)
    assert (few._lines == many._lines).all() and (few._shades == many._shades).all()
    table = colours_of(LIGHT, 100)
    assert few.image(table) == many.image(table)
    assert few._lines.cumsum(1)[:, :-1].sum(1).min() >= 100  # each line crosses every column


def test_formats_stand_as_their_labels_in_their_order(board: StudyBoard) -> None:
    chart = show(board, 30, "Parallel coordinates")
    assert [t for _, t in chart.axes[0].ticks()] == ["int 2/1", "int 4/2", "mxint4/32", "int 8/6", "float"]
    assert chart.axes[0].text == "0.attention.query"


def test_values_of_a_condition_that_did_not_hold_run_along_the_foot(board: StudyBoard) -> None:
    held = [replace(t, params={k: v for k, v in t.params.items() if k != "method"}) if t.number % 2 else t
            for t in trials(40)]  # fmt: skip
    board.tiles[0].show_kind("Parallel coordinates")
    board.show_study(held, GOALS, choices())
    chart = board.tiles[0].chart
    place = next(k for k, a in enumerate(chart.axes) if a.name == "method")
    assert np.isnan(chart._units[1, place]) and not np.isnan(chart._units[0, place])
    assert chart._rows(np.array([1]))[0, place] > chart._rows(np.array([0]))[0].max()


def test_slices_show_all_choices_or_one(board: StudyBoard) -> None:
    chart = show(board, 100, "Slices")
    assert len(chart.axes) == len(choices())
    chart.choose("choice", "sparsity")
    assert [a.name for a in chart.axes] == ["sparsity"] and chart._columns == 1
    chart.settle()
    x, y = chart._pixels(chart.axes[0], 0)
    place = next(i for i, t in enumerate(board.study.trials) if t.state == "complete")
    box = chart._box(0)
    assert chart.near(box.topLeft() + QPointF(x[place], y[place])) is not None


def test_the_timeline_has_a_lane_a_worker_and_bars_that_grow(
    board: StudyBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(made_study, "START", now - 60)
    chart = show(board, 12, "Timeline")
    assert list(chart._lanes) == ["worker 1", "worker 2", "worker 3"]
    board.append(replace(trial(12, running=True), started=now - 5))
    board.draw_fresh()
    first = float(chart._bars[4].opts["x1"][0])
    assert chart._clock.isActive()
    monkeypatch.setattr(time, "time", lambda: now + 10)
    chart._grow()
    assert float(chart._bars[4].opts["x1"][0]) > first + 5
    board.append(replace(trial(12), started=now - 5))
    board.draw_fresh()
    assert not chart._clock.isActive()


def test_intermediate_values_end_where_a_trial_was_pruned(board: StudyBoard) -> None:
    chart = show(board, 60, "Intermediate values")
    assert chart._steps == list(made_study.RUNGS)
    early = next(i for i, t in enumerate(board.study.trials) if t.state == "pruned")
    assert np.isfinite(chart._values[early]).tolist() == [True, True, False, False]
    chart.settle()
    assert chart._pieces.drawn[0].sum() == sum(t.state == "pruned" for t in board.study.trials)
    board.append(replace(trial(60), steps=((50, 0.7), (1600, 0.72))))
    board.draw_fresh()
    assert chart._steps == [50, *made_study.RUNGS, 1600] and chart._values[60, 0] == 0.7


def test_without_intermediate_values_it_says_what_would_tell_them(board: StudyBoard) -> None:
    board.tiles[0].show_kind("Intermediate values")
    board.show_study([Trial(0, "complete", {}, (0.5,))], (Goal("accuracy"),))
    assert "A search with rungs" in board.tiles[0]._words.text()


def test_the_map_shows_which_layer_took_which_format(board: StudyBoard, qtbot: QtBot) -> None:
    chart = show(board, 100, "Choice map")
    feasible = sorted((t for t in board.study.trials if t.feasible), key=lambda t: -t.values[0])
    assert [board.study.trials[p].number for p in chart.places] == [t.number for t in feasible[:30]]
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
    assert rows[0][0] in chart.hover_words(at) and rows[0][1] in chart.hover_words(at)
    with qtbot.waitSignal(board.picked) as told:
        QTest.mouseClick(chart, LEFT, NONE, at.toPoint())
    assert told.args[0].number == feasible[0].number
    chart.choose("trials", "front")
    assert set(chart.places.tolist()) == set(board.study.front(["accuracy", "weight_bits"]).tolist())


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


# -- importance


def asked(values: list[list[float]], goal: list[float], method: str) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Two choices: a category and a number."""
    spaces = {"kind": {"values": [0, 1, 2]}, "share": {"low": 0.0, "high": 1.0, "log": False, "whole": False}}
    about = {"choices": spaces, "goals": ["loss"], "method": method, "rows": len(goal)}
    return about, {"kind": values[0], "share": values[1], "goal loss": goal}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ped", "fanova"])
def test_what_decides_has_the_largest_share(method: str) -> None:
    luck = np.random.default_rng(0)
    kind, share = luck.integers(0, 3, 200).astype(float), luck.random(200)
    found = importances(*asked([kind.tolist(), share.tolist()], (share**2 + 0.05 * kind).tolist(), method))["loss"]
    assert found["share"] > 0.7 and found["kind"] < 0.3


@pytest.mark.slow
def test_importance_is_computed_beside_the_window(board: StudyBoard, qtbot: QtBot) -> None:
    chart = show(board, 80, "Importance")
    assert chart.busy and not chart.found
    qtbot.waitUntil(lambda: bool(chart.found) or bool(chart.problem), timeout=60_000)
    assert not chart.problem and set(chart.found) == {"accuracy", "weight_bits"}
    assert chart.rows()[0] and max(chart.found["accuracy"], key=lambda n: chart.found["accuracy"][n]) == "sparsity"
    assert "80" not in chart.legend() and "complete trials" in chart.legend()
    assert len(chart.table()[1]) == len(choices())


def test_importance_asks_for_more_trials_and_stops_when_it_is_hidden(board: StudyBoard) -> None:
    chart = show(board, 6, "Importance")
    assert "needs 10 complete trials" in board.tiles[0]._words.text()
    chart = show(board, 60, "Importance")
    assert chart.busy
    board.tiles[0].show_kind("History")
    assert not chart.busy


def test_what_is_asked_of_the_process_is_what_the_trials_chose(board: StudyBoard) -> None:
    chart = show(board, 40, "Importance")
    head, _, columns = chart._asked().partition(b"\n")
    about = json.loads(head)
    table = np.frombuffer(columns).reshape(len(about["choices"]) + 2, about["rows"])
    done = [t for t in board.study.trials if t.state == "complete"]
    assert about["rows"] == len(done) and (table[-2] == [-t.values[0] for t in done]).all()
    assert (table[list(about["choices"]).index("sparsity")] == [t.params["sparsity"] for t in done]).all()


# -- the columns


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
