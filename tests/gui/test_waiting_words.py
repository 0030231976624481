"""What the window says while a figure is not there: whether its job runs, and whether it comes by itself."""

from __future__ import annotations

import pytest

import app.measured.live
from app.panels.score import ASK, SLOW
from app.window import Window
from passes.analysis.evaluate import EvaluateOptions
from passes.base import NoOptions, Report
from passes.jobs import Done, Failed, Progress, Started
from tests.gui.conftest import FakeRunner

pytestmark = pytest.mark.gui


def test_a_table_says_whether_its_job_waits_or_runs(opened: Window, runner: list[FakeRunner]) -> None:
    tables = opened.docks.tables
    tables.wait_for("quantization")
    opened.session.run_pass("quantization", NoOptions())
    assert "after the jobs before it" in tables._words.text()
    runner[-1].tell(runner[-1].waiting[-1], Started())
    assert tables._words.text().endswith(": being made.")


def test_the_score_says_that_slow_measuring_waits_to_be_asked(
    opened: Window, runner: list[FakeRunner], monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = opened.status.score.figures["accuracy"]
    assert SLOW not in figure.toolTip()
    monkeypatch.setattr(app.measured.live, "QUICK", -1.0)
    opened.session.evaluate()
    info = runner[-1].waiting[-1]
    for event in (Started(), Progress(0, 1, "")):
        runner[-1].tell(info, event)
    opened.session._on_done.pop(info.id)  # what it found does not matter here
    runner[-1].tell(info, Done(Report("evaluate", (), {})))
    assert SLOW in figure.toolTip() and figure.text == ASK
    assert SLOW not in opened.status.score.figures["size_bytes"].toolTip()
    opened.live._opened()
    assert SLOW not in figure.toolTip()


def test_data_that_fail_take_no_figure_away(opened: Window, runner: list[FakeRunner]) -> None:
    session = opened.session
    session.evaluate()
    runner[0].finish(Report("evaluate", (), {"accuracy": 0.75, "loss": 0.5}))
    used = session.measured_on
    session.evaluate(EvaluateOptions(data="gone.csv"))
    assert session.score.accuracy == 0.75
    runner[0].tell(runner[0].waiting[-1], Failed("There is no gone.csv.", "Choose another file."))
    assert session.score.accuracy == 0.75 and session.measured_on == used
    session.evaluate(EvaluateOptions(data="mine.csv"))
    runner[0].finish(Report("evaluate", (), {"accuracy": 0.25, "loss": 2.0}))
    assert session.score.accuracy == 0.25 and session.measured_on.data == "mine.csv"
