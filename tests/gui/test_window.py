"""The window: pages, title, docks, dropping, closing with unsaved edits."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QDockWidget, QFileDialog, QLineEdit, QMessageBox
from pytestqt.qtbot import QtBot

from espalier.app.session.session import Session
from espalier.app.shell.window import Window
from espalier.app.theme import PALETTES, Palette, rgb
from espalier.app.widgets.style import sheet
from espalier.model.document.project import Saved
from espalier.model.errors import PassError
from espalier.passes.base import Report
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.jobs.kinds import Done, Failed, LogLine, OpenJob, Progress, ReplayJob, SaveJob, Started, Stopped
from espalier.passes.running.splits import EvaluateOptions
from tests.gui.conftest import FakeRunner, open_small

pytestmark = pytest.mark.gui


def remove_dropout(window: Window) -> None:
    window.actions_table.run("remove_dropout")


def test_starts_on_the_welcome_page_without_docks(window: Window) -> None:
    assert window.pages.currentWidget() is window.pages.welcome
    assert not any(d.isVisible() for d in window.docks.docks.values())
    assert window.windowTitle() == "Espalier"


def test_first_paint_does_not_wait_for_the_panels(window: Window) -> None:
    fresh = Window(window.session, window.settings, window.appearance)
    assert not fresh.panels_built and not fresh.graph_view.is_built
    fresh.deleteLater()


@pytest.mark.slow
def test_no_panel_shows_on_the_welcome_page_while_the_window_is_furnished(window: Window) -> None:
    fresh = Window(window.session, window.settings, window.appearance)
    fresh.show()
    while not fresh.panels_built:
        fresh._lazy_panels.build_part()
        assert not [d.objectName() for d in fresh.findChildren(QDockWidget) if d.isVisible()]
    assert set(fresh.docks.docks) == set(window.docks.docks)
    fresh.deleteLater()


def test_panels_hear_of_a_model_that_comes_before_they_are_made(
    window: Window, runner: list[FakeRunner], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[object] = []
    monkeypatch.setattr("espalier.app.features.search.state.searches.Searches._read", lambda self: heard.append(self))
    fresh = Window(Session(), window.settings, window.appearance)
    assert not fresh.panels_built
    open_small(fresh, runner)
    assert fresh.session.document and len(heard) == 1  # else studies of the project would not be listed
    fresh.close_now()
    fresh.session.deleteLater()
    fresh.deleteLater()


@pytest.mark.slow
def test_a_panel_that_cannot_be_made_is_tried_once(
    window: Window, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    tries: list[int] = []
    monkeypatch.setattr("espalier.app.shell.lazy_panels.LazyPanels.build_next", lambda self: tries.append(1) or 1 / 0)
    fresh = Window(window.session, window.settings, window.appearance)
    assert not fresh.pages.workbench.isVisible() and not fresh.canvas.isVisible()
    with qtbot.captureExceptions() as raised:
        fresh.show()
        qtbot.waitUntil(lambda: bool(tries), timeout=60_000)
        qtbot.wait(200)
    assert len(raised) == len(tries) == 1
    fresh.deleteLater()


def test_opening_shows_progress_then_the_graph(window: Window, runner: list[FakeRunner]) -> None:
    window.begin_opening("demo:small")
    assert window.pages.currentWidget() is window.pages.loading
    runner[0].tell(runner[0].waiting[0], Started())
    runner[0].tell(runner[0].waiting[0], Progress(0, 0, "capturing"))
    assert window.pages.loading._text.text() == "capturing"
    runner[0].waiting.clear()
    open_small(window, runner)
    assert window.pages.currentWidget() is window.pages.workbench and window.canvas.isVisible()
    assert window.canvas.graph is window.session.document.graph  # type: ignore[union-attr]
    assert all(d.isVisible() for n, d in window.docks.docks.items() if n in ("outline", "recipe", "inspector"))
    assert window.settings.recent == ["demo:small"]


def test_a_failed_opening_returns_to_the_welcome_page_and_says_why(window: Window, runner: list[FakeRunner]) -> None:
    window.begin_opening("nothing")
    info = runner[0].waiting[0]
    runner[0].tell(info, Started())
    runner[0].tell(info, Failed("There is no 'nothing'.", "Give a folder."))
    assert window.pages.currentWidget() is window.pages.welcome
    assert window.banner.text == "There is no 'nothing'. Give a folder."


def test_cancelling_the_opening(window: Window, qtbot: QtBot) -> None:
    window.begin_opening("demo:small")
    window.pages.loading.cancelled.emit()
    assert window.pages.currentWidget() is window.pages.welcome and not window.banner.text


@pytest.mark.slow
def test_title_follows_the_edits(opened: Window) -> None:
    assert opened.windowTitle() == "Small[*] — Espalier" and not opened.isWindowModified()
    remove_dropout(opened)
    assert opened.isWindowModified() and opened.title.text() == "Small*"
    opened.actions_table.run("undo")
    assert not opened.isWindowModified()


@pytest.mark.slow
def test_undo_and_redo_say_what_they_do(opened: Window) -> None:
    actions = opened.actions_table.actions
    assert not actions["undo"].isEnabled()
    remove_dropout(opened)
    assert actions["undo"].text() == "Undo Remove dropout" and actions["undo"].iconText() == "Undo"
    opened.actions_table.run("undo")
    assert actions["redo"].text() == "Redo Remove dropout"


@pytest.mark.slow
def test_every_enabled_action_runs(opened: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("espalier.app.errors.QDesktopServices.openUrl", lambda url: True)
    for row in opened.actions_table.rows:
        if row.id not in ("quit", "close"):
            opened.actions_table.run(row.id)
    for dialog in opened.findChildren(QFileDialog):
        dialog.close()
    assert opened.session.document


def test_shortcuts_are_unique(window: Window) -> None:
    keys = [k.toString() for a in window.actions_table.actions.values() for k in a.shortcuts()]
    assert len(keys) == len(set(keys))


def test_selection_goes_both_ways(opened: Window) -> None:
    opened.session.select(("fc1",))
    assert opened.canvas.selection() == ("fc1",)
    opened.canvas.select(("fc2",))
    assert opened.session.selection == ("fc2",)


@pytest.mark.slow
def test_problem_with_a_node_leads_to_it(opened: Window) -> None:
    opened.session.problem.emit(PassError("fc2 is odd.", "Look.", "fc2"))
    opened.banner.show_node.emit("fc2")
    assert opened.session.selection == ("fc2",)


def evaluated(window: Window, runner: list[FakeRunner], **told: str) -> str:
    window.session.evaluate(EvaluateOptions(data="mine.csv"))
    runner[0].finish(Report("evaluate", (), {"accuracy": 0.0, "loss": 3.0, **told}))
    return window.banner.text


@pytest.mark.slow
def test_data_that_do_not_fit_are_told_once(opened: Window, runner: list[FakeRunner]) -> None:
    strange = "The data's labels are not the model's."
    assert evaluated(opened, runner, warning=strange) == strange
    opened.banner.hide()
    assert evaluated(opened, runner, warning=strange) == ""  # as after each edit
    assert evaluated(opened, runner, warning="Another one.") == "Another one."
    assert evaluated(opened, runner) == ""  # it holds no more


def drop(window: Window, path: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    buttons, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    window.dropEvent(QDropEvent(QPoint(5, 5), Qt.DropAction.CopyAction, data, buttons, keys))


def test_a_dropped_folder_is_opened(window: Window, runner: list[FakeRunner], tmp_path: Path) -> None:
    drop(window, tmp_path)
    job = runner[0].waiting[0].job
    assert isinstance(job, OpenJob) and job.spec == str(tmp_path)


def ask(window: Window, button: QMessageBox.StandardButton) -> None:
    window.close()
    box = window.findChild(QMessageBox)
    assert isinstance(box, QMessageBox) and window.isVisible()
    box.button(button).click()


def test_closing_asks_about_unsaved_edits(opened: Window) -> None:
    remove_dropout(opened)
    ask(opened, QMessageBox.StandardButton.Cancel)
    assert opened.isVisible()


def test_discarding_closes(opened: Window) -> None:
    remove_dropout(opened)
    ask(opened, QMessageBox.StandardButton.Discard)
    assert not opened.isVisible()


@pytest.mark.slow
def test_saving_first_closes_when_it_is_saved(opened: Window, runner: list[FakeRunner], tmp_path: Path) -> None:
    remove_dropout(opened)
    opened.session.document.path = tmp_path / "a.espalier"  # type: ignore[union-attr]
    ask(opened, QMessageBox.StandardButton.Save)
    save = next(j for j in runner[0].waiting if isinstance(j.job, SaveJob))
    runner[0].tell(save, LogLine("writing"))
    assert opened.isVisible()
    runner[0].tell(save, Done(Saved()))
    assert not opened.isVisible()


@pytest.mark.slow
def test_a_save_that_failed_closes_nothing_later(opened: Window, runner: list[FakeRunner], tmp_path: Path) -> None:
    """The disk was full as the window was to be closed; its user went on, made room and saved."""
    remove_dropout(opened)
    opened.session.document.path = tmp_path / "a.espalier"  # type: ignore[union-attr]
    ask(opened, QMessageBox.StandardButton.Save)
    for end in (Failed("The disk is full.", "Free some space."), Done(Saved())):
        runner[0].tell(next(j for j in runner[0].waiting if isinstance(j.job, SaveJob)), end)
        assert opened.isVisible()
        opened.session.save()


def test_closing_asks_about_what_the_worker_has_not_done(opened: Window, runner: list[FakeRunner]) -> None:
    """A training of an hour is an edit too; that nothing else is unsaved does not make it worth less."""
    opened.session.run_pass("prune", PruneOptions(0.5))
    opened.close()
    box = opened.findChild(QMessageBox)
    assert isinstance(box, QMessageBox) and opened.isVisible() and "Prune" in box.informativeText()
    assert box.button(QMessageBox.StandardButton.Save) is None
    box.button(QMessageBox.StandardButton.Cancel).click()
    assert opened.isVisible() and opened.session.pending_edits
    runner[0].tell(next(j for j in runner[0].waiting if isinstance(j.job, ReplayJob)), Stopped())
    assert not opened.session.pending_edits
    opened.close()
    assert not opened.isVisible()


@pytest.mark.slow
def test_docks_are_remembered(opened: Window) -> None:
    opened.docks.docks["outline"].close()
    opened.close_now()
    again = Window(opened.session, opened.settings, opened.appearance)
    again.show()
    again.build_panels()
    assert again.docks.docks["outline"].isHidden() and not again.docks.docks["recipe"].isHidden()
    again.hide()
    again.deleteLater()


@pytest.mark.slow
def test_theme_changes_at_once(opened: Window) -> None:
    opened.actions_table.run("theme_dark")
    assert opened.appearance.palette.dark and opened.settings.mode == "dark"
    assert opened.canvas.tokens.dark
    opened.actions_table.run("theme_light")


@pytest.mark.parametrize("palette", PALETTES.values(), ids=lambda p: p.name)
def test_the_style_sheet_is_complete(palette: Palette) -> None:
    text = sheet(palette)
    pictures = re.findall(r'url\("([^"]+)"\)', text)
    assert "$" not in text and pictures and all(Path(p).is_file() for p in pictures)


def contrast(a: str, b: str) -> float:
    def light(colour: str) -> float:
        parts = [c / 255 for c in rgb(colour)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(a), light(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", PALETTES)
@pytest.mark.parametrize("able", [True, False])
def test_what_an_empty_field_says_can_be_read(qtbot: QtBot, window: Window, theme: str, able: bool) -> None:
    window.appearance.set_mode(theme)
    field = QLineEdit(placeholderText="all are fixed")
    field.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # its cursor would be seen as well
    field.setEnabled(able)
    field.resize(120, 26)
    qtbot.addWidget(field)
    field.show()
    seen = field.grab().toImage()
    ground, inside = seen.pixelColor(60, 4).name(), ((x, y) for x in range(8, 100) for y in range(7, 20))
    assert max(contrast(seen.pixelColor(*at).name(), ground) for at in inside) > 3.5


@pytest.mark.parametrize("palette", PALETTES.values(), ids=lambda p: p.name)
def test_what_is_not_ticked_stands_out(palette: Palette) -> None:
    assert contrast(palette.muted, palette.panel) > 4.5  # the border of a check box (WCAG 1.4.11 asks for 3)
    assert contrast(palette.accent, palette.panel) > 4.5  # the focus ring
    assert contrast(palette.control, palette.panel) > 1.8  # fields also differ by their ground


def test_the_window_fits_a_small_screen(opened: Window) -> None:
    opened.resize(1100, 700)
    assert opened.size().width() == 1100
    inspector = opened.docks.docks["inspector"]
    opened.resize(1600, 1000)
    opened.resize(1100, 700)
    assert inspector.geometry().right() < 1100 and inspector.width() >= inspector.minimumSizeHint().width()


@pytest.mark.slow
def test_a_size_is_used_from_the_next_start(window: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    """Qt's own scale of the screen shows what the next process draws at."""
    window.actions_table.run("size_150")
    assert window.settings.size == 150 and "150 %" in window.banner.text
    assert window.actions_table.actions["size_150"].isChecked()
    window.settings.sync()
    code = (
        "from PySide6.QtCore import QSettings; import espalier.app.shell.application as a\n"
        "from espalier.app.settings import Settings\n"
        f"store = QSettings({str(window.settings._store.fileName())!r}, QSettings.Format.IniFormat)\n"
        "a.Settings = lambda: Settings(store)\n"
        "def made(app, *more): print(app.primaryScreen().devicePixelRatio()); raise SystemExit\n"
        "a.make_tabs = made; a.open_window(None)"
    )
    monkeypatch.delenv("QT_SCALE_FACTOR", raising=False)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "1.5", done.stderr
    window.settings.size = 300  # none that is offered
    assert window.settings.size == 100
