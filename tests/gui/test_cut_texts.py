"""No text of any workspace or panel is cut at 1440 × 900."""

from __future__ import annotations

import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QHBoxLayout, QLabel, QPushButton, QTableWidget, QWidget
from pytestqt.qtbot import QtBot

from espalier.app.shell.window import Window
from espalier.app.shell.workspaces import WORKSPACES
from espalier.app.widgets.forms.fields import Choice
from espalier.model.formats.base import parse_format
from tests.gui.cut_texts import cut_texts

pytestmark = pytest.mark.gui


def test_cut_texts_are_found(qtbot: QtBot) -> None:
    """The search itself: each kind of text that does not fit is named, and none that does."""
    ground = QWidget()
    qtbot.addWidget(ground)
    row = QHBoxLayout(ground)
    table = QTableWidget(1, 2)
    table.setHorizontalHeaderLabels(["a title that is long", "b"])
    table.setColumnWidth(0, 30)
    parts = {"a label": QLabel("a label"), "a button": QPushButton("a button"), "a choice": Choice(("a choice",))}
    for part in (*parts.values(), table):
        row.addWidget(part)
    ground.resize(900, 200)
    ground.show()
    QApplication.processEvents()
    assert cut_texts(ground) == ["QHeaderView: a title that is long"]
    for part in parts.values():
        part.setFixedWidth(24)
    QApplication.processEvents()
    assert [t.partition(": ")[2] for t in cut_texts(ground)] == [*parts, "a title that is long"]


@pytest.mark.slow
def test_no_text_of_a_workspace_or_a_panel_is_cut(opened: Window) -> None:
    opened.resize(1440, 900)
    opened.live.enabled = False
    opened.session.set_format(["fc1"], "weight", parse_format("scaled_integer(width=8, granularity=channel)"))
    opened.session.select(("fc1",))
    found: dict[str, str] = {}

    def look(where: str) -> None:
        QTest.qWait(100)
        patience = 30
        while cut_texts(opened) and (patience := patience - 1):  # a result that has just come is laid out
            QTest.qWait(100)
        for text in cut_texts(opened):
            found.setdefault(text, where)

    for workspace in WORKSPACES:
        opened.pages.workbench.bar.buttons[workspace.id].click()
        look(workspace.title)
    for name in opened.docks.docks:
        opened.docks.bring(name)
        look(name)
    assert not found
