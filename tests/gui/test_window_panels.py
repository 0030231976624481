"""Jobs, tables, problems, find field, score, welcome page, banner: each through the window."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QLabel, QScrollArea
from pytestqt.qtbot import QtBot

from espalier.app import errors
from espalier.app.commands.crash import crash_folder
from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.features.jobs.panel import JobsPanel
from espalier.app.features.log.panel import LogPanel
from espalier.app.features.options.panel import OptionsWindow
from espalier.app.features.problems.panel import ProblemsPanel
from espalier.app.features.recipe.panel import RecipePanel
from espalier.app.jobs.status import status_text
from espalier.app.settings import Settings
from espalier.app.shell.welcome import CardButton, WelcomePage, cards
from espalier.app.shell.window import Window
from espalier.model.errors import PassError
from espalier.model.formats.integer import Integer
from espalier.model.sources.info import SourceInfo
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import (
    AnalyseJob,
    Continued,
    Failed,
    JobInfo,
    LogLine,
    Paused,
    Progress,
    ReplayJob,
    Started,
    Stopped,
)
from espalier.passes.running.splits import EvaluateOptions
from tests.gui.conftest import FakeRunner, open_small, small_graph, small_project
from tests.gui.recipes import quantise

pytestmark = pytest.mark.gui


def test_the_keyboard_goes_through_the_panels_and_back(opened: Window, qtbot: QtBot) -> None:
    opened.activateWindow()
    opened.session.select(("fc1",))
    opened.actions_table.run("to_inspector")
    inspector = opened.docks.panels["inspector"]
    assert isinstance(inspector, InspectorPanel)
    first = inspector.precision.rows["data_in"].editor.choice
    qtbot.waitUntil(first.hasFocus)
    qtbot.keyClick(first, Qt.Key.Key_Escape)
    qtbot.waitUntil(opened.canvas.hasFocus)
    visited = []
    for _ in range(3):
        opened.actions_table.run("next_panel")
        visited.append(
            next((n for n, d in opened.docks.docks.items() if d.isAncestorOf(QApplication.focusWidget())), "")
        )
    assert visited == ["outline", "recipe", "inspector"]
    opened.actions_table.run("next_panel")
    assert opened.canvas.hasFocus()


def test_a_drag_is_one_job_in_the_list(opened: Window, runner: list[FakeRunner]) -> None:
    panel = opened.docks.panels["jobs"]
    assert isinstance(panel, JobsPanel)
    before = len(panel._rows)
    for ratio in (0.1, 0.2, 0.3):
        opened.session.set_sparsity(("fc1",), ratio)
        info = runner[0].waiting[0]
        runner[0].tell(info, Started())
        runner[0].tell(info, Stopped() if ratio < 0.3 else Failed("Full.", "Make room."))
    assert [r.job.title for r in panel._rows.values()][before:] == ["Prune 30\u2009%"]
    opened.session.set_sparsity(("fc1",), 0.4)
    runner[0].tell(runner[0].waiting[0], Started())
    assert len(panel._rows) == before + 2  # a failure stays


def test_the_log_stays_with_its_newest_line(opened: Window, qtbot: QtBot) -> None:
    panel = opened.docks.panels["log"]
    assert isinstance(panel, LogPanel)
    for i in range(200):
        panel.add(f"line {'x' * (i % 7)}")
    opened.docks.bring("log")
    bar = panel._text.verticalScrollBar()
    qtbot.waitUntil(lambda: 0 < bar.maximum() == bar.value(), timeout=20_000)
    bar.triggerAction(bar.SliderAction.SliderToMinimum)
    panel.add("one more")
    qtbot.wait(50)
    assert bar.value() == 0


def test_figures_that_change_are_one_line_of_the_log(opened: Window) -> None:
    panel = opened.docks.panels["log"]
    assert isinstance(panel, LogPanel)
    for line in ("Prune 10\u2009%", "Prune 25\u2009%", "Evaluate: started", "Prune 30\u2009%"):
        panel.add(line)
    ends = [line.split("  ", 1)[1] for line in panel.text.splitlines()[-3:]]
    assert ends == ["Prune 25\u2009%", "Evaluate: started", "Prune 30\u2009%"]


def test_jobs_show_progress_and_outcome(qtbot: QtBot, opened: Window, runner: list[FakeRunner]) -> None:
    opened.session.evaluate(EvaluateOptions("demo:digits"))
    info = runner[0].waiting[0]
    runner[0].tell(info, Started())
    runner[0].tell(info, Progress(50, 200, "evaluating"))
    qtbot.waitUntil(lambda: "evaluating · 50 of 200" in opened.status._text)
    runner[0].tell(info, LogLine("hello"))
    runner[0].tell(info, Failed("Too large.", "Buy memory.", None, "Traceback"))
    panel = opened.docks.panels["jobs"]
    assert isinstance(panel, JobsPanel)
    assert panel._log.toPlainText() == "hello\nTraceback" and not opened.status._text
    assert opened.banner.text == "Too large. Buy memory."


def test_a_retry_and_another_edit_take_the_old_failure_away(opened: Window, runner: list[FakeRunner]) -> None:
    session, recipe = opened.session, opened.docks.panels["recipe"]
    assert session.document is not None and isinstance(recipe, RecipePanel)
    job = ReplayJob(
        small_graph(), session.document.recipe, {}, session.document.store.folder, SourceInfo("demo:small", "Small")
    )

    def fail() -> None:
        session.submit("Fine-tune", job, lambda _: None)
        info = runner[0].waiting[-1]
        runner[0].tell(info, Started())
        assert not opened.banner.text and not recipe.model.error, "tried again"
        runner[0].tell(info, Failed("Too large.", "Buy memory.", None, ""))
        assert opened.banner.text and recipe.model.error

    fail()
    session.evaluate(EvaluateOptions("demo:digits"))
    runner[0].tell(runner[0].waiting[-1], Started())
    assert opened.banner.text, "something else was tried"
    fail()
    session.set_format(("fc1",), "weight", Integer(8, 4))
    session.undo()
    assert not opened.banner.text and not recipe.model.error


def test_columns_of_the_score_keep_still_while_accuracy_is_missing(opened: Window) -> None:
    figure = opened.status.score.figures["accuracy"]
    before = figure.minimumWidth()
    figure.show_value(0.931, 0.931)
    figure.show_value(None, 0.931)
    assert figure.minimumWidth() == before >= figure.sizeHint().width()


def test_a_change_that_rounds_to_nothing_is_not_called_none(opened: Window) -> None:
    """Of perplexity 1.645 to 1.646 the change in per cent rounds to 0, and the figure shown differs."""
    shown = opened.status.score.figures["perplexity"]
    for now, before, text in ((1.6457, 1.6449, "1.646 +0.0008"), (1.64491, 1.6449, "1.645 ±0"),
                              (1.6449, 1.6449, "1.645 no change"), (1.8, 1.6449, "1.8 +9.4\u2009%")):  # fmt: skip
        shown.show_value(now, before, True)
        assert shown.text == text


@pytest.mark.parametrize(
    ("state", "progress", "text"),
    [
        ("waiting", None, "queued"),
        ("running", None, "running · 4.0\u2009s"),
        ("running", Progress(0, 0, "opening"), "opening · 4.0\u2009s"),
        ("running", Progress(25, 100, "evaluating"), "evaluating · 25 of 100 · 12\u2009s left"),
    ],
)
def test_a_job_in_words(state: str, progress: Progress | None, text: str) -> None:
    info = JobInfo(1, "Job", None, state, progress, started=0.0, begun=state == "running")  # type: ignore[arg-type]
    assert status_text(info, 4.0) == text


def test_one_estimate_without_preparation_and_pauses() -> None:
    info = JobInfo(1, "Job", None)  # type: ignore[arg-type]
    told = ((0, Started()), (40, Progress(5, 100, "training")), (50, Paused()), (90, Continued()))
    for now, event in (*told, (100, Progress(25, 100, "training"))):
        info.note(event, float(now))
    assert info.worked(100) == 60 and info.remaining(100) == 75  # 20 steps in the 20 s after its preparation
    assert status_text(info, 100) == "training · 25 of 100 · 75\u2009s left"
    info.note(Progress(0, 10, "evaluating"), 101.0)
    assert info.remaining(101.5) is None


def test_reports_sort_filter_copy_and_lead_to_nodes(opened: Window, tmp_path: Path) -> None:
    tables = opened.docks.tables
    rows = ({"node": "fc1", "macs": 64}, {"node": "fc2", "macs": None}, {"node": "drop", "macs": 7})
    opened.session.report_ready.emit(Report("cost", rows, {"macs": 71}))
    tables.table.sortByColumn(1, Qt.SortOrder.AscendingOrder)
    assert [r["node"] for r in tables.table.rows.shown] == ["drop", "fc1", "fc2"]
    tables.table.selectRow(1)
    assert opened.session.selection == ("fc1",)
    tables.table.clearSelection()
    tables.table.copy()
    assert QGuiApplication.clipboard().text() == "node\tmacs\ndrop\t7\nfc1\t64\nfc2\t\n"
    tables.table.save(tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "node,macs\ndrop,7\nfc1,64\nfc2,\n"
    tables._filter.setText("drop")
    assert tables._counts.text() == "1 row"
    tables._filter.setText("zzz")
    assert tables._counts.text() == "No row contains “zzz”"


def test_a_column_colours_the_graph(opened: Window) -> None:
    rows = ({"node": "fc1", "macs": 64}, {"node": "fc2", "macs": 32})
    opened.session.report_ready.emit(Report("cost", rows))
    opened.docks.tables._overlay()
    assert opened.canvas.mode == "overlay"


def test_an_edit_marks_reports_as_of_an_earlier_state(opened: Window) -> None:
    opened.session.report_ready.emit(Report("cost", ({"node": "fc1", "macs": 64},)))
    quantise(opened)
    assert opened.docks.tables._counts.text() == "1 row · of an earlier state"


def test_problems_are_counted_and_cleared(opened: Window) -> None:
    opened.session.problem.emit(PassError("fc2 is odd.", "Look.", "fc2"))
    panel = opened.docks.panels["problems"]
    assert isinstance(panel, ProblemsPanel)
    assert opened.docks.docks["problems"].windowTitle() == "Problems 1"
    panel.table.selectRow(0)
    assert opened.session.selection == ("fc2",)
    panel.clear_errors()
    assert opened.docks.docks["problems"].windowTitle() == "Problems"


def test_solved_problems_go(opened: Window, runner: list[FakeRunner]) -> None:
    panel = opened.docks.panels["problems"]
    assert isinstance(panel, ProblemsPanel)
    opened.session.problem.emit(PassError("fc2 is odd.", "Look."))
    opened.session.evaluate(EvaluateOptions(data="demo:digits"))
    runner[0].tell(runner[0].waiting[0], Failed("Too large.", "Buy memory."))
    assert [r["message"] for r in panel.table.rows.shown] == ["Too large.", "fc2 is odd."]
    quantise(opened)
    assert [r["message"] for r in panel.table.rows.shown] == ["Too large."]
    opened.session.evaluate(EvaluateOptions(data="demo:digits"))
    while runner[0].waiting:
        runner[0].finish(Report("evaluate", (), {"accuracy": 0.9, "loss": 0.25}))
    assert panel.table.rows.shown == []
    opened.session.problem.emit(PassError("fc2 is odd.", "Look."))
    open_small(opened, runner)
    assert panel.table.rows.shown == []


def test_finding_by_keyboard_goes_to_a_node(opened: Window, qtbot: QtBot) -> None:
    opened.activateWindow()
    opened.actions_table.run("find")
    assert opened.find_field.results.isVisible()
    qtbot.keyClicks(opened.find_field, "fc2")
    qtbot.keyClick(opened.find_field, Qt.Key.Key_Return)
    assert opened.session.selection == ("fc2",) and opened.find_field.results.isHidden()


def test_finding_lists_commands_and_says_when_nothing_matches(opened: Window, qtbot: QtBot) -> None:
    assert opened.quick_find.entries("remove dropout")[0].title == "Remove dropout"
    assert opened.quick_find.entries("rmdrpt")[0].title == "Remove dropout"
    opened.find_field.begin()
    qtbot.keyClicks(opened.find_field, "zzzqq")
    opened.find_field._search()
    assert "No match for “zzzqq”" in opened.find_field.results.no_match.text()
    qtbot.keyClick(opened.find_field, Qt.Key.Key_Escape)
    assert opened.find_field.results.isHidden()


def test_disabled_commands_are_not_offered(window: Window) -> None:
    assert not [e for e in window.quick_find.entries("quantise") if e.title == "Quantise"]


def test_score_shows_change_from_the_baseline(opened: Window) -> None:
    figures = opened.status.score.figures
    assert figures["accuracy"].text == "not measured yet" and figures["weight_bits"].text == "32.00 of 32"
    quantise(opened)
    QApplication.processEvents()
    assert figures["weight_bits"].text == "8.00 −24.00" and figures["activation_bits"].text == "32.00 no change"
    assert figures["weight_bits"]._change.property("tone") == "good"


def test_live_measuring_evaluates_where_data_is_known(window: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    window.live._pause = 1
    open_small(window, runner, small_project("demo:digits"))
    qtbot.waitUntil(lambda: bool(runner[0].waiting))
    assert isinstance(runner[0].waiting[0].job, AnalyseJob)
    runner[0].finish(Report("evaluate", (), {"accuracy": 0.9, "loss": 0.25}))
    qtbot.waitUntil(lambda: window.status.score.figures["accuracy"].text == "90.0\u2009%")
    quantise(window)
    qtbot.waitUntil(lambda: bool(runner[0].waiting))
    quantise(window, 4)
    assert not runner[0].waiting  # the stale measurement was cancelled
    qtbot.waitUntil(lambda: bool(runner[0].waiting))


def test_welcome_lists_demos_and_recent_files(qtbot: QtBot, settings: Settings, tmp_path: Path) -> None:
    settings.add_recent(str(tmp_path / "gone.espalier"))
    settings.add_recent("demo:digits")
    page = WelcomePage(settings)
    qtbot.addWidget(page)
    assert [c.spec for c in cards()] == ["demo:reviews", "demo:stories", "demo:digits", "demo:digits-mlp"]
    assert all(f"held-out {'perplexity' if c.spec == 'demo:stories' else 'accuracy'}" in c.figures for c in cards())
    assert "gone.espalier is missing" in [label.text() for label in page.findChildren(QLabel)]
    with qtbot.waitSignal(page.open_wanted) as heard:
        qtbot.keyClick(page.findChildren(CardButton)[1], Qt.Key.Key_Return)
    assert heard.args == ["demo:stories"]


def test_a_bug_ends_in_a_report_and_a_banner(
    window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(errors, "data_folder", lambda name: tmp_path)
    errors._hook(ValueError, ValueError("odd"), None)
    assert "ValueError: odd" in window.banner.text
    assert "ValueError: odd" in next(tmp_path.glob("crash-*.txt")).read_text()
    assert "odd" in capsys.readouterr().err
    hint = window.banner._hint.text()  # who listens to an edit fails after it was made, who makes one before
    assert "as it was before" not in hint and "Check the last edit" in hint and "The report is in" in hint


def test_crash_reports_lie_where_the_state_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))
    assert errors.crash_report(ValueError("odd")).parent == tmp_path / "state" / "crashes" == crash_folder()


def test_a_form_and_the_find_field_give_the_keys_on(window: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    open_small(window, runner)
    window.build_panels()
    qtbot.focus(window.canvas)
    window.find_field.begin()
    qtbot.keyClick(window.find_field, Qt.Key.Key_Escape)
    assert window.canvas.hasFocus()
    window.find_field.begin()
    qtbot.keyClicks(window.find_field, "quantise")
    qtbot.keyClick(window.find_field, Qt.Key.Key_Return)
    form = window.findChildren(OptionsWindow)[0]
    qtbot.waitUntil(lambda: QApplication.activeWindow() is form)
    field = QApplication.focusWidget()
    assert field is not None and form.isAncestorOf(field) and not isinstance(field, QScrollArea)
    form.close()
