"""A change of the theme takes time in proportion to the widgets, however deep they lie."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from espalier.app.widgets.style import Appearance

pytestmark = pytest.mark.gui
DEEP = 24


class Counting(QWidget):
    """Counts how often its style has changed; its counter outlives Python's part of it."""

    count = 0

    def changeEvent(self, event: QEvent) -> None:
        Counting.count += event.type() == QEvent.Type.StyleChange
        super().changeEvent(event)


def test_no_widget_is_polished_once_for_each_that_holds_it(qtbot: QtBot, appearance: Appearance) -> None:
    """Four tabs took 14 s: Qt polishes the children of each widget again when it replaces a style sheet."""
    outer = QWidget()
    qtbot.addWidget(outer)
    chain = [outer]
    for depth in range(DEEP):
        box = QVBoxLayout(chain[-1])
        chain.append(Counting() if depth == DEEP - 1 else QWidget())
        box.addWidget(chain[-1])
    outer.show()
    mode = appearance.mode
    Counting.count = 0
    appearance.set_mode("dark" if mode == "light" else "light")
    appearance.set_mode(mode)
    assert 2 <= Counting.count <= 8, "twice for each change"
