"""A splitter that follows the width of its panel."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from espalier.app.widgets.adaptive_splitter import AdaptiveSplitter

pytestmark = pytest.mark.gui


def test_parts_turn_with_the_width(qtbot: QtBot) -> None:
    split = AdaptiveSplitter(500, (3, 2))
    qtbot.addWidget(split)
    parts = QWidget(), QWidget()
    split.add(*parts)
    split.resize(400, 500)
    split.show()
    assert split.orientation() == Qt.Orientation.Vertical
    assert [p.width() for p in parts] == [400, 400] and abs(parts[0].height() - 300) < 4
    split.resize(1000, 500)
    assert split.orientation() == Qt.Orientation.Horizontal
    assert [p.height() for p in parts] == [500, 500] and abs(parts[0].width() - 600) < 4
    split.setSizes([200, 799])
    split.resize(900, 500)
    assert parts[0].width() < 300, "what the user set is kept while the direction is"
    split.resize(499, 500)
    assert split.orientation() == Qt.Orientation.Vertical and parts[0].y() == 0 < parts[1].y()
