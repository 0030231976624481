"""The history of edits: as undo and redo would have it, one by one."""

from __future__ import annotations

import time

import pytest
from pytestqt.qtbot import QtBot

from espalier.app.features.history.window import HistoryWindow
from espalier.app.shell.window import Window
from espalier.model.formats.base import parse_format
from tests.gui.conftest import FakeRunner, open_small

pytestmark = pytest.mark.gui


@pytest.fixture
def edited(window: Window, runner: list[FakeRunner]) -> Window:
    """Three edits of the small model."""
    window.live.enabled = False
    open_small(window, runner)
    for node, text in (("fc1", "int8"), ("fc2", "int8"), ("fc1", "integer(width=6, frac_width=3)")):
        window.session.set_format([node], "weight", parse_format(text))
    return window


def listed(window: Window) -> HistoryWindow:
    """The list, as its menu row opens it."""
    window.actions_table.run("history")
    found = window.findChild(HistoryWindow)
    assert found is not None
    return found


def test_a_jump_is_as_many_undos(edited: Window, qtbot: QtBot) -> None:
    document = edited.session.open_document
    states = [document.present]
    for _ in range(3):
        edited.session.undo()
        states.insert(0, document.present)
    changes: list[object] = []
    document.listeners.append(changes.append)
    for count in (3, 0, 2, 1, 3):
        document.go_to(count)
        assert document.present == states[count] and document.history[1] == count
    assert len(changes) == 5, "one change a jump"
    assert document.go_to(3) is None and document.go_to(99) is None, "it is there already"
    assert document.go_to(-1) is not None and document.present == states[0]


def test_the_list_follows_and_jumps(edited: Window, qtbot: QtBot) -> None:
    page = listed(edited)
    document = edited.session.open_document
    assert page.list.count() == 4 and page.list.currentRow() == 3
    assert "int8" in page.list.item(1).text() and page.list.item(0).text() == "Before these edits"
    assert all(abs(e.when - time.time()) < 120 for e in document.history[0])
    whole = document.recipe
    page.list.itemClicked.emit(page.list.item(1))
    qtbot.waitUntil(lambda: document.history[1] == 1)
    assert document.undo_label == document.history[0][0].label and page.list.currentRow() == 1
    assert page.list.item(2).toolTip() == "Undone" and not page.list.item(1).toolTip()
    document.go_to(3)
    assert document.recipe == whole and page.list.currentRow() == 3
    document.go_to(1)
    edited.session.set_format(["fc2"], "weight", parse_format("int4"))
    assert page.list.count() == 3, "a new edit drops the undone ones"
    assert listed(edited) is page
    edited.session.close()
    assert page.list.count() == 0
