"""Workspaces: panels get the main area, the graph goes along, sizes stay where the user left them."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMainWindow, QTabBar, QToolButton
from pytestqt.qtbot import QtBot

from espalier.app.shell.docks import DOCKS
from espalier.app.shell.window import Window
from espalier.app.shell.workbench import DRAWER, TABS_HEIGHT
from espalier.app.shell.workspaces import GRAPH, WORKSPACES
from espalier.app.theme import DARK, LIGHT
from tests.gui.conftest import FakeRunner, open_small

pytestmark = pytest.mark.gui
WORK = [w for w in WORKSPACES if w.id != GRAPH]


def seen(window: Window) -> set[str]:
    return {name for name, panel in window.docks.panels.items() if panel.isVisible()}


def drawer_tabs(window: Window) -> QTabBar:
    area = window.pages.workbench.areas[DRAWER]
    return next(b for b in area.findChildren(QTabBar) if b.isVisible() and b.count() > 1)


@pytest.mark.slow
@pytest.mark.parametrize("workspace", WORKSPACES, ids=lambda w: w.id)
def test_button_and_key_bring_a_workspace(opened: Window, workspace: object) -> None:
    assert isinstance(workspace, type(WORKSPACES[0]))
    bench = opened.pages.workbench
    others = [w for w in WORKSPACES if w is not workspace]
    bench.show_workspace(others[0].id)
    bench.bar.buttons[workspace.id].click()
    assert bench.current == workspace.id and bench.bar.buttons[workspace.id].isChecked()
    bench.show_workspace(others[0].id)
    action = opened.actions_table.actions[f"workspace_{workspace.id}"]
    assert action.shortcut().toString() == workspace.key
    action.trigger()
    assert bench.current == workspace.id and action.isChecked()
    own = {s.id for s in DOCKS if s.workspace == workspace.id}
    assert seen(opened) & own and not seen(opened) - own, "panels of other workspaces do not paint"


@pytest.mark.slow
@pytest.mark.parametrize("spec", DOCKS, ids=lambda s: s.id)
def test_a_panel_that_is_shown_brings_its_workspace(opened: Window, spec: object) -> None:
    assert isinstance(spec, type(DOCKS[0]))
    bench = opened.pages.workbench
    bench.show_workspace("data" if spec.workspace != "data" else "kernels")
    before = bench.current
    opened.show_dock(spec.id)
    assert opened.docks.panels[spec.id].isVisible()
    assert bench.current == (before if spec.workspace == DRAWER else spec.workspace)


@pytest.mark.slow
def test_panels_get_most_of_the_window(opened: Window) -> None:
    opened.resize(1280, 800)
    for workspace in WORK:
        opened.pages.workbench.show_workspace(workspace.id)
        name = next(s.id for s in DOCKS if s.workspace == workspace.id)
        panel = opened.docks.panels[name]
        QApplication.processEvents()
        assert panel.height() >= 0.7 * opened.height(), name
        assert panel.width() >= (0.6 if workspace.graph_beside else 0.9) * opened.width(), name


@pytest.mark.slow
def test_no_height_changes_with_the_panel_in_front(opened: Window) -> None:
    """The tabs of a workspace and of the drawer stay where they are, whatever is shown in them."""
    opened.show_dock("nodes")
    places = set()
    for name in (s.id for s in DOCKS if s.workspace == DRAWER):
        opened.show_dock(name)
        bar = drawer_tabs(opened)
        places.add((bar.mapTo(opened, bar.rect().topLeft()).toTuple(), opened.docks.docks[name].height()))
    assert len(places) == 1
    for workspace in ("compress", "experiments"):
        heights = set()
        for name in (s.id for s in DOCKS if s.workspace == workspace):
            opened.show_dock(name)
            heights.add(opened.docks.docks[name].size().toTuple())
        assert len(heights) == 1, workspace


@pytest.mark.slow
def test_the_graph_goes_along_with_a_view_of_its_own(opened: Window) -> None:
    bench, canvas = opened.pages.workbench, opened.canvas
    canvas.look_at(1.5, 40.0, 60.0)
    before = canvas.look()
    bench.show_workspace("compress")
    assert canvas.isVisible() and canvas.width() < 0.35 * opened.width()
    canvas.look_at(0.8, 10.0, 20.0)
    beside = canvas.look()
    bench.show_workspace(GRAPH)
    assert canvas.look() == pytest.approx(before)
    bench.show_workspace("compress")
    assert canvas.look() == pytest.approx(beside)
    opened.session.select(("fc1",))
    assert canvas.selection() == ("fc1",)


@pytest.mark.slow
def test_another_model_begins_with_views_of_its_own(opened: Window, runner: list[FakeRunner]) -> None:
    bench, canvas = opened.pages.workbench, opened.canvas
    canvas.look_at(3.0, 4000.0, 4000.0)
    bench.show_workspace("compress")
    open_small(opened, runner)
    bench.show_workspace(GRAPH)
    assert canvas.look()[0] != 3.0


@pytest.mark.slow
def test_the_graph_beside_the_panels_is_shown_and_hidden(opened: Window) -> None:
    bench, action = opened.pages.workbench, opened.actions_table.actions["toggle_graph"]
    bench.show_workspace(GRAPH)
    opened.actions_table.refresh()
    assert not action.isEnabled()
    opened.show_dock("search")
    opened.actions_table.refresh()
    assert action.isEnabled() and action.isChecked() and opened.canvas.isVisible()
    width = opened.docks.panels["search"].width()
    action.trigger()
    QApplication.processEvents()
    assert not opened.canvas.isVisible() and opened.docks.panels["search"].width() > width + 150
    bench.show_workspace("compress")
    assert opened.canvas.isVisible(), "each workspace decides for itself"
    bench.show_workspace("experiments")
    assert not opened.canvas.isVisible()


@pytest.mark.slow
def test_the_drawer_opens_and_closes_by_its_tabs(opened: Window, qtbot: QtBot) -> None:
    bench = opened.pages.workbench
    drawer = bench.areas[DRAWER]
    assert not bench.drawer_shown and drawer.height() == TABS_HEIGHT and "nodes" not in seen(opened)
    bar = drawer_tabs(opened)

    def click(tab: int) -> None:
        QTest.mouseClick(bar, Qt.MouseButton.LeftButton, pos=bar.tabRect(tab).center())

    click(bar.currentIndex())
    assert bench.drawer_shown and drawer.height() > 150 and "nodes" in seen(opened)
    height = drawer.height()
    click(2)
    assert drawer.height() == height and "jobs" in seen(opened) and "nodes" not in seen(opened)
    click(2)
    assert drawer.height() == TABS_HEIGHT and "jobs" not in seen(opened)
    click(1)
    assert drawer.height() == height and "tables" in seen(opened)
    bench.show_workspace("kernels")
    assert not bench.drawer_shown and drawer.height() == TABS_HEIGHT
    bench.show_workspace(GRAPH)
    assert bench.drawer_shown and drawer.height() == height


@pytest.mark.slow
def test_the_arrangement_is_remembered(opened: Window) -> None:
    bench = opened.pages.workbench
    opened.show_dock("sweeps")
    bench.toggle_graph()
    opened.show_dock("jobs")
    opened.close_now()
    again = Window(opened.session, opened.settings, opened.appearance)
    again.resize(opened.size())
    again.show()
    again.build_panels()
    other = again.pages.workbench
    assert other.current == "experiments" and not other.graph_shown and other.drawer_shown
    assert {"sweeps", "jobs"} <= seen(again)
    other.show_workspace("compress")
    assert other.graph_shown and not other.drawer_shown
    again.hide()
    again.deleteLater()


@pytest.mark.slow
def test_a_floating_panel_stays_while_workspaces_change(opened: Window) -> None:
    opened.show_dock("search")
    opened.docks.docks["search"].setFloating(True)
    opened.pages.workbench.show_workspace("data")
    assert {"search", "data"} <= seen(opened)
    opened.show_dock("search")
    assert opened.pages.workbench.current == "data", "it is in front already"


@pytest.mark.slow
def test_icons_follow_the_theme(opened: Window) -> None:
    button = opened.pages.workbench.bar.buttons["compress"]

    def ink() -> set[str]:
        image = button.icon().pixmap(20, 20).toImage()
        points = ((x, y) for x in range(image.width()) for y in range(image.height()))
        return {image.pixelColor(*p).name() for p in points if image.pixelColor(*p).alpha() == 255}

    opened.appearance.set_mode("light")
    assert LIGHT.muted.lower() in ink()
    opened.appearance.set_mode("dark")
    assert DARK.muted.lower() in ink() and LIGHT.muted.lower() not in ink()
    opened.appearance.set_mode("light")


@pytest.mark.slow
def test_the_height_of_the_drawer_is_stored_and_reset(opened: Window, qtbot: QtBot) -> None:
    bench = opened.pages.workbench
    drawer = bench.areas[DRAWER]
    bench.show_drawer(True)
    first = drawer.height()
    bench._column.setSizes([bench.height() - first - 70, first + 70])
    for is_open in (True, False):
        bench.show_drawer(is_open)
        state = opened.docks.state()
        opened.docks.reset()
        bench.show_drawer(True)
        assert drawer.height() == first, "the first height"
        opened.docks.reset()
        opened.docks.restore(state)
        assert bench.drawer_shown is is_open
        bench.show_drawer(True)
        assert drawer.height() == first + 70


def test_a_right_click_on_a_tab_leaves_the_drawer_as_it_is(opened: Window) -> None:
    bench, bar = opened.pages.workbench, drawer_tabs(opened)
    QTest.mousePress(bar, Qt.MouseButton.RightButton, pos=bar.tabRect(1).center())
    assert not bench.drawer_shown
    QTest.mouseRelease(bar, Qt.MouseButton.RightButton, pos=bar.tabRect(1).center())


@pytest.mark.slow
def test_a_group_of_tabs_that_was_made_by_hand_opens_the_drawer_too(opened: Window, qtbot: QtBot) -> None:
    bench, docks = opened.pages.workbench, opened.docks.docks
    bench.show_drawer(True)
    area = bench.areas[DRAWER]
    for name in ("jobs", "log"):
        area.removeDockWidget(docks[name])
        area.addDockWidget(Qt.DockWidgetArea.TopDockWidgetArea, docks[name], Qt.Orientation.Horizontal)
        docks[name].show()
    area.tabifyDockWidget(docks["jobs"], docks["log"])
    qtbot.wait(50)
    bars = [b for b in opened.docks._tab_bars(area) if b.count() > 1 and b.isVisible()]
    assert len(bars) == 2
    for bar in bars:
        assert bench.drawer_shown
        QTest.mouseClick(bar, Qt.MouseButton.LeftButton, pos=bar.tabRect(bar.currentIndex()).center())
        assert not bench.drawer_shown
        bench.show_drawer(True)


def test_a_floating_panel_has_a_title_bar_and_its_tab_can_leave_the_row(opened: Window, qtbot: QtBot) -> None:
    """Qt lets a tab leave its row only with grouped dragging; without a title bar the window could not be moved."""
    dock, bench = opened.docks.docks["plots"], opened.pages.workbench
    assert all(area.dockOptions() & QMainWindow.DockOption.GroupedDragging for area in bench.areas.values())
    opened.show()
    opened.show_dock("plots")
    bar = dock.titleBarWidget()
    qtbot.waitUntil(opened.docks.panels["plots"].isVisible)
    assert bar.height() == 0 and opened.docks.panels["plots"].y() <= 1
    dock.setFloating(True)
    qtbot.waitUntil(lambda: bar.height() >= bar.sizeHint().height() > 20)
    (button,) = bar.findChildren(QToolButton)
    assert button.isEnabled() and button.isVisible()
    dock.setFloating(False)
    qtbot.waitUntil(lambda: bar.height() == 0)
    assert not button.isEnabled()
    dock.setFloating(True)
    button.click()
    assert not dock.isVisible()
