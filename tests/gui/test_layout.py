"""The layout of the docks: back to the first one from whatever was done to it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTabBar
from pytestqt.qtbot import QtBot

from espalier.app.shell.window import Window
from espalier.app.widgets.form_panel import HEIGHT_BEFORE

pytestmark = pytest.mark.gui


def test_the_first_layout_comes_back_whole(opened: Window, qtbot: QtBot) -> None:
    """From a large panel, moved and floating docks: no row of tabs is left behind, and no panel counts as large."""

    def bars() -> list[QTabBar]:
        own = (b for b in opened.findChildren(QTabBar) if b.parent() is opened and b.isVisible())
        return [b for b in own if b.count() and opened.rect().intersects(b.geometry())]

    first = {name: opened.dockWidgetArea(dock) for name, dock in opened.docks.docks.items()}
    assert len(bars()) == 2
    opened.docks.bring("kernels")
    opened.host.toggle_maximised()
    qtbot.wait(50)
    opened.docks.docks["log"].setFloating(True)
    opened.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, opened.docks.docks["data"])
    for name in ("recipe", "search"):
        opened.docks.docks[name].hide()
    qtbot.wait(50)
    opened.docks.reset()
    qtbot.waitUntil(lambda: len(bars()) == 2)
    assert {name: opened.dockWidgetArea(dock) for name, dock in opened.docks.docks.items()} == first
    assert not any(dock.isFloating() or dock.isHidden() for dock in opened.docks.docks.values())
    assert opened.property(HEIGHT_BEFORE) is None
