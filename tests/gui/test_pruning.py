"""Pruning in the inspector: patterns, methods that need data, what changed, and the map of the pattern."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.session.session import Session
from espalier.app.widgets.forms.fields import Choice
from espalier.passes.base import Context, StepResult, run_step
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.jobs.kinds import ReplayJob, ReplayResult
from espalier.passes.running.splits import EvaluateOptions
from tests.gui.bert import KEY, QUERY, open_bert
from tests.gui.conftest import FakeRunner

pytestmark = pytest.mark.gui


@pytest.fixture
def panel(qtbot: QtBot, session: Session, runner: list[FakeRunner]) -> Iterator[InspectorPanel]:
    """The inspector of a session with the traced model, one node selected."""
    open_bert(session, runner)
    made = InspectorPanel(session)
    made.resize(320, 900)
    made.show()
    session.select((KEY,))
    yield made
    made.close()
    made.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def choose(choice: Choice, value: str) -> None:
    choice.put(value)
    choice.activated.emit(choice.currentIndex())


def asked(session: Session, runner: list[FakeRunner], qtbot: QtBot) -> PruneOptions:
    """Wait for the request and answer it as the worker would."""
    qtbot.waitUntil(lambda: bool(runner[-1].waiting), timeout=5000)
    job = runner[-1].waiting[0].job
    assert isinstance(job, ReplayJob) and session.document is not None
    graph, results = job.base, list[StepResult]()
    for step in job.recipe.active:
        results.append(run_step(graph, step, Context(session.document.store)))
        graph = results[-1].graph
    runner[-1].finish(ReplayResult(graph, tuple(results), {}))
    return job.recipe.steps[-1].options


def test_n_of_m_says_its_own_share(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    pruning = panel.pruning
    choose(pruning.pattern.kind, "n:m")
    assert not pruning.slider.isEnabled() and pruning.slider.value() == 500
    options = asked(session, runner, qtbot)
    assert (options.pattern, options.n, options.m, options.sparsity) == ("n:m", 2, 4, 0.5)
    pruning.pattern.first.setFocus()
    pruning.pattern.first.selectAll()
    QTest.keyClicks(pruning.pattern.first, "1")
    assert asked(session, runner, qtbot).sparsity == 0.75
    assert session.document is not None and session.document.graph[KEY].sparsity["weight"].label == "1:4"
    pruning.pattern.first.selectAll()
    QTest.keyClicks(pruning.pattern.first, "9")
    assert pruning.pattern.first.property("wrong") and not pruning._timer.isActive()
    session.select((QUERY,))
    session.select((KEY,))
    assert pruning.pattern.shape == ("n:m", (1, 4)) and not pruning.slider.isEnabled()
    pruning.remove.click()
    asked(session, runner, qtbot)
    assert not session.document.graph[KEY].sparsity and pruning.slider.isEnabled() and pruning.remove.isHidden()


def test_blocks_have_a_size(panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot) -> None:
    pruning = panel.pruning
    choose(pruning.pattern.kind, "block")
    assert not pruning._timer.isActive()  # nothing is pruned yet, and nothing asked for
    pruning.slider.setValue(300)
    options = asked(session, runner, qtbot)
    assert (options.pattern, options.rows, options.columns, options.sparsity) == ("block", 4, 4, 0.3)
    assert pruning.pattern.shape == ("block", (4, 4)) and "4×4 blocks" in panel.sparsity_map.view.description.text()


@pytest.mark.slow
def test_methods_that_look_at_data_need_some(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    pruning = panel.pruning
    pruning.slider.setValue(500)
    asked(session, runner, qtbot)
    choose(pruning.method, "wanda")
    assert pruning.scope.get() == "row" and "wanda needs data" in pruning.state.text()
    assert not pruning._timer.isActive() and not runner[-1].waiting
    session.measures.use(EvaluateOptions(data="reviews.csv", text="words"))
    choose(pruning.method, "snip")
    assert pruning._timer.interval() > 300
    qtbot.waitUntil(lambda: bool(runner[-1].waiting), timeout=5000)
    options = runner[-1].waiting[0].job.recipe.steps[-1].options  # type: ignore[union-attr]
    assert (options.method, options.data, options.text, options.split) == ("snip", "reviews.csv", "words", "train")
    session.cancel(runner[-1].waiting[0].id)


def test_what_a_pruning_changed_is_told(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    pruning = panel.pruning
    pruning.slider.setValue(500)
    asked(session, runner, qtbot)
    assert pruning.changes.isHidden()
    session.select((KEY, QUERY))
    session.select((KEY,))
    session.run_pass("prune", PruneOptions(0.25, select=session.recipe.steps[-1].options.select))
    asked(session, runner, qtbot)
    assert "dropped 0 and restored 256" in pruning.changes.text() and pruning.changes.isVisible()


# -- the map


def test_the_map_shows_the_mask_and_zooms_to_elements(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    shown = panel.sparsity_map.view.map
    qtbot.waitUntil(lambda: shown.picture is not None, timeout=5000)
    assert (
        shown.picture is not None
        and shown.picture.kept.min() == 1
        and "not pruned" in panel.sparsity_map.view.description.text()
    )
    panel.pruning.slider.setValue(500)
    asked(session, runner, qtbot)
    qtbot.waitUntil(lambda: shown.picture is not None and shown.picture.kept.min() == 0, timeout=5000)
    assert shown.picture.kept.mean() == pytest.approx(0.5) and "50.0" in panel.sparsity_map.view.description.text()
    assert not shown.zoomed
    for _ in range(12):
        shown.zoom(1 / 1.3)
    qtbot.waitUntil(lambda: shown.picture is not None and shown.picture.region == shown.region, timeout=5000)
    assert shown.zoomed and shown.region is not None and shown.region.high == 4 == shown.region.wide
    words = shown.tooltip_at(QPoint(3, 3))
    assert words.startswith(f"output {shown.region.top}, input {shown.region.left}:")
    kept = shown.picture.kept[0, 0]
    assert words.endswith(", dropped") != bool(kept)
    QTest.keyClick(shown, Qt.Key.Key_Right)
    left = shown.region.left
    shown.pan(-(10**6), -(10**6))
    assert left > 0 and (shown.region.top, shown.region.left) == (0, 0)
    QTest.keyClicks(shown, "0")
    assert not shown.zoomed


def test_the_wheel_scrolls_the_panel_until_the_map_is_meant(panel: InspectorPanel, qtbot: QtBot) -> None:
    shown = panel.sparsity_map.view.map
    qtbot.waitUntil(lambda: shown.picture is not None, timeout=5000)

    def wheel(modifier: Qt.KeyboardModifier) -> None:
        at, none, phase = QPointF(20, 20), Qt.MouseButton.NoButton, Qt.ScrollPhase.NoScrollPhase
        event = QWheelEvent(at, at, QPoint(), QPoint(0, 120), none, modifier, phase, False)
        QApplication.sendEvent(shown, event)

    wheel(Qt.KeyboardModifier.NoModifier)
    assert not shown.zoomed
    wheel(Qt.KeyboardModifier.ControlModifier)
    assert shown.zoomed
    shown.whole()
    assert not shown.zoomed


def test_the_larger_map_follows_the_selection(panel: InspectorPanel, session: Session, qtbot: QtBot) -> None:
    panel.sparsity_map.enlarge()
    window = panel.sparsity_map.large_window
    assert window is not None and window.isVisible() and window.windowTitle().endswith("key")
    qtbot.waitUntil(lambda: window.view.map.picture is not None, timeout=5000)
    session.select((QUERY,))
    assert window.windowTitle().endswith("query")
    window.close()
    session.select(())
    assert panel.sparsity_map.isHidden()


# -- what flows in


@pytest.mark.slow
def test_inputs_are_pruned_by_a_rule(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    inputs = panel.inputs
    assert inputs.isVisibleTo(panel) and inputs.slider.value() == 0
    inputs.slider.setValue(400)
    qtbot.waitUntil(lambda: bool(runner[-1].waiting), timeout=5000)
    assert "pruning" in inputs.state.text()
    options = asked(session, runner, qtbot)
    assert (options.sparsity, options.method, options.pattern) == (0.4, "l1", "top_k")  # type: ignore[comparison-overlap]
    assert session.document is not None and session.document.graph[KEY].sparsity["data_in"].ratio == 0.4
    assert inputs.share.text() == "40" and inputs.state.isHidden()
    choose(inputs.rule, "threshold")
    assert "needs data" in inputs.state.text() and not inputs._timer.isActive()
    choose(inputs.rule, "random")
    asked(session, runner, qtbot)
    assert session.document.graph[KEY].sparsity["data_in"].method == "random" and len(session.recipe.steps) == 1
    session.select((QUERY,))
    assert inputs.slider.value() == 0
    session.select((KEY,))
    assert inputs.slider.value() == 400 and inputs.rule.get() == "random"
    inputs.share.selectAll()
    QTest.keyClicks(inputs.share, "0")
    asked(session, runner, qtbot)
    assert not session.document.graph[KEY].sparsity
