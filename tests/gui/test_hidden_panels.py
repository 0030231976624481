"""What nobody sees does nothing: panels behind other tabs, the previews of a busy window, names below bars."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QApplication, QTabBar
from pytestqt.qtbot import QtBot

from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.features.search.panel import SearchPanel
from espalier.app.features.sensitivity.charts.heat_bars import distinct
from espalier.app.features.training.panel import TrainingPanel
from espalier.app.jobs.previews import Previews
from espalier.app.session.measures import Measures
from espalier.app.shell.window import Window
from espalier.model.document.recipe import Recipe
from espalier.model.formats.integer import Integer
from espalier.model.store.weights import WeightStore
from espalier.passes.base import Context
from espalier.passes.choices.edits import with_format
from espalier.passes.choices.freeze import FreezeOptions
from espalier.passes.recipes.replay import replay
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.score import Scorer
from espalier.passes.select import Select
from tests.gui.conftest import small_graph

DIRECT = Qt.FindChildOption.FindDirectChildrenOnly
pytestmark = pytest.mark.gui


def seen(window: Window) -> set[str]:
    return {name for name, panel in window.docks.panels.items() if panel.isVisible()}


def test_panels_behind_other_tabs_are_hidden(opened: Window) -> None:
    first = {"outline", "recipe", "inspector"}
    assert seen(opened) == first
    opened.show_dock("jobs")
    assert seen(opened) == {*first, "jobs"}
    opened.show_dock("search")
    assert seen(opened) == {"search"}
    opened.show_dock("training")
    assert seen(opened) == {"training"}
    opened.docks.docks["search"].setFloating(True)  # from behind
    opened.show_dock("data")
    QApplication.processEvents()
    assert seen(opened) == {"search", "data"}
    opened.docks.reset()
    assert seen(opened) == first


def test_the_keyboard_leaves_what_is_hidden(opened: Window) -> None:
    opened.show_dock("data")
    opened.docks.enter("data")
    opened.show_dock("jobs")
    focus = QApplication.focusWidget()
    assert focus is None or focus.isVisible()


def test_restored_layouts_leave_no_python_objects_of_tab_bars(opened: Window) -> None:
    """Qt makes new tab bars for each; what `findChildren` gave for the old ones stayed as long as the window."""

    def count() -> int:
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.collect()
        return sum(type(found) is QTabBar for found in gc.get_objects())

    layout, counts = opened.docks.state(), list[int]()
    for _ in range(4):
        opened.docks.restore(layout)
        QApplication.processEvents()
        opened.docks.enter("data")
        counts.append(count())
    assert counts[-1] == counts[0]
    bars = [b for area in opened.pages.workbench.areas.values() for b in area.findChildren(QTabBar, options=DIRECT)]
    shown = [b for b in bars if not b.isHidden() and b.count() > 1]
    assert len({tuple(b.tabText(k) for k in range(b.count())) for b in shown}) == len(shown) == 4, "no stale bar shows"


def test_an_edit_is_followed_at_the_next_look(opened: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    panel, edits = opened.docks.panels["training"], list[int]()
    assert isinstance(panel, TrainingPanel)
    monkeypatch.setattr(panel, "_edited", lambda: edits.append(1))
    opened.session.set_format(["fc1"], "weight", Integer(8, 4))
    opened.session.set_format(["fc1"], "weight", Integer(6, 4))
    assert not edits
    opened.show_dock("training")
    assert edits == [1]


def test_a_hidden_search_tells_the_data_of_the_last_score(opened: Window) -> None:
    panel = opened.docks.panels["search"]
    assert isinstance(panel, SearchPanel)
    opened.show_dock("search")
    panel.compose()
    opened.show_dock("jobs")
    opened.session.record_score(Recipe(), EvaluateOptions(data="mine.csv", limit=7), {}, chosen=True)
    opened.show_dock("search")
    assert panel.setup.score.summary.text() == "Scored on mine.csv · 7 samples"


def test_a_frozen_layer_is_told_by_an_inspector_that_was_hidden(opened: Window) -> None:
    inspector = opened.docks.panels["inspector"]
    assert isinstance(inspector, InspectorPanel)
    opened.session.select(("fc1",))
    assert not inspector.adapter.frozen.isChecked() and not inspector.adapter.isHidden()
    opened.show_dock("training")
    opened.session.run_pass("freeze", FreezeOptions(Select("name", ("fc1",))))
    opened.show_dock("inspector")
    assert inspector.adapter.frozen.isChecked()


def test_the_baseline_is_counted_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    base, counted, score = small_graph(), list[object](), Scorer.score
    monkeypatch.setattr(Scorer, "score", lambda self, graph: (counted.append(graph), score(self, graph))[1])
    measures, recipe = Measures(), Recipe()
    for width in range(2, 32):
        recipe = with_format(Recipe(), ("fc1",), "weight", Integer(width, 1))
        measures.score(base, Recipe())
        measures.score(replay(base, recipe, Context(WeightStore(tmp_path))).graph, recipe)
    assert sum(graph is base for graph in counted) == 1


def test_previews_come_one_after_the_other(qtbot: QtBot) -> None:
    previews, told, begun = Previews(), list[str](), list[str]()
    previews.ready.connect(lambda slot, key, found: told.append(slot))

    def work(name: str) -> str:
        begun.append(f"{name} after {len(told)}")
        return name

    for name in ("a", "b", "c"):
        previews.ask(name, name, lambda stop, n=name: work(n))
    time.sleep(0.1)  # the window is busy
    qtbot.waitUntil(lambda: len(told) == 3, timeout=60_000)
    assert told == ["a", "b", "c"] and begun == ["a after 0", "b after 1", "c after 2"]
    previews.close()


def test_names_below_bars_tell_layers_apart() -> None:
    names = ["e.0.self.dense", "e.0.output.dense", "e.1.self.dense", "pooler.dense", "classifier", "e.1.norm"]
    told = ["0.self.dense", "output.dense", "1.self.dense", "pooler.dense", "classifier", "norm"]
    assert distinct(names) == dict(zip(names, told, strict=True))
