"""A change of the theme takes time in proportion to the widgets, however deep they lie."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from PySide6.QtWidgets import QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from espalier.app.widgets.plain_text_style import PlainTextStyle
from espalier.app.widgets.style import Appearance

pytestmark = pytest.mark.gui
DEEP = 24


def test_no_widget_is_polished_once_for_each_that_holds_it(
    qtbot: QtBot, appearance: Appearance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four tabs took 14 s: Qt polishes the children of each widget again when it replaces a style sheet."""
    outer = QWidget()
    qtbot.addWidget(outer)
    chain = [outer]
    for _ in range(DEEP):
        box = QVBoxLayout(chain[-1])
        chain.append(QWidget())
        box.addWidget(chain[-1])
    outer.show()
    counts, plain = Counter[int](), PlainTextStyle.polish

    def polish(self: PlainTextStyle, what: Any) -> Any:
        counts[id(what)] += isinstance(what, QWidget)
        return plain(self, what)

    monkeypatch.setattr(PlainTextStyle, "polish", polish)
    mode = appearance.mode
    appearance.set_mode("dark" if mode == "light" else "light")
    appearance.set_mode(mode)
    assert 2 <= counts[id(chain[-1])] <= 8, "twice for each change"
