"""Texts in place of missing values: whether their job runs, and whether it starts automatically."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from espalier.app.features.jobs.panel import JobsPanel
from espalier.app.features.score.panel import NOT_AUTOMATIC
from espalier.app.measured.evaluation_time import EvaluationTime, macs_of
from espalier.app.measured.live import is_evaluation
from espalier.app.shell.window import Window
from espalier.model.document.project import Saved
from espalier.model.errors import FileError
from espalier.model.store.weights import WeightStore
from espalier.passes.base import NoOptions, Report
from espalier.passes.jobs.kinds import Done, Failed, LogLine, SaveJob, Started, Stopped
from espalier.passes.running.splits import EvaluateOptions
from tests.gui.conftest import FakeRunner, open_small, small_graph, small_project
from tests.gui.recipes import quantise

pytestmark = pytest.mark.gui


def test_a_table_says_whether_its_job_waits_or_runs(opened: Window, runner: list[FakeRunner]) -> None:
    tables = opened.docks.tables
    tables.wait_for("quantization")
    opened.session.run_pass("quantization", NoOptions())
    assert "after the jobs queued before it" in tables._message.text()
    runner[-1].tell(runner[-1].waiting[-1], Started())
    assert tables._message.text().endswith(": being computed.")


@pytest.mark.slow
def test_a_table_that_does_not_come_says_why(opened: Window, runner: list[FakeRunner]) -> None:
    tables, session = opened.docks.tables, opened.session
    tables.wait_for("quantization")
    session.run_pass("quantization", NoOptions())
    info = runner[-1].waiting[-1]
    runner[-1].tell(info, Started())
    session.problem.emit(FileError("The disk is full.", "Free some space."))  # of something else
    assert tables._message.text().endswith(": being computed.")
    runner[-1].tell(info, Failed("The weights are damaged.", "Open an older copy."))
    assert tables._message.text() == "There is no table. The weights are damaged. Open an older copy."
    tables.wait_for("sparsity")
    session.run_pass("sparsity", NoOptions())
    runner[-1].tell(runner[-1].waiting[-1], Stopped())
    assert "the job was stopped" in tables._message.text()


@pytest.mark.slow
def test_a_job_that_waits_for_another_is_listed_and_can_be_stopped(opened: Window, runner: list[FakeRunner]) -> None:
    session, jobs = opened.session, opened.docks.panels["jobs"]
    assert isinstance(jobs, JobsPanel)
    session.run_pass("quantization", NoOptions())
    first = runner[-1].waiting[-1]
    runner[-1].tell(first, Started())
    runner[-1].tell(first, LogLine("the first"))
    session.run_pass("sparsity", NoOptions())
    second = runner[-1].waiting[-1]
    row = jobs._rows[second.id]
    assert row._status.text() == "queued" and not row._stop.isHidden()
    assert jobs._log.toPlainText() == "the first", "the log stays with the job that runs"
    runner[-1].tell(second, Started())
    assert jobs._rows[second.id] is row and not jobs._log.toPlainText()


@pytest.fixture
def measured(window: Window, runner: list[FakeRunner], qtbot: QtBot) -> Window:
    """The small model on data that it was measured on."""
    window.live._pause = 1
    open_small(window, runner, small_project("demo:digits"))
    qtbot.waitUntil(lambda: bool(runner[0].waiting))
    answer(runner, 0.5)
    return window


def answer(runner: list[FakeRunner], seconds: float, accuracy: float = 0.75) -> None:
    """Let the job that waits end as an evaluation of so many processor seconds."""
    info = runner[0].waiting[0]
    assert is_evaluation(info)
    runner[0].tell(info, Started())
    info.started -= 300.0  # by the clock every one of them lasts minutes: the machine does something else as well
    runner[0].tell(info, Done(Report("evaluate", (), {"accuracy": accuracy, "loss": 0.5, "kl": 0.1}), seconds))


def test_a_busy_machine_does_not_end_live_measuring(measured: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    figure = measured.status.score.figures["accuracy"]
    quantise(measured)
    assert figure.text == "75.0\u2009% stale" and figure._value.property("role") == "muted"
    qtbot.waitUntil(lambda: bool(runner[0].waiting))
    answer(runner, 0.5, 0.6)
    quantise(measured, 4)
    qtbot.waitUntil(lambda: bool(runner[0].waiting))
    assert figure.chip.isHidden(), "it is being measured"


@pytest.mark.slow
def test_what_takes_long_is_offered_in_place_of_a_stale_figure(
    measured: Window, runner: list[FakeRunner], qtbot: QtBot
) -> None:
    figure, row = measured.status.score.figures["accuracy"], measured.actions_table.actions["live"]
    assert figure.chip.isHidden()
    measured.session.evaluate()
    answer(runner, 200.0)
    quantise(measured)
    assert not measured.live._timer.isActive() and not runner[0].waiting
    assert figure.text == "75.0\u2009% stale · Measure" and not figure.chip.isHidden()
    assert "3\u2009min" in figure.toolTip() and "3\u2009min" in row.text()
    assert measured.status.score.figures["size_bytes"].chip.isHidden()
    qtbot.mouseClick(figure.chip, Qt.MouseButton.LeftButton)
    assert figure.chip.isHidden() and is_evaluation(runner[0].waiting[0])
    answer(runner, 0.5, 0.7)  # the machine was to blame, or the model has changed: live again, without a word
    assert figure.text.startswith("70.0") and row.text() == "Measure after every edit"
    quantise(measured, 4)
    qtbot.waitUntil(lambda: bool(runner[0].waiting))


@pytest.mark.slow
def test_what_takes_a_while_starts_once_no_edit_comes(measured: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    live, figure = measured.live, measured.status.score.figures["accuracy"]
    measured.session.evaluate()
    answer(runner, 20.0)
    quantise(measured)
    assert live._timer.isActive() and live._timer.interval() == 20_000 and not figure.chip.isHidden()
    live._timer.setInterval(1)
    qtbot.waitUntil(lambda: bool(runner[0].waiting))
    assert figure.chip.isHidden()
    measured.session.submit(
        "Something else", SaveJob(small_project(), WeightStore(Path("y")), Path("x")), lambda _: None
    )
    assert [j.title for j in measured.session.jobs] == ["Something else"], "nobody asked for it: it makes room"
    assert figure.text.endswith("stale · Measure")
    runner[0].finish(Saved())
    assert live._timer.isActive(), "it is tried again"


def test_the_pace_follows_the_cost_of_the_model() -> None:
    graph = small_graph()
    pace = EvaluationTime(60.0, 2 * macs_of(graph))
    assert pace.seconds_of(graph) == 30.0 and EvaluationTime(3.0, 0).seconds_of(graph) == 3.0
    assert macs_of(graph) == 8 * 8 + 8 * 4


def test_measuring_switched_off_says_so(measured: Window) -> None:
    figure = measured.status.score.figures["accuracy"]
    measured.actions_table.run("live")
    quantise(measured)
    assert figure.text == "75.0\u2009% stale · Measure" and NOT_AUTOMATIC in figure.toolTip()


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


def test_a_baseline_of_a_file_that_changed_is_measured_again(
    opened: Window, runner: list[FakeRunner], tmp_path: Path
) -> None:
    session, data = opened.session, tmp_path / "rows.csv"
    data.write_text("text,label\ngood,1\nbad,0\n")
    quantise(opened)
    for again in (False, True):
        session.evaluate(EvaluateOptions(data=str(data)))
        titles = [j.title for j in runner[0].waiting]
        assert titles == ["Evaluate baseline (opened)", "Evaluate"], "files changed" if again else "nothing is known"
        while runner[0].waiting:
            runner[0].finish(Report("evaluate", (), {"accuracy": 0.75, "loss": 0.5}))
        session.evaluate()
        assert [j.title for j in runner[0].waiting] == ["Evaluate"], "the baseline is known"
        runner[0].finish(Report("evaluate", (), {"accuracy": 0.75, "loss": 0.5}))
        data.write_text("text,label\ngood,1\nbad,0\nfine,1\n")
