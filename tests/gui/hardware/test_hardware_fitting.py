"""Tables of Hardware keep within their place: words are cut, numbers are not, and nothing scrolls sideways."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.panels.hardware.fitting import FittedTable, shared
from app.panels.hardware.tree import ModuleTree
from tests.patience import MILLISECONDS

pytestmark = pytest.mark.gui

LONG = "bert_encoder_layer_0_attention_self_query"
ROW = {"node": LONG, "instance": f"{LONG}_cast", "module": "cast_stream", "stream": "24×128 int 8/5, 1 a beat",
       "cycles": 3072, "busy": 0.25, "waits": None, "remark": "", "lut": 11111, "ff": 9999, "dsp": 12,
       "bram": 0}  # fmt: skip


def test_the_widest_words_give_way_first() -> None:
    assert shared((300, 80, 60), (True, True, False), 500) == [300, 80, 60]
    assert shared((300, 80, 60), (True, True, False), 240) == [100, 80, 60]
    assert shared((300, 300, 60), (True, True, False), 100) == [40, 40, 60], "least widths stay readable"
    assert shared((300, 300, 60), (False, False, False), 100) == [300, 300, 60]


def test_a_table_does_not_scroll_sideways(qtbot: QtBot) -> None:
    table = FittedTable()
    qtbot.addWidget(table)
    table.resize(760, 200)
    table.show_rows([ROW] * 40)
    table.show()
    qtbot.waitUntil(lambda: table.isVisible() and table.horizontalScrollBar().maximum() == 0, timeout=MILLISECONDS)
    numbers = [table.columnWidth(table.rows.columns.index(n)) for n in ("cycles", "lut")]
    table.resize(660, 200)
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
