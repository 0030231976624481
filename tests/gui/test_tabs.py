"""Several documents in the tabs of one window: what a user can do with them, and what each keeps to itself."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, QRect, QSettings, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMessageBox
from pytestqt.qtbot import QtBot

from espalier.app.session.session import Session
from espalier.app.settings import Settings
from espalier.app.shell.tabs import Tabs
from espalier.app.shell.window import Window
from espalier.app.widgets.style import Appearance
from espalier.passes.jobs.kinds import Failed, OpenJob, OpenResult, PluginJob, Started, SweepJob
from espalier.passes.recipes.offered import PluginState
from tests.gui.conftest import FakeRunner, small_project

pytestmark = pytest.mark.gui


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims, journals and decisions of its own."""
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))


def make(appearance: Appearance, settings: Settings) -> Tabs:
    made = Tabs(lambda: Window(Session(), settings, appearance), settings, lambda window: None)
    made.add("")
    made.resize(1280, 800)
    made.show()
    return made


@pytest.fixture
def tabs(qtbot: QtBot, appearance: Appearance, runner: list[FakeRunner], settings: Settings) -> Iterator[Tabs]:
    """The window of the program with an empty tab."""
    made = make(appearance, settings)
    yield made
    for window in made.windows:
        window.close_now()
        window.session.deleteLater()
    made.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def load(tabs: Tabs, runner: list[FakeRunner]) -> Window:
    """Answer the opening of the tab in front as the worker would."""
    mine = next(r for r in runner if any(isinstance(j.job, OpenJob) for j in r.waiting))
    mine.finish(OpenResult(small_project(), {}, (), {}))
    assert tabs.current.session.document is not None
    return tabs.current


def open_in(tabs: Tabs, runner: list[FakeRunner], spec: str = "demo:small") -> Window:
    tabs.current.services.opening.open_spec(spec)
    return load(tabs, runner)


def remove_dropout(window: Window) -> None:
    window.actions_table.run("remove_dropout")


def texts(tabs: Tabs) -> list[str]:
    return [tabs.bar.tabText(i) for i in range(tabs.bar.count())]


def close(tabs: Tabs, index: int) -> None:
    tabs.bar.close_button(index).click()


def answer(button: QMessageBox.StandardButton) -> None:
    box = next(w for w in QApplication.topLevelWidgets() if isinstance(w, QMessageBox) and w.isVisible())
    box.button(button).click()
    QApplication.processEvents()


@pytest.mark.slow
def test_one_document_has_no_tabs(tabs: Tabs, runner: list[FakeRunner]) -> None:
    first = open_in(tabs, runner)
    assert tabs.count == 1 and not tabs.bar.isVisible() and first.isVisible()
    assert tabs.windowTitle() == "Small[*] — Espalier"
    remove_dropout(first)
    assert tabs.isWindowModified()


@pytest.mark.slow
def test_a_second_document_opens_in_a_tab_and_both_are_edited_apart(tabs: Tabs, runner: list[FakeRunner]) -> None:
    first = open_in(tabs, runner)
    remove_dropout(first)
    second = open_in(tabs, runner, "demo:other")
    assert first is not second and tabs.count == 2 and tabs.bar.isVisible()
    assert texts(tabs) == ["Small*", "Small"] and not first.isVisible() and second.isVisible()
    assert len(first.session.open_document.recipe) == 1 and len(second.session.open_document.recipe) == 0
    assert second.session.open_document.dirty is False and not tabs.isWindowModified()
    tabs.bar.setCurrentIndex(0)
    assert tabs.current is first and tabs.isWindowModified()
    first.actions_table.run("undo")
    assert texts(tabs) == ["Small", "Small"] and len(first.session.open_document.recipe) == 0


@pytest.mark.slow
def test_a_tour_that_begins_in_a_tab_behind_points_at_its_parts_later(
    tabs: Tabs, runner: list[FakeRunner], qtbot: QtBot, qtlog: Any
) -> None:
    first = tabs.current
    first.actions_table.run("tour")  # opens a demo first
    tabs.new()
    load_first = next(r for r in runner if any(isinstance(j.job, OpenJob) for j in r.waiting))
    load_first.finish(OpenResult(small_project(), {}, (), {}))
    assert first.services.tour.index == 0 and not first.isVisible()
    assert not [r.message for r in qtlog.records if "mapTo" in r.message]
    tabs.bar.setCurrentIndex(0)
    QApplication.processEvents()
    frame, canvas = first.services.tour.frame, first.canvas
    assert frame is not None and frame.isVisible() and canvas.isVisible()
    place = QRect(canvas.mapTo(first, QPoint()), canvas.size())
    assert place.contains(frame.geometry()) and frame.width() > place.width() / 2


