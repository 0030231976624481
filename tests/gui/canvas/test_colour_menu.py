"""The menu of colours goes when it closes: each that stayed held its actions and its picture."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from espalier.app.canvas.view import GraphCanvas

pytestmark = pytest.mark.gui
COLOURS = 1  # the piece of the card that opens the menu


@pytest.mark.parametrize("chosen", [True, False])
def test_the_menu_goes_when_it_closes(canvas: GraphCanvas, qtbot: QtBot, chosen: bool) -> None:
    for _ in range(3):
        canvas.bars.colour_by.pressed.emit(COLOURS)
        (menu,) = canvas.findChildren(QMenu)
        qtbot.waitUntil(menu.isVisible)
        if chosen:
            qtbot.mouseClick(menu, Qt.MouseButton.LeftButton, pos=menu.actionGeometry(menu.actions()[0]).center())
        else:
            qtbot.keyClick(menu, Qt.Key.Key_Escape)
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        assert not canvas.findChildren(QMenu)
