"""Recipe, jobs, tables, problems, find field, score, welcome page, banner: each through the window."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app import errors
from app.finding import entries
from app.panels.jobs import JobsPanel, status_text
from app.panels.options import OptionsWindow
from app.panels.problems import ProblemsPanel
from app.panels.recipe import MIME, RecipePanel
from app.panels.welcome import CardButton, WelcomePage, cards
from app.settings import Settings
from app.window import Window
from model.errors import PassError
from model.formats.integer import Integer
from passes.base import Report
from passes.jobs import AnalyseJob, Failed, JobInfo, LogLine, Progress, Started
from passes.select import Select
from passes.transform.quantize import QuantizeOptions, Rule
from tests.gui.conftest import FakeRunner, open_small, small_project

pytestmark = pytest.mark.gui


def recipe_of(window: Window) -> RecipePanel:
    panel = window.docks.panels["recipe"]
    assert isinstance(panel, RecipePanel)
    return panel


def quantise(window: Window, width: int = 8) -> None:
    rule = Rule(Select("type", ("linear",)), {"weight": Integer(width, 4)})
    window.session.run_pass("quantize", QuantizeOptions((rule,)))


def names(window: Window) -> list[str]:
    document = window.session.document
    return [s.pass_name for s in document.recipe.steps] if document else []


# -- recipe


def test_recipe_lists_trace_and_steps_in_words(opened: Window) -> None:
    quantise(opened)
    texts = [recipe_of(opened).model.index(i).data() for i in range(2)]
    assert texts == ["Trace. demo:small · x", "Quantise. type linear · weight int 8/4. 2 nodes"]


def test_recipe_keys_switch_move_and_remove(opened: Window, qtbot: QtBot) -> None:
    quantise(opened)
    opened.actions_table.run("remove_dropout")
    panel = recipe_of(opened)
    panel.view.setCurrentIndex(panel.model.index(1))
    qtbot.keyClick(panel.view, Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier)
    assert names(opened) == ["remove_dropout", "quantize"] and panel.step == 1
    qtbot.keyClick(panel.view, Qt.Key.Key_Space)
    assert not opened.session.document.recipe.steps[1].enabled  # type: ignore[union-attr]
    qtbot.keyClick(panel.view, Qt.Key.Key_Delete)
    assert names(opened) == ["remove_dropout"]
    for _ in range(3):
        opened.session.undo()
    assert names(opened) == ["quantize", "remove_dropout"]


def test_recipe_reorders_by_drag(opened: Window) -> None:
    quantise(opened)
    opened.actions_table.run("remove_dropout")
    data = QMimeData()
    data.setData(MIME, b"0")
    model = recipe_of(opened).model
    model.dropMimeData(data, Qt.DropAction.MoveAction, 3, 0, model.index(-1))
    assert names(opened) == ["remove_dropout", "quantize"]


def test_a_check_mark_switches_its_step(opened: Window, qtbot: QtBot) -> None:
    quantise(opened)
    view = recipe_of(opened).view
    spot = view.visualRect(recipe_of(opened).model.index(1)).topLeft()
    spot.setX(spot.x() + 18)
    spot.setY(spot.y() + 14)
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=spot)
    assert not opened.session.document.recipe.steps[0].enabled  # type: ignore[union-attr]


def test_editing_a_step_replaces_its_options(opened: Window) -> None:
    quantise(opened)
    recipe_of(opened).edit_wanted.emit(0)
    page = opened.findChild(OptionsWindow)
    assert page is not None
    page._form.put(QuantizeOptions((Rule(Select("type", ("linear",)), {"weight": Integer(4, 2)}),)))  # type: ignore[attr-defined]
    page.apply()
    assert opened.session.document.recipe.steps[0].options.rules[0].formats["weight"] == Integer(4, 2)  # type: ignore[union-attr]
    assert page.isHidden()


def test_options_that_are_refused_stay_open_and_say_why(opened: Window) -> None:
    opened.actions_table.run("quantise")
    page = opened.findChild(OptionsWindow)
    assert page is not None
    page._form.put(QuantizeOptions((Rule(Select("type", ("conv2d",)), {"weight": Integer(4, 2)}),)))  # type: ignore[attr-defined]
    page.apply()
    assert page.isVisible() and "matches no node" in page._error.text()
    page.close()


def test_quantise_starts_with_the_selection(opened: Window) -> None:
    opened.session.select(("fc2",))
    opened.actions_table.run("quantise")
    page = opened.findChild(OptionsWindow)
    assert page and page._form.value().rules[0].select == Select("name", ("fc2",))  # type: ignore[attr-defined]
    page.close()


# -- jobs


def test_jobs_show_progress_and_outcome(opened: Window, runner: list[FakeRunner]) -> None:
    opened.session.evaluate("demo:digits")
    info = runner[0].waiting[0]
    runner[0].tell(info, Started())
    runner[0].tell(info, Progress(50, 200, "evaluating"))
    assert "evaluating · 50 of 200" in opened.status._text
    runner[0].tell(info, LogLine("hello"))
    runner[0].tell(info, Failed("Too large.", "Buy memory.", None, "Traceback"))
    panel = opened.docks.panels["jobs"]
    assert isinstance(panel, JobsPanel)
    assert panel._log.toPlainText() == "hello\nTraceback" and not opened.status._text
    assert opened.banner.text == "Too large. Buy memory."


@pytest.mark.parametrize(
    ("state", "progress", "text"),
    [
        ("waiting", None, "waits for the job before it"),
        ("running", Progress(0, 0, "opening"), "opening · 4.0\u2009s"),
        ("running", Progress(25, 100, "evaluating"), "evaluating · 25 of 100 · 12\u2009s left"),
    ],
)
def test_a_job_in_words(state: str, progress: Progress | None, text: str) -> None:
    info = JobInfo(1, "Job", None, state, progress, started=0.0)  # type: ignore[arg-type]
    assert status_text(info, 4.0) == text


# -- tables and problems


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
    assert tables._counts.text() == "No row holds “zzz”"


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
    panel._forget()
    assert opened.docks.docks["problems"].windowTitle() == "Problems"


# -- finding


def test_finding_by_keyboard_goes_to_a_node(opened: Window, qtbot: QtBot) -> None:
    opened.activateWindow()
    opened.actions_table.run("find")
    assert opened.finder.found.isVisible()
    qtbot.keyClicks(opened.finder, "fc2")
    qtbot.keyClick(opened.finder, Qt.Key.Key_Return)
    assert opened.session.selection == ("fc2",) and opened.finder.found.isHidden()


def test_finding_lists_commands_and_says_when_nothing_matches(opened: Window, qtbot: QtBot) -> None:
    assert entries(opened, "remove dropout")[0].title == "Remove dropout"
    assert entries(opened, "rmdrpt")[0].title == "Remove dropout"
    opened.finder.begin()
    qtbot.keyClicks(opened.finder, "zzzqq")
    opened.finder._search()
    assert "No match for “zzzqq”" in opened.finder.found.nothing.text()
    qtbot.keyClick(opened.finder, Qt.Key.Key_Escape)
    assert opened.finder.found.isHidden()


def test_disabled_commands_are_not_offered(window: Window) -> None:
    assert not [e for e in entries(window, "quantise") if e.title == "Quantise"]


# -- score


def test_score_shows_change_from_the_baseline(opened: Window) -> None:
    figures = opened.status.score.figures
    assert figures["accuracy"].text == "not measured yet" and figures["weight_bits"].text == "32.00 of 32"
    quantise(opened)
    assert figures["weight_bits"].text == "8.00 −24.00"
    assert figures["weight_bits"]._change.property("tone") == "good"


def test_live_measuring_evaluates_where_data_is_known(window: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    window.live._wait.setInterval(1)
    open_small(window, runner, small_project("demo:digits"))
    qtbot.waitUntil(lambda: bool(runner[0].waiting))
    assert isinstance(runner[0].waiting[0].job, AnalyseJob)
    runner[0].finish(Report("evaluate", (), {"accuracy": 0.9, "loss": 0.25}))
    assert window.status.score.figures["accuracy"].text == "90.0\u2009%"
    quantise(window)
    qtbot.waitUntil(lambda: bool(runner[0].waiting))
    quantise(window, 4)
    assert not runner[0].waiting  # the stale measurement was cancelled
    qtbot.waitUntil(lambda: bool(runner[0].waiting))


# -- welcome page and errors


def test_welcome_lists_demos_and_recent_files(qtbot: QtBot, settings: Settings, tmp_path: Path) -> None:
    settings.add_recent(str(tmp_path / "gone.espalier"))
    settings.add_recent("demo:digits")
    page = WelcomePage(settings)
    qtbot.addWidget(page)
    assert [c.spec for c in cards()] == ["demo:reviews", "demo:digits", "demo:digits-mlp"]
    assert all("held-out accuracy" in c.figures for c in cards())
    assert "gone.espalier is missing" in [label.text() for label in page.findChildren(QLabel)]
    with qtbot.waitSignal(page.open_wanted) as heard:
        qtbot.keyClick(page.findChildren(CardButton)[1], Qt.Key.Key_Return)
    assert heard.args == ["demo:digits"]


def test_a_bug_ends_in_a_report_and_a_banner(
    window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(errors, "data_folder", lambda name: tmp_path)
    errors._hook(ValueError, ValueError("odd"), None)
    assert "ValueError: odd" in window.banner.text
    assert "ValueError: odd" in next(tmp_path.glob("crash-*.txt")).read_text()
    assert "odd" in capsys.readouterr().err