def test_keys_open_choose_and_close_tabs(tabs: Tabs, runner: list[FakeRunner], qtbot: QtBot) -> None:
    first = open_in(tabs, runner)
    tabs.activateWindow()
    QTest.keyClick(first, Qt.Key.Key_T, Qt.KeyboardModifier.ControlModifier)
    assert tabs.count == 2 and tabs.current is not first and texts(tabs) == ["Small", "New tab"]
    assert tabs.focusWidget() is tabs.current.pages.welcome.spec, "a name can be typed at once"
    second = tabs.current
    QTest.keyClick(second, Qt.Key.Key_PageDown, Qt.KeyboardModifier.ControlModifier)
    assert tabs.current is first, "it begins again at the left"
    QTest.keyClick(first, Qt.Key.Key_PageUp, Qt.KeyboardModifier.ControlModifier)
    assert tabs.current is second
    QTest.keyClick(second, Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: not tabs._ending.windows)
    assert tabs.count == 1 and tabs.current is first and not tabs.bar.isVisible()
    QTest.keyClick(first, Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    assert tabs.count == 1 and first.session.document is None, "the last tab stays, empty"


@pytest.mark.slow
def test_an_empty_tab_is_used_and_a_loading_one_is_not(tabs: Tabs, runner: list[FakeRunner]) -> None:
    tabs.new()
    tabs.current.services.opening.open_spec("demo:small")
    assert tabs.count == 2
    tabs.current.services.opening.open_spec("demo:other")
    assert tabs.count == 3 and [r.waiting[0].job.spec for r in runner[1:]] == ["demo:small", "demo:other"]


@pytest.mark.slow
def test_an_open_project_comes_to_the_front(tabs: Tabs, runner: list[FakeRunner], tmp_path: Path) -> None:
    first = open_in(tabs, runner)
    first.session.open_document.path = (tmp_path / "p.espalier").resolve()
    open_in(tabs, runner)
    tabs.current.services.opening.open_spec(str(tmp_path / "p.espalier"))
    assert tabs.count == 2 and tabs.current is first
    tabs.current.services.opening.open_spec(str(tmp_path / "q.espalier"))
    assert tabs.count == 3


@pytest.mark.slow
def test_a_changed_tab_asks_before_it_closes(tabs: Tabs, runner: list[FakeRunner], qtbot: QtBot) -> None:
    first = open_in(tabs, runner)
    second = open_in(tabs, runner, "demo:other")
    remove_dropout(first)
    close(tabs, 0)
    assert tabs.current is first, "the one that asks is shown"
    answer(QMessageBox.StandardButton.Cancel)
    assert tabs.count == 2 and first.session.document is not None
    close(tabs, 0)
    answer(QMessageBox.StandardButton.Discard)
    qtbot.waitUntil(lambda: not tabs._ending.windows)
    assert tabs.count == 1 and tabs.current is second


def test_closing_all_asks_for_each_changed_tab_and_cancel_keeps_all(tabs: Tabs, runner: list[FakeRunner]) -> None:
    first = open_in(tabs, runner)
    second = open_in(tabs, runner, "demo:other")
    for window in (first, second):
        remove_dropout(window)
    tabs.close()
    assert tabs.current is first and tabs.isVisible()
    answer(QMessageBox.StandardButton.Discard)
    assert tabs.current is second and tabs.isVisible()
    answer(QMessageBox.StandardButton.Cancel)
    assert tabs.isVisible() and tabs.count == 2 and first.session.document is not None
    tabs.close()
    assert tabs.current is first, "what was discarded then is asked again"
    answer(QMessageBox.StandardButton.Discard)
    answer(QMessageBox.StandardButton.Discard)
    assert not tabs.isVisible()


def test_jobs_of_a_closed_tab_end_before_its_window(tabs: Tabs, runner: list[FakeRunner], qtbot: QtBot) -> None:
    first = open_in(tabs, runner)
    open_in(tabs, runner, "demo:other")
    first.session.evaluate()
    info = first.session.jobs[-1]
    runner[0].tell(info, Started())
    close(tabs, 0)
    qtbot.waitUntil(lambda: not tabs._ending.windows)
    assert info.state == "stopped" and tabs.count == 1


def test_a_tab_tells_that_a_long_job_runs(tabs: Tabs, runner: list[FakeRunner]) -> None:
    first = open_in(tabs, runner)
    open_in(tabs, runner, "demo:other")
    assert "running" not in tabs.bar.tabToolTip(0)
    sweep = SweepJob(None, first.session.open_document.graph, {}, Path(), None)  # type: ignore[arg-type]
    job = first.session.submit("Sweep", sweep, lambda _: None)
    assert "a job is running" in tabs.bar.tabToolTip(0) and "running" not in tabs.bar.tabToolTip(1)
    runner[0].tell(job, Failed("no"))
    assert "running" not in tabs.bar.tabToolTip(0)


@pytest.mark.slow
def test_tabs_can_be_moved(tabs: Tabs, runner: list[FakeRunner]) -> None:
    first = open_in(tabs, runner)
    remove_dropout(first)
    open_in(tabs, runner, "demo:other")
    tabs.bar.moveTab(0, 1)
    assert texts(tabs) == ["Small", "Small*"]
    tabs.bar.setCurrentIndex(1)
    assert tabs.current is first


@pytest.mark.slow
def test_the_middle_button_closes_a_tab(tabs: Tabs, runner: list[FakeRunner], qtbot: QtBot) -> None:
    open_in(tabs, runner)
    tabs.new()
    QTest.mouseClick(tabs.bar, Qt.MouseButton.MiddleButton, pos=tabs.bar.tabRect(1).center())
    qtbot.waitUntil(lambda: not tabs._ending.windows)
    assert tabs.count == 1


@pytest.mark.slow
def test_a_closed_window_has_ended_everything(tabs: Tabs, runner: list[FakeRunner], settings: Settings) -> None:
    """Qt drops a close within a close: the sessions were not ended where nothing was unsaved."""
    first = open_in(tabs, runner)
    open_in(tabs, runner, "demo:other")
    ended = list[int]()
    first.session.ending.connect(lambda: ended.append(1))
    first.actions_table.run("quit")
    assert not tabs.isVisible() and ended == [1] and settings.session[0] == ["demo:small", "demo:other"]
    assert settings.layout() is not None


def test_edits_after_a_cancelled_close_are_asked_for_again(tabs: Tabs, runner: list[FakeRunner]) -> None:
    first = open_in(tabs, runner)
    remove_dropout(first)
    tabs.close()
    answer(QMessageBox.StandardButton.Cancel)
    tabs.close()
    assert tabs.isVisible()
    answer(QMessageBox.StandardButton.Discard)
    assert not tabs.isVisible()


@pytest.mark.slow
def test_closed_tabs_leave_nothing(tabs: Tabs, runner: list[FakeRunner], qtbot: QtBot) -> None:
    open_in(tabs, runner)
    open_in(tabs, runner, "demo:other")
    closed = [weakref.ref(tabs.current), weakref.ref(tabs.current.session)]
    tabs.close_current()
    qtbot.waitUntil(lambda: not tabs._ending.windows)

    def gone() -> bool:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        gc.collect()
        return not any(reference() for reference in closed)

    qtbot.waitUntil(gone)


@pytest.mark.slow
def test_a_closed_tab_measures_no_more(tabs: Tabs, runner: list[FakeRunner], qtbot: QtBot) -> None:
    """An evaluation that was about to start ran in the folder of a document that was gone."""
    first = open_in(tabs, runner)
    open_in(tabs, runner, "demo:other")
    remove_dropout(first)
    assert first.live._timer.isActive()
    close(tabs, 0)
    answer(QMessageBox.StandardButton.Discard)
    qtbot.waitUntil(lambda: not tabs._ending.windows)
    qtbot.wait(1500)
    assert not runner[0].waiting


@pytest.mark.slow
def test_plugins_are_loaded_once_and_followed_by_all_tabs(
    qtbot: QtBot, appearance: Appearance, runner: list[FakeRunner], settings: Settings, tmp_path: Path
) -> None:
    settings.plugins = (str(tmp_path / "mine.py"),)
    (tmp_path / "mine.py").write_text("")
    made = Tabs(lambda: Window(Session(), settings, appearance), settings, lambda window: window.plugins.start())
    made.add("")
    made.show()
    loading = [j for r in runner for j in r.waiting if isinstance(j.job, PluginJob)]
    assert len(loading) == 1
    state = PluginState(str(tmp_path / "mine.py"))
    runner[0].finish((state,))
    first = made.current
    made.new()
    second = made.current
    assert second.plugins.states is first.plugins.states and not runner[1].waiting
    second.plugins.load()
    runner[1].finish((PluginState(str(tmp_path / "mine.py"), error="no", hint="Mend it."),))
    assert first.plugins.states is second.plugins.states and first.plugins.states[0].error == "no"
    second.plugins.load()
    made.close_current()
    qtbot.waitUntil(lambda: not made._ending.windows)
    assert first.plugins.states[0].error == "no", "a load that was stopped with its tab changes nothing"
    for window in made.windows:
        window.close_now()
        window.session.deleteLater()
    made.deleteLater()


@pytest.mark.slow
def test_a_project_that_is_open_elsewhere_comes_to_the_front_from_an_empty_tab(
    tabs: Tabs, runner: list[FakeRunner], tmp_path: Path, qtbot: QtBot
) -> None:
    first = open_in(tabs, runner)
    first.session.open_document.path = (tmp_path / "p.espalier").resolve()
    tabs.new()
    tabs.current.services.opening.open_spec(str(tmp_path / "p.espalier"))
    assert tabs.current is first
    qtbot.waitUntil(lambda: tabs.count == 1)  # the empty one goes
    tabs.new()
    tabs.current.services.opening.open_spec(str(tmp_path / "q.espalier"))
    tabs.new()
    tabs.current.services.opening.open_spec(str(tmp_path / "q.espalier"))
    assert tabs.bar.currentIndex() == 1, "also while it is loading"
    qtbot.waitUntil(lambda: tabs.count == 2)


@pytest.mark.slow
def test_floating_panels_of_a_tab_behind_stay_hidden(tabs: Tabs, runner: list[FakeRunner]) -> None:
    first = open_in(tabs, runner)
    dock, other = first.docks.docks["outline"], first.docks.docks["recipe"]
    for one in (dock, other):
        one.setFloating(True)
        one.show()
    other.close()
    tabs.new()
    first.show_page()
    assert not dock.isVisible() and not other.isVisible()
    tabs.bar.setCurrentIndex(0)
    assert dock.isVisible() and not other.isVisible(), "a panel that the user closed stays closed"


@pytest.mark.slow
def test_floating_panels_go_with_their_tab(tabs: Tabs, runner: list[FakeRunner]) -> None:
    first = open_in(tabs, runner)
    dock = first.docks.docks["outline"]
    dock.setFloating(True)
    dock.show()
    tabs.new()
    assert not dock.isVisible()
    tabs.bar.setCurrentIndex(0)
    assert dock.isVisible()


@pytest.mark.slow
def test_the_tabs_of_the_last_session_come_back_when_chosen(
    qtbot: QtBot, appearance: Appearance, runner: list[FakeRunner], settings: Settings, tabs: Tabs, tmp_path: Path
) -> None:
    for spec in ("demo:small", "demo:digits", "demo:jet"):
        open_in(tabs, runner, spec)
    tabs.bar.setCurrentIndex(1)
    assert tabs.close()
    assert settings.session == (["demo:small", "demo:digits", "demo:jet"], 1)
    runner.clear()
    again = make(appearance, settings)
    reopening = again.current.services.reopening
    assert reopening.title() == "Reopen the last session: 3 tabs" and reopening.available()
    reopening.reopen()
    assert texts(again) == ["demo:small", "demo:digits", "demo:jet"] and again.bar.currentIndex() == 1
    assert [j.job.spec for r in runner for j in r.waiting] == ["demo:digits"], "the others wait until they are chosen"
    load(again, runner)
    again.bar.setCurrentIndex(2)
    assert [j.job.spec for r in runner for j in r.waiting] == ["demo:jet"]
    assert len(again.windows) == 2
    code = tmp_path / "net.py"
    code.write_text("raise SystemExit\n")
    again.add(f"{code}:make", restored=True)
    again.bar.setCurrentIndex(3)
    assert "net.py" in again.current.banner.text and not runner[-1].waiting, "code of the last session runs unasked"
    for window in again.windows:
        window.close_now()
        window.session.deleteLater()
    again.deleteLater()


@pytest.mark.parametrize("text", ["", "x", "[]", '{"sources": 3}', '{"sources": ["a"], "current": 9}'])
def test_a_damaged_list_of_tabs_is_no_error(tmp_path: Path, text: str) -> None:
    store = QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat)
    store.setValue("session", text)
    sources, current = Settings(store).session
    assert current == 0 and sources in ([], ["a"])


@pytest.mark.slow
def test_tabs_and_their_buttons_have_names(tabs: Tabs, runner: list[FakeRunner]) -> None:
    open_in(tabs, runner)
    tabs.new()
    buttons = [tabs.bar.close_button(i) for i in range(2)]
    assert tabs.bar.accessibleName() == "Open documents"
    assert [b.accessibleName() for b in buttons] == ["Close Small", "Close New tab"]
