"""The guide in the window: F1 opens it, links lead to pages and sections, a search leads to sections."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt, QUrl
from PySide6.QtGui import QColor, QDesktopServices, QHelpEvent, QImage, QTextCursor
from PySide6.QtWidgets import (
    QApplication,
    QLineEdit,
    QTextBrowser,
    QToolButton,
    QToolTip,
    QTreeWidget,
    QTreeWidgetItem,
    QTreeWidgetItemIterator,
)

from espalier.app.features.guide.pages import pages
from espalier.app.features.guide.reader import Reader
from espalier.app.features.guide.window import GuideWindow
from espalier.app.shell.window import Window
from espalier.app.theme import DARK
from tests.patience import PatientBot

pytestmark = pytest.mark.gui


@pytest.fixture
def guide(window: Window, qtbot: PatientBot) -> GuideWindow:
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    qtbot.keyClick(window, Qt.Key.Key_F1)
    found = window.findChild(GuideWindow)
    assert found is not None and found.isVisible()
    return found


def tree(guide: GuideWindow, name: str) -> QTreeWidget:
    return next(t for t in guide.findChildren(QTreeWidget) if t.accessibleName() == name)


def rows(tree: QTreeWidget) -> list[QTreeWidgetItem]:
    walk, found = QTreeWidgetItemIterator(tree), []
    while walk.value():
        found.append(walk.value())
        walk += 1
    return found


def reader(guide: GuideWindow) -> Reader:
    found = guide.findChild(Reader)
    assert found is not None
    return found


def button(guide: GuideWindow, name: str) -> QToolButton:
    return next(b for b in guide.findChildren(QToolButton) if b.accessibleName() == name)


def first_line(guide: GuideWindow) -> str:
    return reader(guide).document().begin().text()


def type_query(guide: GuideWindow, qtbot: PatientBot, text: str) -> None:
    field = guide.findChild(QLineEdit)
    assert field is not None
    field.clear()
    qtbot.focus(field)
    qtbot.keyClicks(field, text)


def test_the_list_holds_all_pages_and_opens_them(window: Window, guide: GuideWindow) -> None:
    window.actions_table.run("guide")
    assert window.findChildren(GuideWindow) == [guide] and first_line(guide) == "Guide"
    contents = tree(guide, "Pages of the guide")
    by_path = {r.data(0, Qt.ItemDataRole.UserRole)[0]: r for r in rows(contents) if r.data(0, Qt.ItemDataRole.UserRole)}
    assert set(by_path) == {p.path for p in pages()}
    contents.setCurrentItem(by_path["hardware.md"])
    assert first_line(guide) == "Hardware" and guide.windowTitle() == "Hardware · Guide"


@pytest.mark.slow
def test_every_page_is_shown_whole(guide: GuideWindow) -> None:
    for page in pages():
        guide.open(page.path)
        text = reader(guide).toPlainText()
        assert len(text) > 50 and "```" not in text and "\n|" not in text, page.path


def test_links_lead_to_sections_and_back(guide: GuideWindow) -> None:
    page = reader(guide)
    page.anchorClicked.emit(QUrl("command-line.md#what-the-score-means"))
    top = page.cursorForPosition(page.viewport().rect().topLeft()).block()
    near = [b.text() for b in (top, top.next(), top.next().next())]
    assert first_line(guide) == "The command line" and "What the score means" in near
    page.anchorClicked.emit(QUrl("reference/passes.md"))
    page.anchorClicked.emit(QUrl("../lora.md"))
    assert first_line(guide) == "LoRA"
    button(guide, "Back").click()
    assert first_line(guide) == "Passes" and button(guide, "Forward").isEnabled()
    button(guide, "Forward").click()
    assert first_line(guide) == "LoRA" and not button(guide, "Forward").isEnabled()


def test_links_out_of_the_guide(guide: GuideWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toString()))
    for target in ("https://example.invalid/x", "../../main.py", "file:///etc/passwd", "missing.md"):
        reader(guide).anchorClicked.emit(QUrl(target))
    assert opened == ["https://example.invalid/x"] and first_line(guide) == "Guide"


def test_a_search_leads_to_a_section_with_its_words_marked(guide: GuideWindow, qtbot: PatientBot) -> None:
    type_query(guide, qtbot, "storage token")
    results = tree(guide, "Sections found")
    qtbot.waitUntil(lambda: results.isVisible() and results.topLevelItemCount() > 3)
    assert not tree(guide, "Pages of the guide").isVisible()
    field = guide.findChild(QLineEdit)
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert first_line(guide) == "Fleets"
    marked = {s.cursor.selectedText().casefold() for s in reader(guide).extraSelections()}
    assert marked == {"storage", "token"}
    type_query(guide, qtbot, "zzzz quokka")
    qtbot.waitUntil(lambda: results.topLevelItemCount() == 0)
    field.clear()
    qtbot.waitUntil(lambda: tree(guide, "Pages of the guide").isVisible())


def test_pictures_fit_the_page_and_nothing_else_is_read(guide: GuideWindow, tmp_path: Path) -> None:
    page = reader(guide)
    kind = 2  # an image
    picture = page.loadResource(kind, QUrl("pictures/window-light.png"))
    assert isinstance(picture, QImage) and 300 < picture.deviceIndependentSize().width() <= page.viewport().width()
    outside = tmp_path / "x.png"
    picture.save(str(outside))
    for target in (outside.as_uri(), f"../../../{outside}", "https://example.invalid/x.png"):
        assert page.loadResource(kind, QUrl(target)).isNull()


def test_the_page_follows_the_theme(window: Window, guide: GuideWindow) -> None:
    guide.open("formats.md")
    window.appearance.set_mode("dark")
    grounds = {reader(guide).document().findBlockByNumber(n).begin().fragment().charFormat().background().color().name()
               for n in range(40)}  # fmt: skip
    assert QColor(DARK.group).name() in grounds
    window.appearance.set_mode("light")


def point_at(page: QTextBrowser, word: str) -> QPoint:
    """The middle of a word's first occurrence, scrolled into view."""
    cursor = page.document().find(word)
    assert not cursor.isNull()
    page.setTextCursor(cursor)
    page.ensureCursorVisible()
    end, cursor = page.cursorRect(cursor), QTextCursor(cursor)
    cursor.setPosition(cursor.anchor())
    begin = page.cursorRect(cursor)
    return QPoint((begin.center().x() + end.center().x()) // 2, begin.center().y())


def test_a_term_of_the_glossary_is_explained_under_the_pointer(guide: GuideWindow) -> None:
    guide.open("search.md")
    page = reader(guide)
    for word, line in (("Pareto front", "Pareto front: the config"), ("Trials", "trial: one"), ("It uses Optuna", "")):
        found = page.term_at(point_at(page, word))
        assert found.startswith(line) and bool(found) == bool(line), word
    code = point_at(page, "goals = ")
    assert page.term_at(code) == "" == page.term_at(QPoint(page.viewport().width() - 2, code.y()))
    at = point_at(page, "Pareto front")
    QApplication.sendEvent(page.viewport(), QHelpEvent(QEvent.Type.ToolTip, at, page.viewport().mapToGlobal(at)))
    assert QToolTip.text().startswith("Pareto front: ")
