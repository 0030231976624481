"""What is this? under the pointer, from context menus, from the list of formats and from the find field."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QMenu, QWidget
from pytestqt.qtbot import QtBot

from espalier.app.features.guide.window import GuideWindow
from espalier.app.features.nodes.panel import NodesPanel
from espalier.app.features.score.panel import Figure
from espalier.app.shell.what_is import Card, words_at
from espalier.app.shell.window import Window
from espalier.app.widgets.forms.format_choice import FormatChoice

pytestmark = pytest.mark.gui


def texts(card: QWidget) -> list[str]:
    return [label.text() for label in card.findChildren(QLabel)]


def card_of(window: Window) -> Card:
    (card,) = [c for c in window.findChildren(Card) if c.isVisible()]
    return card


def explained(window: Window, widget: QWidget, point: QPoint) -> list[str]:
    card = window.services.what_is.explain_at(widget, widget.mapToGlobal(point))
    found = texts(card)
    card.close()
    return found


def header_of(window: Window) -> tuple[QWidget, QPoint]:
    window.host.show_dock("nodes")
    panel = window.docks.panels["nodes"]
    assert isinstance(panel, NodesPanel)
    header, column = panel.table.horizontalHeader(), panel.table.rows.columns.index("macs")
    return header.viewport(), QPoint(header.sectionViewportPosition(column) + 5, header.height() // 2)


def test_a_column_header_is_explained(opened: Window) -> None:
    viewport, point = header_of(opened)
    assert words_at(viewport, viewport.mapToGlobal(point))[0] == "MACs"
    assert any("multiply–accumulate" in t.casefold() for t in explained(opened, viewport, point))


def test_the_button_of_a_workspace_is_explained_as_one(opened: Window) -> None:
    button = opened.pages.workbench.bar.buttons["graph"]
    assert words_at(button, button.mapToGlobal(button.rect().center()))[0] == "workspace Graph"
    assert any("inspector" in text for text in explained(opened, button, button.rect().center()))


def test_a_figure_of_the_status_bar_and_a_cell_are_explained(opened: Window) -> None:
    figure = next(f for f in opened.status.findChildren(Figure) if f.accessibleName() == "weight bits")
    found = explained(opened, figure, figure.rect().center())
    assert "Weight bits" in found and "cost" in found
    panel = opened.docks.panels["nodes"]
    assert isinstance(panel, NodesPanel)
    opened.host.show_dock("nodes")
    index = panel.table.rows.index(0, panel.table.rows.columns.index("op"))
    rect = panel.table.visualRect(index)
    assert "An input of the model." in explained(opened, panel.table.viewport(), rect.center())


def test_a_format_is_explained_with_formula_source_and_a_link(opened: Window, qtbot: QtBot) -> None:
    card = opened.services.what_is.explain("mxint4")
    found = texts(card)
    assert found[0] == "MXINT" and "number format" in found and any(t.startswith("Source: ") for t in found)
    card.links[0].click()
    guide = opened.findChild(GuideWindow)
    assert guide is not None and guide.path == "reference/formats.md"
    guide.close()


def test_a_word_without_an_entry_says_so_and_searches_the_guide(opened: Window) -> None:
    card = opened.services.what_is.explain("fleets")
    assert texts(card) == ["The guide has no entry for “fleets”."]
    card.links[0].click()
    guide = opened.findChild(GuideWindow)
    assert guide is not None and guide.query.text() == "fleets"
    guide.close()


def test_markup_in_names_stays_text(opened: Window) -> None:
    card = opened.services.what_is.explain("<b>bold</b>")
    label = card.findChild(QLabel)
    assert label is not None and label.textFormat() == Qt.TextFormat.PlainText and "<b>" in label.text()
    card.close()


def test_the_context_menu_of_a_header_offers_it(opened: Window, qtbot: QtBot) -> None:
    viewport, point = header_of(opened)
    header = viewport.parentWidget()
    header.customContextMenuRequested.emit(point)
    (menu,) = [m for m in header.findChildren(QMenu) if m.isVisible()]
    (action,) = menu.actions()
    assert action.text() == "What is “MACs”?"
    action.trigger()
    menu.close()
    card = card_of(opened)
    assert texts(card)[0] == "macs"
    card.close()
    header.customContextMenuRequested.emit(QPoint(100_000, 5))  # beside the sections: nothing to ask
    assert not [m for m in header.findChildren(QMenu) if m.isVisible() and m is not menu]


@pytest.mark.slow
def test_an_item_of_the_open_list_of_formats_is_explained_by_its_key(opened: Window, qtbot: QtBot) -> None:
    opened.session.select(["fc1"])
    opened.host.show_dock("inspector")
    choice = opened.docks.panels["inspector"].findChild(FormatChoice)
    assert choice is not None
    popup = choice.open_list("mxint")
    QTest.keyClick(popup.search, Qt.Key.Key_F1, Qt.KeyboardModifier.ShiftModifier)
    card = card_of(opened)
    assert texts(card)[0] == "MXINT"
    card.close()
    popup.close()


def test_the_find_field_answers_what_is(opened: Window) -> None:
    entries = opened.quick_find.entries("what is mxint4?")
    assert entries[0].title == "What is mxint4?" and entries[0].kind == "help"
    entries[0].run()
    card = card_of(opened)
    assert texts(card)[0] == "MXINT"
    card.close()
    assert "What is sparsity?" in [e.title for e in opened.quick_find.entries("sparsity")]
    assert not [e for e in opened.quick_find.entries("fc1") if e.kind == "help"]
    assert len(opened.quick_find.entries("what is ")) > 90


def test_the_key_explains_the_focus_where_the_pointer_is_elsewhere(
    opened: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("espalier.app.shell.what_is.QApplication.widgetAt", lambda _: None)
    opened.session.select(["fc1"])
    opened.host.show_dock("inspector")
    choice = opened.docks.panels["inspector"].findChild(FormatChoice)
    assert choice is not None
    monkeypatch.setattr("espalier.app.shell.what_is.QApplication.focusWidget", lambda: choice)
    opened.actions_table.run("what_is")
    card = card_of(opened)
    assert texts(card)[0] == "float"
    card.close()
    assert QApplication.activePopupWidget() is None


def test_a_node_of_the_canvas_is_explained_by_its_format(opened: Window, qtbot: QtBot) -> None:
    """The name of the canvas itself, for screen readers, is that of a pass."""
    canvas = opened.canvas
    qtbot.waitUntil(lambda: canvas.scene is not None and not canvas.waiting, timeout=10_000)
    assert canvas.scene is not None and canvas.graph is not None
    x, y, w, h = canvas.scene.rect_of(canvas.scene.layout.tree.index["fc1"]) or (0.0, 0.0, 0.0, 0.0)
    spot = canvas.camera.to_screen(x + w / 2, y + h / 2)
    words = words_at(canvas, canvas.mapToGlobal(QPoint(round(spot[0]), round(spot[1]))))
    assert words[:2] == ["fp32", "linear"] and "Graph" not in words
    corner = canvas.mapToGlobal(QPoint(2, canvas.height() - 3))
    assert not canvas.node_under(QPointF(2, canvas.height() - 3)) and "Graph" not in words_at(canvas, corner)
