"""An empty Search takes little of the window; it grows where there is a form or a study to be seen."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from espalier.app.shell.docks import EMPTY_HEIGHT, OPEN_HEIGHT
from espalier.app.shell.window import Window
from tests.gui.conftest import FakeRunner
from tests.gui.search.searching import begin, search_panel

pytestmark = pytest.mark.gui


@pytest.mark.parametrize("way", ["compose", "study"])
def test_it_grows_when_there_is_something(window: Window, runner: list[FakeRunner], qtbot: QtBot, way: str) -> None:
    window.resize(1280, 1000)
    panel = search_panel(window, runner)
    window.show_dock("search")
    dock = window.docks.docks["search"]
    qtbot.waitUntil(lambda: panel.isVisible() and panel.inviting)
    assert dock.height() <= EMPTY_HEIGHT + 30 < OPEN_HEIGHT["search"] - 100
    if way == "compose":
        panel.compose_link.click()
    else:
        begin(panel, runner)
    qtbot.waitUntil(lambda: dock.height() >= OPEN_HEIGHT["search"] - 40)  # its bar of tabs takes the rest
    assert not panel.inviting


def test_its_height_is_the_users_once_it_has_grown(window: Window, runner: list[FakeRunner], qtbot: QtBot) -> None:
    window.resize(1280, 1000)
    panel = search_panel(window, runner)
    window.show_dock("search")
    dock = window.docks.docks["search"]
    qtbot.waitUntil(lambda: panel.isVisible() and panel.inviting)
    panel.compose_link.click()
    qtbot.waitUntil(lambda: dock.height() >= OPEN_HEIGHT["search"] - 40)
    panel._pages.setCurrentIndex(0)
    window.resizeDocks([dock], [EMPTY_HEIGHT], Qt.Orientation.Vertical)
    qtbot.waitUntil(lambda: dock.height() <= EMPTY_HEIGHT + 30)
    panel._pages.setCurrentIndex(1)
    qtbot.wait(50)
    assert dock.height() <= EMPTY_HEIGHT + 130, "the form's own least height may lift it, its first size does not"
