"""Presenting shows one panel or the graph alone and enlarged; afterwards the window is as it was."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import Shiboken

from espalier.app.shell.presenting import SCALE, Presenting, ScaledPanel
from espalier.app.shell.window import Window
from espalier.app.widgets.forms.flow_layout import FlowLayout

pytestmark = pytest.mark.gui


def presenting(window: Window) -> Presenting:
    return window.services.presenting


def arrangement(window: Window) -> dict[str, object]:
    """Sizes and visibility of docks and panels, the workspace, the view of the graph, the state of the window."""
    docks = window.docks
    places = {n: (d.geometry().getRect(), d.isVisible()) for n, d in docks.docks.items()}
    parents = {n: (docks.docks[n].isAncestorOf(p), p.isVisible()) for n, p in docks.panels.items()}
    return {**places, **{f"{n} in its dock": inside for n, inside in parents.items()},
            "workspace": window.pages.workbench.current, "look": window.canvas.look(), "size": window.size(),
            "state": window.windowState(), "canvas": window.canvas.geometry().getRect()}  # fmt: skip


def cover(window: Window) -> QWidget:
    found = presenting(window)._cover
    assert found is not None
    return found


def settle() -> None:
    for _ in range(5):
        QApplication.processEvents()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "inspector", "search", "plots", "jobs", "data", "training", "outline"])
def test_all_is_as_before(opened: Window, name: str) -> None:
    assert QTest.qWaitForWindowExposed(opened)
    if name:
        opened.show_dock(name)
    settle()
    before = arrangement(opened)
    presenting(opened).begin(name)
    settle()
    if QGuiApplication.platformName() != "offscreen":  # which keeps no state for a window of more than its screen
        assert opened.windowState() & Qt.WindowState.WindowFullScreen
    assert cover(opened).geometry() == opened.rect() and cover(opened).isVisible()
    if name:
        panel = opened.docks.panels[name]
        assert panel.isVisible() and abs(panel.width() - opened.width() / SCALE) <= 1
        view = cover(opened).findChild(ScaledPanel)
        assert view is not None and view.mapFromScene(view.scene().items()[-1].scenePos()).toTuple() == (0, 0)
    else:
        assert opened.canvas.size() == opened.size()
        assert opened.canvas.look() == pytest.approx((SCALE * before["look"][0], *before["look"][1:]))  # type: ignore[index]
    QTest.keyClick(cover(opened), Qt.Key.Key_Escape)
    settle()
    assert not presenting(opened).active
    after = arrangement(opened)
    assert after.pop("look") == pytest.approx(before.pop("look"))
    assert after == before


def test_a_panel_that_was_presented_is_laid_out_again(opened: Window) -> None:
    """Its layouts still have their items when what showed it is deleted: Qt would ask for them and end the program."""
    opened.show_dock("plots")
    settle()
    presenting(opened).begin("plots")
    view = cover(opened).findChild(ScaledPanel)
    presenting(opened).end()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert not Shiboken.isValid(view)
    items = [f.itemAt(k) for f in opened.docks.panels["plots"].findChildren(FlowLayout) for k in range(f.count())]
    assert items and all(Shiboken.isValid(item) for item in items)
    opened.show_dock("search")
    opened.show_dock("plots")
    settle()


def test_the_key_presents_what_has_the_focus(opened: Window, qtbot: QtBot) -> None:
    opened.activateWindow()
    opened.canvas.setFocus()
    table = opened.actions_table
    table.refresh()
    assert table.actions["present"].text() == "Present the graph"
    opened.docks.enter("recipe")
    qtbot.waitUntil(lambda: presenting(opened).target == "recipe")
    table.refresh()
    assert table.actions["present"].text() == "Present Recipe"
    table.run("present")
    assert isinstance(cover(opened).findChild(ScaledPanel), ScaledPanel) and table.actions["present"].isChecked()
    table.run("present")
    assert not presenting(opened).active and not table.actions["present"].isChecked()


@pytest.mark.slow
def test_the_panel_in_front_is_presented_where_nothing_has_the_focus(opened: Window) -> None:
    opened.show_dock("plots")
    focus = QApplication.focusWidget()
    if focus is not None:
        focus.clearFocus()
    assert presenting(opened).target == "plots"


@pytest.mark.slow
def test_another_workspace_or_document_ends_it(opened: Window) -> None:
    presenting(opened).begin("")
    scale = opened.canvas.look()[0]
    opened.pages.workbench.show_workspace("experiments")
    assert not presenting(opened).active
    opened.pages.workbench.show_workspace("graph")
    assert opened.canvas.look()[0] == pytest.approx(scale / SCALE)
    presenting(opened).begin("inspector")
    opened.session.close()
    assert not presenting(opened).active and not presenting(opened).available()


@pytest.mark.slow
def test_a_panel_can_be_used_while_it_is_presented(opened: Window) -> None:
    presenting(opened).begin("inspector")
    opened.session.select(("fc1",))
    settle()
    assert presenting(opened).active
    picture = cover(opened).grab().toImage()
    assert len({picture.pixel(x, y) for x in range(0, picture.width(), 7) for y in range(0, picture.height(), 7)}) > 5
    opened.close_now()
    assert not presenting(opened).active
