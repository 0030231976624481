"""The field of operations at the pointer: where it opens, what it lists, what Enter does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QCursor
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from espalier.app.features.edits.add_operation import OFFER, OperationField, add_operation
from espalier.app.shell.window import Window
from espalier.passes.edits.insert_after import InsertAfter
from espalier.passes.transform.edit_graph import EditGraphOptions
from tests.gui.conftest import FakeRunner, open_small
from tests.gui.edits.test_arranging import look, middle, pixel, rect
from tests.gui.edits.test_menu import menu_of, stack

pytestmark = pytest.mark.gui


@pytest.fixture
def blocks(window: Window, runner: list[FakeRunner], qtbot: QtBot) -> Iterator[Window]:
    """The window with three blocks, all of them open and laid out, the first in view."""
    open_small(window, runner, stack().project)
    window.canvas.open_all()
    qtbot.waitUntil(lambda: window.canvas.scene is not None and not window.canvas.waiting)
    look(window, "0_act")
    window.activateWindow()
    yield window
    for menu in window.canvas.findChildren(QMenu):
        menu.close()


def shown(window: Window) -> list[OperationField]:
    """The fields that are open."""
    return [f for f in window.canvas.findChildren(OperationField) if f.isVisible()]


def queued(window: Window) -> InsertAfter:
    """The last edit of the recipe, which waits for the worker."""
    options = window.session.recipe.steps[-1].options
    assert isinstance(options, EditGraphOptions)
    edit = options.edits[-1]
    assert isinstance(edit, InsertAfter)
    return edit


def before_act(window: Window) -> QPoint:
    """A pixel on the edge from 0_up to 0_act."""
    x, y, w, _ = rect(window, "0_act")
    return pixel(window, x + w / 2, y - 12)


@pytest.mark.slow
def test_enter_inserts_behind_the_selected_node(blocks: Window, qtbot: QtBot) -> None:
    blocks.session.select(("0_up",))
    blocks.actions_table.run("add_operation")
    (field,) = shown(blocks)
    qtbot.keyClicks(field.field, "tanh")
    assert [field.list.item(k).text() for k in range(field.list.count())] == ["Tanh", "Hardtanh"]
    qtbot.keyClick(field.field, Qt.Key.Key_Return)
    assert queued(blocks) == InsertAfter(node="0_up", op="tanh") and not shown(blocks)
    assert blocks.session.pending_edits == ("Insert after 0_up",), "one edit of the recipe"
    blocks.session.undo()


def test_a_double_click_on_an_edge_inserts_there(blocks: Window, qtbot: QtBot) -> None:
    canvas = blocks.canvas
    qtbot.mouseDClick(canvas, Qt.MouseButton.LeftButton, pos=before_act(blocks))
    (field,) = shown(blocks)
    qtbot.keyClick(field.field, Qt.Key.Key_Down)
    offer = field.list.currentItem().data(OFFER)
    qtbot.keyClick(field.field, Qt.Key.Key_Return)
    edit = queued(blocks)
    assert (edit.node, edit.user, edit.op) == ("0_up", "0_act", offer.edit.op)


@pytest.mark.slow
def test_shift_a_takes_the_edge_under_the_pointer(
    blocks: Window, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    canvas, spot = blocks.canvas, before_act(blocks)
    blocks.session.select(("0_down",))
    monkeypatch.setattr(QCursor, "pos", staticmethod(lambda: canvas.mapToGlobal(spot)))
    qtbot.keyClick(canvas, Qt.Key.Key_A, Qt.KeyboardModifier.ShiftModifier)
    (field,) = shown(blocks)
    assert (field._node, field._user) == ("0_up", "0_act")
    assert canvas.rect().contains(field.geometry())
    qtbot.keyClick(field.field, Qt.Key.Key_Escape)
    assert not shown(blocks)
    monkeypatch.setattr(QCursor, "pos", staticmethod(lambda: canvas.mapToGlobal(middle(blocks, "0_act"))))
    qtbot.keyClick(canvas, Qt.Key.Key_A, Qt.KeyboardModifier.ShiftModifier)
    assert [(f._node, f._user) for f in shown(blocks)] == [("0_down", "")], "the selected node, off an edge"
    qtbot.keyClick(shown(blocks)[0].field, Qt.Key.Key_Escape)
    blocks.session.select(())
    qtbot.keyClick(canvas, Qt.Key.Key_A, Qt.KeyboardModifier.ShiftModifier)
    assert [(f._node, f._user) for f in shown(blocks)] == [("0_act", "")], "the node under the pointer, none selected"


@pytest.mark.slow
def test_refused_rows_come_last_with_their_reason(blocks: Window, qtbot: QtBot) -> None:
    blocks.session.select(("0_up",))
    field = add_operation(blocks.host)
    assert field is not None
    rows = [field.list.item(k) for k in range(field.list.count())]
    possible = [bool(r.flags() & Qt.ItemFlag.ItemIsEnabled) for r in rows]
    assert possible == sorted(possible, reverse=True) and not all(possible)
    refused = next(r for r in rows if r.text().startswith("Conv2d"))
    assert "takes 4 dimensions" in refused.toolTip()
    qtbot.keyClicks(field.field, "conv2d")
    assert field.list.currentItem() is None
    qtbot.keyClick(field.field, Qt.Key.Key_Return)
    assert len(shown(blocks)) == 1 and not blocks.session.pending_edits, "nothing to insert"
    qtbot.keyClicks(field.field, " banana")
    assert field.none.isVisible() and not field.list.isVisible()
    field.end()


def test_it_says_where_nothing_can_be_inserted(blocks: Window) -> None:
    blocks.session.select(())
    assert add_operation(blocks.host) is None and "an edge or a node" in blocks.banner.text
    blocks.session.select(("output",))
    assert add_operation(blocks.host) is None and "Nothing follows the output" in blocks.banner.text


@pytest.mark.slow
def test_the_menu_of_a_node_opens_it(blocks: Window) -> None:
    menu = menu_of(blocks, "0_act")
    next(a for a in menu.actions() if a.text().startswith("Add operation…")).trigger()
    assert [f._node for f in shown(blocks)] == ["0_act"]
    shown(blocks)[0].end()
