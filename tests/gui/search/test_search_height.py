"""An empty Search takes little of the window; it grows where there is a form or a study to be seen."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.docks import INVITING, READ_HIGH
from app.window import Window
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
    assert dock.height() <= INVITING + 30 < READ_HIGH["search"] - 100
    if way == "compose":
        panel.compose_link.click()
    else:
        begin(panel, runner)
    qtbot.waitUntil(lambda: dock.height() >= READ_HIGH["search"] - 40)  # its bar of tabs takes the rest
    assert not panel.inviting
