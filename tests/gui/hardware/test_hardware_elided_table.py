"""Tables of Hardware keep within their place: words are cut, numbers are not, and nothing scrolls sideways."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from espalier.app.features.hardware.elided_table import ElidedTable, column_widths
from espalier.app.features.hardware.tree import ModuleTree
from tests.patience import MILLISECONDS

pytestmark = pytest.mark.gui

LONG = "bert_encoder_layer_0_attention_self_query"
ROW = {"node": LONG, "instance": f"{LONG}_cast", "module": "cast_stream", "stream": "24×128 int 8/5, 1 a beat",
       "cycles": 3072, "busy": 0.25, "waits": None, "remark": "", "lut": 11111, "ff": 9999, "dsp": 12,
       "bram": 0}  # fmt: skip


def test_the_widest_words_give_way_first() -> None:
    assert column_widths((300, 80, 60), (True, True, False), 500) == [300, 80, 60]
    assert column_widths((300, 80, 60), (True, True, False), 240) == [100, 80, 60]
    assert column_widths((300, 300, 60), (True, True, False), 100) == [64, 64, 60], "least widths stay readable"
    assert column_widths((300, 300, 60), (False, False, False), 100) == [300, 300, 60]


def test_a_table_does_not_scroll_sideways(qtbot: QtBot) -> None:
    table = ElidedTable()
    qtbot.addWidget(table)
    table.resize(1000, 200)
    table.show_rows([ROW] * 40)
    table.show()
    qtbot.waitUntil(lambda: table.isVisible() and table.horizontalScrollBar().maximum() == 0, timeout=MILLISECONDS)
    numbers = [table.columnWidth(table.rows.columns.index(n)) for n in ("cycles", "lut")]
    table.resize(940, 200)  # the least is 770 without the window's style and 890 with it
    qtbot.waitUntil(lambda: table.horizontalScrollBar().maximum() == 0, timeout=MILLISECONDS)
    assert numbers == [table.columnWidth(table.rows.columns.index(n)) for n in ("cycles", "lut")]


def test_the_tree_of_modules_does_not_scroll_sideways(qtbot: QtBot) -> None:
    tree = ModuleTree()
    qtbot.addWidget(tree)
    tree.resize(400, 200)
    tree.show_design("top", [ROW] * 40)
    tree.show()
    qtbot.waitExposed(tree)
    assert tree.horizontalScrollBar().maximum() == 0


def needs(table: ElidedTable, name: str) -> int:
    """Pixels for the widest cell of a column, and its header as it is."""
    at = table.rows.columns.index(name)
    cells = (table.sizeHintForIndex(table.rows.index(k, at)).width() for k in range(len(table.rows.shown)))
    return max(*cells, table.horizontalHeader().sectionSizeHint(at))


def test_numbers_are_whole_in_all_rows_and_under_the_arrow(qtbot: QtBot) -> None:
    table = ElidedTable()
    qtbot.addWidget(table)
    table.resize(760, 200)
    table.show_rows([{**ROW, "lut": 7, "ff": 9}] * 60 + [{**ROW, "lut": 7, "ff": 1234567, "waits": 7654321}])
    table.show()
    qtbot.waitExposed(table)
    for name in ("ff", "lut", "dsp", "waits"):
        at = table.rows.columns.index(name)
        table.sortByColumn(at, Qt.SortOrder.DescendingOrder)
        assert "▾" in table.rows.headerData(at, Qt.Orientation.Horizontal)
        assert table.columnWidth(at) >= needs(table, name), name


def test_a_table_keeps_the_widths_that_a_person_gave(qtbot: QtBot) -> None:
    table = ElidedTable()
    qtbot.addWidget(table)
    table.resize(1140, 200)
    table.show_rows([ROW] * 40)
    table.show()
    qtbot.waitExposed(table)
    other = table.columnWidth(1)
    table.setColumnWidth(0, 200)
    for width in (1100, 1160):  # the least is 1026 then
        table.resize(width, 200)
        qtbot.waitUntil(lambda: table.horizontalScrollBar().maximum() == 0, timeout=MILLISECONDS)
        assert table.columnWidth(0) == 200 and table.columnWidth(1) < other, "the others give way"
    table.show_rows([{"node": "a", "instance": "b"}])
    assert table.columnWidth(0) < 200, "other rows have widths of their own"


def test_the_tree_keeps_the_widths_that_a_person_gave(qtbot: QtBot) -> None:
    tree = ModuleTree()
    qtbot.addWidget(tree)
    tree.resize(700, 300)
    tree.show_design("top", [ROW] * 3)
    tree.show()
    qtbot.waitExposed(tree)
    before, high = [tree.columnWidth(k) for k in range(6)], tree.viewport().height()
    tree.setColumnWidth(0, 400)
    qtbot.waitUntil(lambda: tree.viewport().height() < high)
    assert [tree.columnWidth(k) for k in range(6)] == [400, *before[1:]]
    tree.resize(750, 300)
    qtbot.waitUntil(lambda: tree.horizontalScrollBar().maximum() == 0, timeout=MILLISECONDS)
    assert tree.columnWidth(0) == 400
