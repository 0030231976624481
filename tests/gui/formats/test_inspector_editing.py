"""The inspector: edits go through the session, and changes come back."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QCoreApplication, QObject, Qt
from PySide6.QtGui import QCloseEvent, QKeySequence, QShortcutEvent
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.session.session import Session
from espalier.app.widgets.forms.fields import NumberField
from espalier.app.widgets.forms.format_editor import FLOAT
from espalier.model.formats.base import parse_format
from espalier.model.formats.integer import Integer
from tests.gui.bert import GELU, KEY, NORM, QUERY
from tests.gui.formats.inspecting import choose, fmt_of, write

pytestmark = pytest.mark.gui


def test_choosing_a_format_edits_the_document(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    assert fmt_of(session, KEY, "weight") == Integer()
    write(panel, "weight", "frac_width", "7")
    assert fmt_of(session, KEY, "weight") == Integer(8, 7)
    assert "range −1 … 0.992" in panel.precision.formula.text()
    assert [f.bits for f in panel.precision.bits.fields] == [1, 7]


def test_rapid_edits_are_one_undo_step_and_undo_comes_back(panel: InspectorPanel, session: Session) -> None:
    assert session.document is not None
    session.select((KEY,))
    choose(panel, "weight", "integer")
    for text in ("5", "6", "7"):
        write(panel, "weight", "frac_width", text)
    session.undo()
    row = panel.precision.rows["weight"]
    assert row.editor.choice.get() == FLOAT and row.sqnr.text() == "exact" and "fp32" in row.sqnr.toolTip()
    assert session.document.undo_label is None
    session.redo()
    assert row.editor.value() == Integer(8, 7)


def test_each_format_that_was_chosen_is_an_undo_step(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    for name in ("integer", "mxint"):
        choose(panel, "weight", name)
    session.undo()
    assert isinstance(panel.precision.rows["weight"].editor.value(), Integer)
    session.undo()
    assert panel.precision.rows["weight"].editor.choice.get() == FLOAT


def test_an_impossible_format_is_told_and_edits_nothing(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    write(panel, "weight", "width", "0")
    row = panel.precision.rows["weight"]
    assert "1 to 32" in row.editor.wrong.text() and row.editor.wrong.isVisible()
    assert fmt_of(session, KEY, "weight") == Integer()


def test_of_a_number_that_is_still_typed_nothing_is_applied(
    panel: InspectorPanel, session: Session, qtbot: QtBot
) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    editor = panel.precision.rows["weight"].editor
    field = editor.widgets["width"]
    field.selectAll()  # type: ignore[union-attr]
    QTest.keyClicks(field, "9")
    assert fmt_of(session, KEY, "weight") == Integer()
    QTest.keyClicks(field, "9")
    assert "1 to 32" in editor.wrong.text() and not panel.precision.typed._pause.isActive()
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert fmt_of(session, KEY, "weight") == Integer()  # neither 99 nor the 9 on the way to it
    field.selectAll()  # type: ignore[union-attr]
    QTest.keyClicks(field, "12")
    panel.precision.typed.forget()  # as Escape does
    panel.refresh()
    assert field.text() == "8"  # type: ignore[union-attr]
    field.selectAll()  # type: ignore[union-attr]
    QTest.keyClicks(field, "16")
    qtbot.waitUntil(lambda: fmt_of(session, KEY, "weight") == Integer(16))  # it is meant once no key follows


def test_an_edit_that_waits_is_of_the_nodes_it_was_typed_for(
    panel: InspectorPanel, session: Session, qtbot: QtBot
) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    field = panel.precision.rows["weight"].editor.widgets["width"]
    field.selectAll()  # type: ignore[union-attr]
    QTest.keyClicks(field, "6")
    session.select((QUERY,))
    qtbot.waitUntil(lambda: fmt_of(session, KEY, "weight") == Integer(6))
    assert fmt_of(session, QUERY, "weight") is None


@pytest.mark.parametrize("ends", ["saving", "shortcut", "close"])
def test_what_is_typed_is_part_of_whatever_comes_next(panel: InspectorPanel, session: Session, ends: str) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    field = panel.precision.rows["weight"].editor.widgets["width"]
    field.selectAll()  # type: ignore[union-attr]
    QTest.keyClicks(field, "6")
    assert fmt_of(session, KEY, "weight") == Integer()
    if ends == "saving":
        session.saving.emit()
    else:
        event = QShortcutEvent(QKeySequence("Ctrl+E"), 0) if ends == "shortcut" else QCloseEvent()
        QCoreApplication.sendEvent(QObject(), event)
    assert fmt_of(session, KEY, "weight") == Integer(6)


def test_escape_does_not_make_an_edit_of_what_is_typed(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    field = panel.precision.rows["weight"].editor.widgets["width"]
    field.selectAll()  # type: ignore[union-attr]
    QTest.keyClicks(field, "6")
    QCoreApplication.sendEvent(QObject(), QShortcutEvent(QKeySequence(Qt.Key.Key_Escape), 0))
    assert fmt_of(session, KEY, "weight") == Integer()
    panel.precision.typed.forget()


def test_a_range_of_widths_is_seen_whole(panel: InspectorPanel, session: Session) -> None:
    for node, width in ((KEY, 10), (QUERY, 16)):
        session.set_format((node,), "weight", Integer(width, 4))
    session.select((KEY, QUERY))
    field = panel.precision.rows["weight"].editor.widgets["width"]
    assert isinstance(field, NumberField) and field.placeholderText() == "10–16"
    field.ensurePolished()
    assert field.fontMetrics().horizontalAdvance("10–16") <= field.width() - 6  # the frame, and Qt's own margins
    field.put(4)
    assert field.fontMetrics().horizontalAdvance("10–16") > field.width() - 6  # a single number has its usual size


def test_arrow_keys_step(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    QTest.keyClick(panel.precision.rows["weight"].editor.widgets["frac_width"], Qt.Key.Key_Up)
    assert fmt_of(session, KEY, "weight") == Integer(8, 5)


def test_mixed_values_show_as_mixed_and_keep_what_is_not_edited(panel: InspectorPanel, session: Session) -> None:
    session.set_format((KEY,), "weight", Integer(8, 7))
    session.set_format((QUERY,), "weight", Integer(6, 4))
    session.select((KEY, QUERY))
    assert panel.title.text() == "2 nodes" and panel.path.text() == "encoder.layer.0.attention.self"
    editor = panel.precision.rows["weight"].editor
    assert editor.choice.get() == "integer"
    assert editor.widgets["width"].placeholderText() == "6–8"  # type: ignore[union-attr]
    assert editor.wrong.isHidden()
    write(panel, "weight", "frac_width", "5")
    assert fmt_of(session, KEY, "weight") == Integer(8, 5)
    assert fmt_of(session, QUERY, "weight") == Integer(6, 5)


def test_one_format_for_many(panel: InspectorPanel, session: Session) -> None:
    session.set_format((KEY,), "weight", Integer(8, 7))
    session.select((KEY, QUERY, NORM, GELU))
    rows = panel.precision.rows
    assert rows["weight"].editor.choice.currentIndex() == -1
    assert rows["weight"].sqnr.text() == "3 nodes" and rows["data_in"].sqnr.text() == "exact"
    assert "3 of the 4 selected nodes have weight" in rows["weight"].sqnr.toolTip()
    choose(panel, "weight", "integer")
    assert fmt_of(session, QUERY, "weight") == fmt_of(session, KEY, "weight") == fmt_of(session, NORM, "weight") != None  # noqa: E711
    assert fmt_of(session, GELU, "weight") is None
    session.select((KEY,))
    assert not rows["weight"].sqnr.toolTip().endswith("have weight")


def test_an_empty_bias_is_the_standard_one(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choose(panel, "weight", "minifloat_ieee")
    field = panel.precision.rows["weight"].editor.widgets["exponent_bias"]
    assert isinstance(field, NumberField) and field.placeholderText() == "standard" and not field.text()
    write(panel, "weight", "exponent_bias", "9")
    assert fmt_of(session, KEY, "weight") == parse_format("minifloat_ieee(exponent_bias=9)")
    field.selectAll()
    QTest.keyClick(field, Qt.Key.Key_Delete)
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert fmt_of(session, KEY, "weight") == parse_format("minifloat_ieee")


def test_a_mixed_edit_is_one_step_however_often_it_is_typed(panel: InspectorPanel, session: Session) -> None:
    assert session.document is not None
    session.set_format((KEY,), "weight", Integer(8, 7))
    session.set_format((QUERY,), "weight", Integer(6, 4))
    session.select((KEY, QUERY))
    for text in ("5", "3", "2"):
        write(panel, "weight", "frac_width", text)
    assert len(session.document.recipe) == 1 and len(session.document.recipe.steps[0].options.rules) == 2
    assert fmt_of(session, KEY, "weight") == Integer(8, 2) and fmt_of(session, QUERY, "weight") == Integer(6, 2)


def test_other_changes_do_not_touch_the_fields(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choose(panel, "weight", "integer")
    field = panel.precision.rows["weight"].editor.widgets["width"]
    field.setText("1")  # half typed
    session.set_format((QUERY,), "weight", Integer(6, 4))
    assert field.text() == "1"
