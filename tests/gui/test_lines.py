"""Appended lines: few of them stay laid out, and the reader does not notice when layouts are dropped."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from espalier.app.widgets.lines import LAID_OUT, Lines

pytestmark = pytest.mark.gui


def laid_out(lines: Lines) -> int:
    """Blocks of text whose layout has lines, and thus glyphs."""
    document = lines.document()
    return sum(document.findBlockByNumber(n).lineCount() > 0 and document.findBlockByNumber(n).layout().lineCount() > 0
               for n in range(document.blockCount()))  # fmt: skip


@pytest.mark.parametrize("visible", [True, False])
def test_few_lines_stay_laid_out(qtbot: QtBot, visible: bool) -> None:
    lines = Lines(5000)
    qtbot.addWidget(lines)
    lines.resize(600, 200)
    lines.setVisible(visible)
    for number in range(4 * LAID_OUT + 100):
        lines.add(f"line\u00a0{number}")
        if number % 50 == 0:
            QApplication.processEvents()
    assert laid_out(lines) < LAID_OUT
    assert lines.document().blockCount() == 4 * LAID_OUT + 100
    assert lines.document().toRawText().startswith("line\u00a00\u2029line\u00a01\u2029")


def test_the_oldest_lines_are_dropped(qtbot: QtBot) -> None:
    lines = Lines(700)
    qtbot.addWidget(lines)
    for number in range(2 * LAID_OUT):
        lines.add(f"line {number}")
    assert lines.toPlainText().splitlines()[0] == f"line {2 * LAID_OUT - 700}"
    assert lines.document().blockCount() == 700


def test_selection_and_scroll_position_stay(qtbot: QtBot) -> None:
    lines = Lines(5000)
    qtbot.addWidget(lines)
    lines.resize(600, 200)
    lines.show()
    for number in range(LAID_OUT - 1):
        lines.add(f"line {number}")
    bar = lines.verticalScrollBar()
    assert bar.value() == bar.maximum() > 0
    cursor = lines.textCursor()
    cursor.setPosition(300)
    cursor.setPosition(350, QTextCursor.MoveMode.KeepAnchor)
    lines.setTextCursor(cursor)
    chosen = cursor.selectedText()
    bar.setValue(20)
    lines.add("the line that drops the layouts")
    assert laid_out(lines) < 100
    assert bar.value() == 20 and lines.textCursor().selectedText() == chosen
    bar.setValue(bar.maximum())
    for number in range(LAID_OUT):
        lines.add(f"more {number}")
    assert bar.value() == bar.maximum(), "the end stays in sight"
