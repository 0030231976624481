"""Fields of a format are shown where they mean something."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QFont, QFontMetrics
from pytestqt.qtbot import QtBot

from espalier.app.widgets.forms.fields import BESIDE, NARROW, NARROW_FONT, Choice
from espalier.app.widgets.forms.format_editor import CHOICE_WIDTH, FormatEditor
from espalier.model.formats.base import parse_format

pytestmark = pytest.mark.gui


@pytest.fixture
def editor(qtbot: QtBot) -> FormatEditor:
    made = FormatEditor()
    qtbot.addWidget(made)
    made.show()
    return made


def shown(editor: FormatEditor) -> list[str]:
    assert len(editor._parameters.captions) <= len(editor.widgets)
    return [name for name, widget in editor.widgets.items() if widget.isVisible()]


def test_no_item_of_a_choice_is_cut_in_the_compact_row(qtbot: QtBot) -> None:
    editor = FormatEditor(compact=True)
    qtbot.addWidget(editor)
    editor.put(parse_format("scaled_integer(width=8, granularity=channel)"))
    editor.show()
    field = editor.widgets["granularity"]
    assert isinstance(field, Choice) and "channel" in [field.itemText(i) for i in range(field.count())]
    font = QFont(field.font())
    narrow = field.width() < NARROW
    if narrow:
        font.setPixelSize(NARROW_FONT)
    widest = max(QFontMetrics(font).horizontalAdvance(field.itemText(i)) for i in range(field.count()))
    assert field.width() - (0 if narrow else BESIDE) >= widest
    assert editor.widgets["width"].width() < field.width() and editor.choice.width() >= CHOICE_WIDTH


def test_the_size_of_groups_stands_beside_groups_alone(editor: FormatEditor) -> None:
    editor.put(parse_format("scaled_integer(width=8, granularity=channel)"))
    assert "granularity" in shown(editor) and "group" not in shown(editor)
    editor.widgets["granularity"].put("group")
    editor._parameter_changed("granularity")
    assert "group" in shown(editor)
    editor.put(parse_format("scaled_integer(width=8, granularity=tensor)"))
    assert "group" not in shown(editor)


def test_of_several_formats_all_that_may_mean_something(editor: FormatEditor) -> None:
    editor.put_many([parse_format(f"scaled_integer(width=8, granularity={g})") for g in ("group", "channel")])
    assert "group" in shown(editor)


def test_what_is_hidden_keeps_its_value(editor: FormatEditor) -> None:
    made = parse_format("scaled_integer(width=8, granularity=channel, group=64)")
    editor.put(made)
    assert editor.value() == made


def test_what_is_wrong_is_not_hidden(editor: FormatEditor, qtbot: QtBot) -> None:
    editor.put(parse_format("scaled_integer(width=8, granularity=group)"))
    group = editor.widgets["group"]
    group.selectAll()
    qtbot.keyClicks(group, "1")
    assert "1 is out of range" in editor.error
    editor.widgets["granularity"].put("channel")
    editor._parameter_changed("granularity")
    assert editor.error == "" and "group" not in shown(editor)
