"""A panel that is created late shows the same as one that was there from the beginning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import (
    QAbstractListModel,
    QAbstractTableModel,
    QCoreApplication,
    QEvent,
    QModelIndex,
    QPoint,
    QSettings,
    Qt,
    QThreadPool,
)
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QTabBar,
    QWidget,
)
from pytestqt.qtbot import QtBot

from espalier.app.features.data.panel import DataPanel
from espalier.app.features.hardware.state.hardware import hardware_of
from espalier.app.features.jobs.state import job_list_of
from espalier.app.features.plots.panel import PlotsPanel
from espalier.app.features.search.state.searches import searches_of
from espalier.app.features.search.state.templates import beginning
from espalier.app.features.sweep.state import sweeps_of
from espalier.app.features.training.panel import TrainingPanel
from espalier.app.features.training.state import last_options
from espalier.app.measured.sensitivities import sensitivities_of
from espalier.app.session import session as session_module
from espalier.app.session.session import Session
from espalier.app.settings import Settings
from espalier.app.shell.docks import DOCKS
from espalier.app.shell.lazy_panels import AHEAD
from espalier.app.shell.window import Window
from espalier.app.widgets.style import Appearance
from espalier.model.errors import PassError
from espalier.model.formats.base import parse_format
from espalier.model.formats.integer import Integer
from espalier.passes.analysis.hardware import HardwareOptions
from espalier.passes.analysis.sensitivity import SensitivityOptions
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import Done, Failed, JobInfo, LogLine, Metric, PartialResult, Started, Stopped
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.sensitivity.table import Candidate, Sensitivity
from espalier.passes.sweep.example import example
from espalier.passes.transform.finetune import FinetuneOptions
from tests.gui.conftest import FakeRunner, Listener, open_small, small_project
from tests.gui.hardware.test_hardware_panel import report
from tests.gui.search.searching import feed, trial
from tests.gui.search.test_sweeps import outcomes
from tests.gui.training.test_training_panel import ended

pytestmark = pytest.mark.gui
PANELS = tuple(spec.id for spec in DOCKS)
SEEN_FIRST = {"outline", "recipe", "inspector"}  # in the workspace Graph, whose drawer is closed
LOOKED_UP = 1000  # milliseconds until fields of data have looked up what they name
TIMES = re.compile(r"\d\d:\d\d:\d\d|[\d.]+\s?(ms|s|min)\b")
CHOICES = tuple(Candidate(parse_format(f"integer(width={w}, frac_width={w - 1})")) for w in (8, 4))
ROWS = (
    Sensitivity("fc1", "weight", 64, CHOICES, (1e-5, 0.01), (1e-4, 1e-2), (None, None)),
    Sensitivity("fc2", "weight", 32, CHOICES, (2e-5, 0.03), (1e-4, 1e-2), (None, 0.05)),
)


class Story:
    """A document that is opened, measured, edited and trained, with jobs that run, end and fail."""

    def __init__(self, window: Window, runner: FakeRunner, folder: Path) -> None:
        self.window, self.session, self.runner, self.folder = window, window.session, runner, folder

    def begun(self) -> JobInfo:
        """The newest job, running."""
        info = self.runner.waiting[-1]
        self.runner.tell(info, Started())
        return info

    def quiet(self) -> None:
        """End what panels have asked for by themselves."""
        for info in list(self.runner.waiting):
            self.runner.tell(info, Stopped())

    def tell(self, runners: list[FakeRunner]) -> None:
        session = self.session
        self.window.live.enabled = False
        open_small(self.window, runners, small_project("demo:small"))
        self.quiet()
        session.select(("fc1",))
        session.report_ready.emit(Report("cost", ({"node": "fc1", "macs": 64}, {"node": "fc2", "macs": 32})))
        session.set_format(("fc1",), "weight", Integer(8, 4))
        session.evaluate(EvaluateOptions(data="mine.csv"))
        for _ in list(self.runner.waiting):
            self.runner.finish(Report("evaluate", (), {"accuracy": 0.9, "loss": 0.25, "n": 100}))
        self.measure()
        self.search()
        self.train()
        self.fail()

    def measure(self) -> None:
        """Sensitivities and a check of the hardware."""
        sensitivities_of(self.session).run(SensitivityOptions(data="some.csv"))
        info = self.begun()
        for row in ROWS:
            self.runner.tell(info, PartialResult(row))
        self.runner.tell(info, Done(Report("sensitivity", (), {"error_factor": 1.4})))
        hardware_of(self.session).start("check", HardwareOptions())
        self.runner.tell(self.begun(), Done(report(self.folder)))

    def search(self) -> None:
        """A sweep and a search, of which each has some results."""
        document = self.session.open_document
        sweep = example(document.recipe, document.graph, self.session.measured_on)
        sweeps_of(self.session).start(sweep)
        info = self.begun()
        for outcome in outcomes(sweep)[:2]:
            self.runner.tell(info, PartialResult(outcome))
        self.runner.tell(info, Stopped())
        searches_of(self.session).start(beginning(document.graph, self.session.measured_on))
        info = self.begun()
        feed([self.runner], info, [trial(n, 0.7 + n / 100) for n in range(4)])
        self.runner.tell(info, Stopped())

    def train(self) -> None:
        self.session.run_pass("finetune", FinetuneOptions(data="demo:digits"))
        info = self.begun()
        for step in (10, 20):
            self.runner.tell(info, Metric("training loss", step, 1 / step))
        self.runner.tell(info, LogLine("hello"))
        result, done = ended(info), len(self.session.open_document.recipe.active)
        self.runner.tell(info, Done(replace(result, results=(None,) * done + result.results)))

    def fail(self) -> None:
        """An edit and a job that fail, and an error."""
        self.session.set_sparsity(("fc1",), 0.4)
        self.runner.tell(self.begun(), Failed("Too sparse.", "Prune less."))
        self.session.evaluate(EvaluateOptions(data="mine.csv"))
        info = self.begun()
        self.runner.tell(info, Failed("Too large.", "Buy memory.", None, "Traceback"))
        self.quiet()
        self.session.problem.emit(PassError("fc2 is odd.", "Look.", "fc2"))


def settle() -> None:
    """Until the threads of previews have ended, and their results are shown."""
    for _ in range(5):
        QApplication.processEvents()
        QThreadPool.globalInstance().waitForDone()


def told(panel: QWidget) -> list[str]:
    """All that can be read in a panel, from top to bottom, with times left out."""
    found: list[tuple[int, int, str]] = []
    for widget in panel.findChildren(QWidget):
        if widget.isVisibleTo(panel) and (text := words(widget)):
            at = widget.mapTo(panel, QPoint())
            found.append((at.y(), at.x(), f"{type(widget).__name__}: {TIMES.sub('…', text)}"))
    return [text for _, _, text in sorted(found)]


def words(widget: QWidget) -> str:
    match widget:
        case QLabel() | QAbstractButton():
            mark = " ✓" if isinstance(widget, QAbstractButton) and widget.isChecked() else ""
            return f"{widget.text()}{mark}"
        case QLineEdit():
            return widget.text()
        case QComboBox():
            return widget.currentText()
        case QPlainTextEdit():
            return widget.toPlainText()
        case QTabBar():
            return " | ".join(widget.tabText(i) for i in range(widget.count()))
        case QAbstractItemView() if widget.model() is not None:
            return "\n".join(rows(widget, QModelIndex()))
        case _:
            text = getattr(widget, "_text", "")
            return text if isinstance(text, str) else ""


def rows(view: QAbstractItemView, parent: QModelIndex) -> Iterator[str]:
    model = view.model()
    columns = 1 if isinstance(model, QAbstractListModel) else model.columnCount(parent)
    for row in range(model.rowCount(parent)):
        cells = [model.index(row, c, parent) for c in range(columns)]
        yield " · ".join(str(model.data(cell, Qt.ItemDataRole.DisplayRole)) for cell in cells)
        if not isinstance(model, QAbstractListModel | QAbstractTableModel):
            yield from rows(view, cells[0])


def watched(appearance: Appearance, folder: Path, early: bool) -> dict[str, list[str]]:
    """What each panel shows after the story, in a window of which all panels exist before it, or after it."""
    folder.mkdir()
    made: list[FakeRunner] = []

    def make(listener: Listener, _: object) -> FakeRunner:
        made.append(FakeRunner(listener))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_module, "JobRouter", make)
        patch.setattr(last_options, "data_folder", lambda name: folder)
        patch.setenv("ESPALIER_STATE", str(folder / "state"))
        settings = Settings(QSettings(str(folder / "settings.ini"), QSettings.Format.IniFormat))
        window = Window(Session(), settings, appearance)
        window.resize(1280, 800)
        window.show()
        try:
            return observed(window, made, folder, early)
        finally:
            window.close_now()
            window.session.deleteLater()
            window.deleteLater()
            QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def observed(window: Window, runners: list[FakeRunner], folder: Path, early: bool) -> dict[str, list[str]]:
    window.build_panels()
    if early:
        assert all(window.docks.panels[name] for name in PANELS)
    else:
        assert not window.docks.panels
    story = Story(window, runners[-1], folder)
    story.tell(runners)
    window._lazy_panels.stop()  # nothing is created ahead
    if not early:
        # The first metric of a training brings the panel Plots.
        assert set(window.docks.panels) == {*SEEN_FIRST, "plots"}
    assert all(window.docks.panels[name] for name in PANELS)
    QTest.qWait(LOOKED_UP)
    shown: dict[str, list[str]] = {}
    for name in PANELS:
        window.show_dock(name)
        settle()
        story.quiet()
        settle()
        shown[name] = [window.docks.docks[name].windowTitle(), *told(window.docks.panels[name])]
    return shown


@pytest.fixture(scope="module")
def both(
    qapp: QApplication, worn: list[Appearance], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """What panels show that were created before and after the story."""
    folder, appearance = tmp_path_factory.mktemp("late"), Appearance(qapp, "light")
    worn.append(appearance)
    return watched(appearance, folder / "early", early=True), watched(appearance, folder / "late", early=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", PANELS)
def test_a_late_panel_shows_the_same(name: str, both: tuple[dict[str, list[str]], dict[str, list[str]]]) -> None:
    early, late = (shown[name] for shown in both)
    assert len(early) > 1, "the panel is not empty"
    assert late == early


@pytest.mark.slow
def test_the_story_is_told(both: tuple[dict[str, list[str]], dict[str, list[str]]]) -> None:
    """What the panels compare is there at all."""
    late = {name: "\n".join(texts) for name, texts in both[1].items()}
    assert "Too large." in late["log"] and "Traceback" in late["log"] and "weight → int" in late["log"]
    assert "Too large." in late["jobs"] and "hello" not in late["jobs"], "the log is that of the job that failed last"
    assert late["problems"].startswith("Problems 2") or "fc2 is odd." in late["problems"]
    assert "Too sparse." in late["recipe"] and "set_format" not in late["recipe"]
    assert "of an earlier state" in late["tables"]
    assert "demo:small" in late["data"] and "mine.csv" not in late["data"], "the data that the model was opened with"
    assert "validation accuracy 92.5" in late["training"]
    assert "m = es.open(" in late["console"]


def test_plots_that_are_created_late_draw_the_same(opened: Window, runner: list[FakeRunner]) -> None:
    early = opened.docks.panels["plots"]
    story = Story(opened, runner[-1], Path())
    story.quiet()
    story.train()
    story.train()
    assert isinstance(early, PlotsPanel)
    early.refresh()
    late = PlotsPanel(opened.session)
    assert list(late.charts) == list(early.charts) == ["loss"] and late.run is early.run
    assert len(late.others.actions()) == len(early.others.actions()) == 1
    late.deleteLater()


def test_a_running_training_is_followed_by_a_late_panel(opened: Window, runner: list[FakeRunner]) -> None:
    story = Story(opened, runner[-1], Path())
    story.quiet()
    opened.session.run_pass("finetune", FinetuneOptions(data="demo:digits"))
    info = story.begun()
    assert "training" not in opened.docks.panels
    panel = opened.docks.panels["training"]
    assert isinstance(panel, TrainingPanel)
    assert panel.run.job is info and not panel.run.isHidden() and panel.train.isHidden()
    runner[-1].tell(info, Failed("No memory is left.", "Use smaller batches."))
    assert panel.run.isHidden() and not panel.train.isHidden()
    assert panel.error.text() == "No memory is left. Use smaller batches." and not panel.error.isHidden()


def test_panels_are_created_where_they_are_seen(opened: Window, qtbot: QtBot) -> None:
    panels = opened.docks.panels
    opened._lazy_panels.stop()  # nothing is created ahead
    assert set(panels) == SEEN_FIRST
    opened.pages.workbench.show_drawer(True)
    QApplication.processEvents()
    assert set(panels) == {*SEEN_FIRST, "nodes"}
    opened.docks.docks["log"].raise_()
    qtbot.waitUntil(lambda: "log" in panels)
    assert panels["log"].isVisible() and panels["nodes"].isHidden()
    opened.docks.docks["sweeps"].setFloating(True)
    qtbot.waitUntil(lambda: "sweeps" in panels)
    assert panels["sweeps"].isVisible()
    opened.pages.workbench.show_workspace("data")
    QApplication.processEvents()
    data = panels["data"]
    assert isinstance(data, DataPanel) and data.isVisible() and data._looked_at
    assert set(panels) == {*SEEN_FIRST, "nodes", "log", "sweeps", "data"}
    for name in ("search_pause", "kernels_stop"):
        if name in opened.actions_table.actions:
            opened.actions_table.refresh()
    assert "search" not in panels and "kernels" not in panels, "asking for actions creates no panel"


def test_large_panels_are_created_when_nothing_else_happens(window: Window) -> None:
    window._lazy_panels.start(0)
    while window._lazy_panels.busy:
        window._lazy_panels.build_part()
    assert set(window.docks.panels) == set(AHEAD)
    window.hide()
    window.docks.panels.clear()
    window._lazy_panels.build_part()
    assert not window.docks.panels and not window._lazy_panels.busy, "a window that was closed creates nothing"


def test_the_state_of_jobs_is_told_without_a_panel(opened: Window, runner: list[FakeRunner]) -> None:
    opened.session.evaluate(EvaluateOptions(data="demo:digits"))
    runner[-1].tell(runner[-1].waiting[-1], Started())
    assert "Evaluate" in opened.status._text and "jobs" not in opened.docks.panels
    opened.session.problem.emit(PassError("fc2 is odd.", "Look.", "fc2"))
    assert opened.docks.docks["problems"].windowTitle() == "Problems 1" and "problems" not in opened.docks.panels
    assert len(job_list_of(opened.session).entries) == 2
