"""The inspector: the list of formats."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.features.search.formats import FormatsField
from espalier.app.session.session import Session
from espalier.app.widgets.forms.format_choice import grouped
from espalier.model.formats.base import parse_format
from espalier.model.registry import FORMATS
from tests.gui.bert import KEY
from tests.gui.formats.inspecting import fmt_of

pytestmark = pytest.mark.gui


@pytest.mark.parametrize(
    ("wish", "found"),
    [("LinearBlockFP", ["block_fp"]), ("linearblockfp", ["block_fp"]), ("xnor", ["binary_scaled"]),
     ("block log", ["block_log"]), ("nothing like it", []),
     ("fixed point", ["integer", "scaled_integer", "scaled_element", "offset_integer"])],
)  # fmt: skip
def test_formats_are_found_by_alias(panel: InspectorPanel, session: Session, wish: str, found: list[str]) -> None:
    session.select((KEY,))
    shown = panel.precision.rows["weight"].editor.choice.open_list(wish)
    assert shown.offered() == found
    shown.close()


def test_typing_on_the_field_searches_and_enter_takes(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choice = panel.precision.rows["weight"].editor.choice
    QTest.keyClick(choice, Qt.Key.Key_M)
    shown = choice._list
    assert shown is not None and shown.search.text().casefold() == "m" and "mxint" in shown.offered()
    QTest.keyClicks(shown.search, "xint")
    QTest.keyClick(shown.search, Qt.Key.Key_Return)
    assert fmt_of(session, KEY, "weight") == parse_format("mxint")


def test_an_alias_that_names_parameters_gives_them(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choice = panel.precision.rows["weight"].editor.choice
    for wish, wanted in (
        ("int4", "scaled_integer(width=4)"),
        ("Affine", "scaled_integer(width=4, symmetric=False)"),  # of the same format: the rest stays
        ("int8", "scaled_integer(width=8, symmetric=False)"),
        ("scaled", "scaled_integer(width=8, symmetric=False)"),
        ("zero_one", "binary(bipolar=False)"),
        ("LinearInteger", "integer"),
    ):
        shown = choice.open_list(wish)
        QTest.keyClick(shown.search, Qt.Key.Key_Return)
        assert fmt_of(session, KEY, "weight") == parse_format(wanted), wish


def test_the_list_says_what_an_alias_means(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    shown = panel.precision.rows["weight"].editor.choice.open_list("int4")
    row = shown.items.currentItem()
    assert row is not None and row.text() == "scaled integer · width 4"
    shown.close()


def test_the_list_stays_on_the_screen_and_one_escape_closes_it(panel: InspectorPanel, session: Session) -> None:
    session.select((KEY,))
    choice, room = panel.precision.rows["weight"].editor.choice, panel.screen().availableGeometry()
    panel.window().move(room.right() - 150, room.bottom() - 60)
    taken: list[bool] = []
    key = QShortcut(QKeySequence(Qt.Key.Key_Escape), panel, lambda: taken.append(True))
    key.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    shown = choice.open_list()
    assert room.contains(shown.geometry())
    QTest.keyClick(shown.search, Qt.Key.Key_Escape)
    assert not shown.isVisible() and not taken


def test_the_list_has_groups_in_the_order_of_reading() -> None:
    names = ("float", *FORMATS)
    groups = dict(grouped(names))
    assert groups[""] == ("float",) and groups["block"][0] == "mxint" and "ternary" in groups["binary"]
    assert sorted(n for members in groups.values() for n in members) == sorted(names), "each once"


def test_a_search_takes_what_an_alias_says(qtbot: QtBot) -> None:
    field = FormatsField()
    qtbot.addWidget(field)
    shown = field.add.open_list("int4")
    QTest.keyClick(shown.search, Qt.Key.Key_Return)
    assert field.get().endswith("scaled_integer(width=4)")
