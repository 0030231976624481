"""A row that breaks into lines: how high it is follows what stands in it, and is worked out once for a width."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from espalier.app.widgets.forms.flow_layout import FlowLayout

pytestmark = pytest.mark.gui


class Asked(QLabel):
    """A label that counts how often it is asked for its size."""

    times = 0

    def sizeHint(self) -> QSize:
        self.times += 1
        return super().sizeHint()


def test_heights_are_kept_until_something_changes(qtbot: QtBot) -> None:
    held = QWidget()
    qtbot.addWidget(held)
    flow = FlowLayout(held)
    labels = [Asked("some words") for _ in range(3)]
    for label in labels:
        flow.addWidget(label)
    held.show()
    wide = 3 * labels[0].sizeHint().width() + 4 * 8
    one = flow.heightForWidth(wide)
    times = labels[0].times
    assert flow.heightForWidth(wide) == one and labels[0].times == times
    labels[0].setText("many more words than there were")
    assert flow.heightForWidth(wide) > one
    labels[0].hide()
    assert flow.heightForWidth(wide) == one
    labels[0].show()
    flow.takeAt(0)
    assert flow.heightForWidth(wide) == one
    flow.addWidget(labels[0])
    labels[0].show()
    assert flow.heightForWidth(wide) > one
