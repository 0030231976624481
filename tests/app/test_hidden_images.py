"""The picture of a hidden window is freed, and painted again when the window is shown."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QComboBox, QMenu, QWidget
from pytestqt.qtbot import QtBot

from espalier.app.widgets.hidden_images import release_hidden_images

pytestmark = pytest.mark.gui


def test_the_list_of_a_field_is_freed_and_comes_back(qtbot: QtBot) -> None:
    field = QComboBox()
    field.addItems([f"item {n}" for n in range(30)])
    qtbot.addWidget(field)
    field.resize(300, 30)
    field.show()
    field.showPopup()
    container = field.view().window()
    qtbot.waitUntil(lambda: container.backingStore() is not None and container.backingStore().size().height() > 100)
    before, size = container.grab().toImage(), container.backingStore().size()
    release_hidden_images()
    assert container.backingStore().size() == size, "a visible window keeps its picture"
    field.hidePopup()
    qtbot.waitUntil(lambda: not container.isVisible())
    assert release_hidden_images() >= size.width() * size.height() * 4
    assert container.backingStore().size().height() == 1 and release_hidden_images() == 0
    field.showPopup()
    qtbot.waitUntil(lambda: container.backingStore().size() == size)
    assert container.grab().toImage() == before


def test_menus_and_dialogs_work_afterwards(qtbot: QtBot) -> None:
    owner = QWidget()
    qtbot.addWidget(owner)
    menu = QMenu(owner)
    chosen = list[bool]()
    menu.addAction("Do it", lambda: chosen.append(True))
    for _ in range(2):
        menu.popup(owner.mapToGlobal(owner.rect().center()))
        qtbot.waitUntil(menu.isVisible)
        menu.hide()
        release_hidden_images()
    menu.popup(owner.mapToGlobal(owner.rect().center()))
    menu.actions()[0].trigger()
    assert chosen == [True]
    menu.hide()
