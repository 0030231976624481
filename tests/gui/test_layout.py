"""The layout of the docks: back to the first arrangement from whatever was done to it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTabBar
from pytestqt.qtbot import QtBot

from espalier.app.shell.docks import DOCKS
from espalier.app.shell.window import Window

DIRECT = Qt.FindChildOption.FindDirectChildrenOnly
pytestmark = pytest.mark.gui


def test_the_first_layout_comes_back_whole(opened: Window, qtbot: QtBot) -> None:
    """From moved, floating and closed docks and a hidden graph: no row of tabs is left behind."""
    bench = opened.pages.workbench
    areas = bench.areas

    def bars() -> dict[str, int]:
        """The rows of tabs of each area, as far as they can be seen."""
        own = {name: area.findChildren(QTabBar, options=DIRECT) for name, area in areas.items()}
        return {name: sum(not b.isHidden() and b.count() > 1 for b in rows) for name, rows in own.items()}

    def places() -> dict[str, Qt.DockWidgetArea]:
        return {s.id: areas[s.workspace].dockWidgetArea(opened.docks.docks[s.id]) for s in DOCKS}

    first, tabs = places(), bars()
    assert sum(tabs.values()) == 4  # of the drawer, Compress, Experiments and Deploy
    opened.docks.bring("kernels")
    opened.host.toggle_graph()
    bench.show_drawer(True)
    qtbot.wait(50)
    opened.docks.docks["log"].setFloating(True)
    areas["experiments"].addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, opened.docks.docks["plots"])
    for name in ("recipe", "search"):
        opened.docks.docks[name].hide()
    qtbot.wait(50)
    opened.docks.reset()
    qtbot.waitUntil(lambda: bars() == tabs)
    assert places() == first and bench.current == "graph" and not bench.drawer_shown
    assert not any(dock.isFloating() or dock.isHidden() for dock in opened.docks.docks.values())
