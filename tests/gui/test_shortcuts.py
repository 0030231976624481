"""Keys that the user chooses: recorded, refused, taken from another action, kept, and reset."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from espalier.app.settings import Settings
from espalier.app.shell.keys import KeyBindings, overlap, refusal
from espalier.app.shell.shortcuts_window import ShortcutsWindow
from espalier.app.shell.window import Window
from tests.gui.conftest import FakeRunner, open_small

pytestmark = pytest.mark.gui


@pytest.fixture
def page(window: Window) -> ShortcutsWindow:
    """The list, as its menu row opens it."""
    window.actions_table.run("shortcuts")
    found = window.findChild(ShortcutsWindow)
    assert found is not None
    return found


def bindings(window: Window, settings: Settings) -> KeyBindings:
    """The keys as another start of the program reads them."""
    return KeyBindings(window.actions_table, settings, lambda _: None)


def record(page: ShortcutsWindow, name: str, *keys: str) -> None:
    """Record keys by a Return in the table and presses in the field."""
    page.table.setCurrentItem(page._items[name])
    QTest.keyClick(page.table, Qt.Key.Key_Return)
    assert page.recorder.isVisible()
    page.edit.setKeySequence(QKeySequence(", ".join(keys)))


def keys_of(window: Window, name: str) -> list[str]:
    return [k.toString() for k in window.actions_table.actions[name].shortcuts()]


@pytest.mark.slow
def test_recorded_keys_run_the_action_and_stand_in_menu_and_tooltip(
    window: Window, runner: list[FakeRunner], page: ShortcutsWindow, settings: Settings, qtbot: QtBot
) -> None:
    open_small(window, runner)
    page.table.setCurrentItem(page._items["select_all"])
    QTest.keyClick(page.table, Qt.Key.Key_Return)
    QTest.keyClick(page.edit, Qt.Key.Key_U, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: "is free" in page.question.text())  # a second key could still follow
    page.assign_button.click()
    assert not page.recorder.isVisible() and page._items["select_all"].text(2) == "Ctrl+U"
    page.close()
    assert keys_of(window, "select_all") == ["Ctrl+U"]
    assert window.actions_table.actions["select_all"].toolTip().endswith("  Ctrl+U")
    assert not window.session.selection
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    QTest.keyClick(window.canvas, Qt.Key.Key_U, Qt.KeyboardModifier.ControlModifier)
    assert len(window.session.selection) == len(window.session.open_document.graph.nodes)
    assert settings.keys == {"select_all": "Ctrl+U"}


@pytest.mark.slow
def test_keys_of_another_action_are_taken_only_by_choice(window: Window, page: ShortcutsWindow) -> None:
    record(page, "fit", "Ctrl+Shift+G")
    assert "belongs to “Go to the selection”" in page.question.text()
    page.cancel_button.click()
    assert keys_of(window, "zoom_to") == ["Ctrl+Shift+G"] and keys_of(window, "fit") == ["Ctrl+0"]
    record(page, "fit", "Ctrl+Shift+G")
    assert page.assign_button.text() == "Take the keys"
    page.assign_button.click()
    assert keys_of(window, "zoom_to") == [] and keys_of(window, "fit") == ["Ctrl+Shift+G"]
    page.table.setCurrentItem(page._items["zoom_to"])
    page.reset_link.click()  # its first keys come back, and the other action loses them
    assert keys_of(window, "zoom_to") == ["Ctrl+Shift+G"] and keys_of(window, "fit") == []
    page.reset_all_link.click()
    assert keys_of(window, "fit") == ["Ctrl+0"] and not page.reset_all_link.isEnabled()


@pytest.mark.slow
@pytest.mark.parametrize("keys,why", [
    ("M", "Keys without Ctrl or Alt"), ("Shift+A", "Keys without Ctrl or Alt"), ("Delete", "Keys without Ctrl or Alt"),
    ("Ctrl+C", "“Copy”"), ("Ctrl+C, Ctrl+K", "“Copy”"), ("F2", "“Rename”"), ("Alt+F", "opens the menu File"),
])  # fmt: skip
def test_keys_of_texts_and_of_menus_are_refused(window: Window, page: ShortcutsWindow, keys: str, why: str) -> None:
    record(page, "fit", keys)
    assert why in page.question.text() and not page.assign_button.isEnabled()


@pytest.mark.slow
def test_a_sequence_that_begins_with_other_keys_is_a_conflict(page: ShortcutsWindow) -> None:
    record(page, "fit", "Ctrl+Shift+G", "Ctrl+B")
    assert "belongs to “Go to the selection”" in page.question.text()
    assert overlap("Ctrl+G", "Ctrl+G, Ctrl+B") and not overlap("Ctrl+G", "Ctrl+G2") and not overlap("", "Ctrl+G")


def test_keys_survive_a_restart_and_a_damaged_store(window: Window, settings: Settings, tmp_path: Path) -> None:
    first = bindings(window, settings)
    first.assign("fit", "Ctrl+Alt+F9")
    first.assign("zoom_in", "")
    settings.sync()
    again = Settings(QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat))
    second = bindings(window, again)
    assert second.present["fit"] == ("Ctrl+Alt+F9",) and second.present["zoom_in"] == ()
    for text in ("no json", "[1, 2]", '{"fit": 3, "gone": "Ctrl+U", "undo": "M", "redo": "Ctrl+Nonsense+Q"}'):
        again._store.setValue("keys", text)
        third = bindings(window, again)
        assert third.present == third.defaults
    again._store.setValue("keys", '{"fit": "Ctrl+U", "undo": "Ctrl+U"}')
    assert bindings(window, again).present["fit"] == ("Ctrl+U",)
    assert bindings(window, again).present["undo"] == ("Ctrl+Z",)


@pytest.mark.slow
def test_all_keys_stay_unique_whatever_is_assigned(window: Window, settings: Settings) -> None:
    keys = bindings(window, settings)
    names = list(keys.defaults)
    for i, name in enumerate(names):
        keys.assign(name, keys.defaults[names[-1 - i]][0] if keys.defaults[names[-1 - i]] else "")
        flat = [k for own in keys.present.values() for k in own]
        assert len(flat) == len(set(flat))
    keys.reset_all()
    assert keys.present == keys.defaults


def test_every_default_is_one_that_could_be_recorded(window: Window, settings: Settings) -> None:
    defaults = bindings(window, settings).defaults
    assert {
        row.id: tuple(row.keys) for row in window.actions_table.rows
    } == defaults  # all are written as Qt writes them
    assert not [k for keys in defaults.values() for k in keys if refusal(k)]


def test_the_search_lists_what_has_all_words(page: ShortcutsWindow) -> None:
    page.query.setText("graph ctrl+0")
    items = [page.table.topLevelItem(i) for i in range(page.table.topLevelItemCount())]
    assert [i.text(1) for i in items if i is not None and not i.isHidden()] == ["Fit graph"]


@pytest.mark.slow
@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Down])
def test_return_in_the_search_goes_to_the_first_hit_and_resets_nothing(
    window: Window, page: ShortcutsWindow, key: Qt.Key
) -> None:
    record(page, "undo", "Ctrl+Alt+U")
    page.assign_button.click()
    page.query.setFocus()
    page.query.setText("undo")
    QTest.keyClick(page.query, key)
    assert keys_of(window, "undo") == ["Ctrl+Alt+U"] and page.focusWidget() is page.table
    QTest.keyClick(page.table, Qt.Key.Key_Return)
    assert page.recorder.isVisible() and "Undo" in page.question.text()


@pytest.mark.slow
def test_workspaces_and_the_find_field_show_the_new_keys(window: Window, page: ShortcutsWindow, qtbot: QtBot) -> None:
    record(page, "workspace_data", "Ctrl+Alt+7")
    page.assign_button.click()
    assert window.pages.workbench.bar.buttons["data"].toolTip().endswith("Ctrl+Alt+7")
    record(page, "find", "Ctrl+Alt+8")
    page.assign_button.click()
    assert window.find_field._hint.text() == "Ctrl+Alt+8" and keys_of(window, "find") == ["Ctrl+Alt+8"]
