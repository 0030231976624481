"""The inspector: pruning runs as a job, and shows what it did."""

from __future__ import annotations

import pytest
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from espalier.app.features.inspector.figures.weights import Loss
from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.features.inspector.weight import pruning_error_text
from espalier.app.session.session import Session
from espalier.app.widgets.forms.fields import MIXED
from espalier.passes.choices.pruning import METHODS
from espalier.passes.jobs.kinds import ReplayJob
from tests.gui.bert import KEY, QUERY, answer_prune
from tests.gui.conftest import FakeRunner

pytestmark = pytest.mark.gui


def test_mixed_sparsity_takes_no_mean(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    session.select((KEY,))
    panel.pruning.slider.setValue(300)
    qtbot.waitUntil(lambda: bool(runner[-1].waiting), timeout=2000)
    answer_prune(session, runner)
    session.select((KEY, QUERY))
    assert panel.pruning.share.placeholderText() == MIXED and not panel.pruning.share.text()
    panel.pruning.method.setCurrentIndex(METHODS.index("random"))
    panel.pruning.method.activated.emit(METHODS.index("random"))
    assert "differ in sparsity" in panel.pruning.state.text() and not panel.pruning._timer.isActive()
    QTest.keyClicks(panel.pruning.share, "20")
    qtbot.waitUntil(lambda: bool(runner[-1].waiting), timeout=2000)
    options = runner[-1].waiting[0].job.recipe.steps[-1].options  # type: ignore[union-attr]
    assert options.sparsity == pytest.approx(0.2) and options.method == "random"


def test_a_pruned_weight_tells_both_errors(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    session.select((KEY,))
    panel.pruning.slider.setValue(500)
    qtbot.waitUntil(lambda: bool(runner[-1].waiting), timeout=2000)
    answer_prune(session, runner)
    qtbot.waitUntil(lambda: "pruning alone" in panel.weight.words.text(), timeout=5000)
    panel.precision.rows["weight"].show_sqnr(Loss(20.0, 15.0), waiting=False)
    assert "against the pruned weight" in panel.precision.rows["weight"].sqnr.toolTip()
    told = pruning_error_text(Loss(20.0, 15.0), panel.weight.plot.histogram)
    assert "the format 20.0 dB against the pruned weight" in told and "both 15.0 dB against the original" in told
    assert pruning_error_text(Loss(20.0), None) == ""


def test_pruning_runs_as_a_job_and_shows_exact_counts(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    session.select((KEY,))
    panel.pruning.slider.setValue(300)
    assert panel.pruning.words.text() == "30\u2009% · 307 of 1\u2009024"
    qtbot.waitUntil(lambda: bool(runner[-1].waiting), timeout=2000)
    assert panel.pruning.state.isVisible()
    answer_prune(session, runner)
    assert session.document is not None
    held = session.document.graph.nodes[KEY].sparsity["weight"]
    assert held.zeros == 307 and not panel.pruning.state.isVisible()
    shown = panel.weight.plot
    qtbot.waitUntil(lambda: shown.histogram is not None and shown.histogram.pruned.sum() == 307, timeout=5000)
    session.undo()
    assert panel.pruning.slider.value() == 0 and panel.pruning.words.text().startswith("0\u2009%")


def test_a_drag_sends_few_requests(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    session.select((KEY,))
    for value in range(0, 500, 10):
        panel.pruning.slider.setValue(value)
    qtbot.waitUntil(lambda: bool(runner[-1].waiting), timeout=2000)
    job = runner[-1].waiting[0].job
    assert len(runner[-1].waiting) == 1 and isinstance(job, ReplayJob)
    assert job.recipe.steps[-1].options.sparsity == pytest.approx(0.49)
    answer_prune(session, runner)


def test_a_dropped_request_goes_back_to_the_document(
    panel: InspectorPanel, session: Session, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    session.select((KEY,))
    panel.pruning.slider.setValue(300)
    qtbot.waitUntil(lambda: bool(runner[-1].waiting), timeout=2000)
    session.cancel(runner[-1].waiting[0].id)
    assert panel.pruning.slider.value() == 0
