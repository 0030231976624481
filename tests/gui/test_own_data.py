"""Data of one's own, named once: measured on after every edit, by Evaluate, and offered to the sensitivities."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from espalier.app.features.data.panel import DataPanel
from espalier.app.features.sensitivity.panel import SensitivityPanel
from espalier.app.features.training.panel import TrainingPanel
from espalier.app.shell.window import Window
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import AnalyseJob
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.training.options import FinetuneOptions
from tests.gui.bert import open_bert
from tests.gui.conftest import FakeRunner, open_small
from tests.gui.recipes import quantise

pytestmark = pytest.mark.gui


@pytest.fixture
def measured(window: Window, runner: list[FakeRunner], tmp_path: Path) -> EvaluateOptions:
    """What a model without data of its own was measured on."""
    window.live._pause = 1
    open_small(window, runner)
    file = tmp_path / "mine.csv"
    file.write_text("text,label\ngood,1\n")
    options = EvaluateOptions(data=str(file), limit=32)
    window.session.evaluate(options)
    runner[-1].finish(Report("evaluate", (), {"accuracy": 0.9, "loss": 0.25}))
    return options


def asked(runner: list[FakeRunner]) -> list[Any]:
    """The options of the evaluations that wait, without what they compare with."""
    jobs = [w.job for w in runner[-1].waiting if isinstance(w.job, AnalyseJob)]
    return [j.step.options for j in jobs if j.step.pass_name == "evaluate"]


def test_an_edit_is_measured_on_them(
    window: Window, runner: list[FakeRunner], measured: EvaluateOptions, qtbot: QtBot
) -> None:
    quantise(window)
    qtbot.waitUntil(lambda: bool(asked(runner)))
    assert [(o.data, o.limit) for o in asked(runner)] == [(measured.data, 32)]


def test_a_file_that_went_is_not_asked_for_at_each_edit(
    window: Window, runner: list[FakeRunner], measured: EvaluateOptions, qtbot: QtBot
) -> None:
    Path(measured.data).unlink()
    with qtbot.waitSignal(window.live._timer.timeout):
        quantise(window)
    assert not asked(runner)


def test_evaluate_asks_once(
    window: Window, runner: list[FakeRunner], measured: EvaluateOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    forms: list[Any] = []
    monkeypatch.setattr(window.services.forms, "show", lambda *given: forms.append(given[1]))
    window.live.enabled = False
    quantise(window)
    window.services.evaluation.evaluate()
    assert not forms and [o.data for o in asked(runner)] == [measured.data]
    window.services.evaluation.evaluate_on()
    assert forms == [measured]


def test_sensitivities_are_offered_on_them(window: Window, runner: list[FakeRunner], tmp_path: Path) -> None:
    open_bert(window.session, runner)
    window.live.enabled = False
    window.docks.bring("sensitivity")
    panel = window.docks.panels["sensitivity"]
    assert isinstance(panel, SensitivityPanel) and panel.start.isHidden()
    window.session.evaluate(EvaluateOptions(data=str(tmp_path / "mine.csv")))
    runner[-1].finish(Report("evaluate", (), {"accuracy": 0.9, "loss": 0.25}))
    assert not panel.start.isHidden() and panel.start.text().endswith("on mine.csv")


def test_training_and_data_begin_with_them(window: Window, runner: list[FakeRunner], tmp_path: Path) -> None:
    open_small(window, runner)
    training, data = window.docks.panels["training"], window.docks.panels["data"]
    assert isinstance(training, TrainingPanel) and isinstance(data, DataPanel)
    wish = EvaluateOptions(data=str(tmp_path / "mine.csv"), label="stars")
    window.session.evaluate(wish)
    runner[-1].finish(Report("evaluate", (), {"accuracy": 0.9, "loss": 0.25}))
    made = training.form.value()
    assert (made.data, made.label) == (wish.data, "stars") and data.options().data == wish.data
    training.offer(FinetuneOptions(data="others.csv"))
    data.look_at(EvaluateOptions(data="others.csv"))
    window.session.evaluate(replace(wish, label="class"))
    runner[-1].finish(Report("evaluate", (), {"accuracy": 0.8, "loss": 0.5}))
    assert training.form.value().data == data.options().data == "others.csv", "what was written stays"
