"""The wheel edits nothing, headings are complete, and long texts show their start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractItemView, QApplication, QLineEdit, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from espalier.app.features.inspector.panel import InspectorPanel
from espalier.app.features.inspector.widgets import ShareSlider
from espalier.app.session.session import Session
from espalier.app.shell.loading import LoadingPage
from espalier.app.theme import DARK
from espalier.app.widgets.forms.fields import Choice, WordList, tokens
from espalier.app.widgets.style import Appearance
from espalier.model.formats.integer import Integer
from espalier.model.registry import FORMATS
from tests.gui.bert import KEY, open_bert
from tests.gui.conftest import FakeRunner
from tests.patience import PatientBot

pytestmark = pytest.mark.gui


@pytest.fixture
def panel(qtbot: QtBot, session: Session, runner: list[FakeRunner]) -> Iterator[InspectorPanel]:
    """The inspector with a layer selected that has a format."""
    open_bert(session, runner)
    made = InspectorPanel(session)
    made.resize(320, 800)
    made.show()
    session.select((KEY,))
    session.set_format((KEY,), "weight", Integer(8, 4))
    yield made
    made.close()
    made.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def format_now(session: Session) -> object:
    return session.open_document.graph.nodes[KEY].precision["weight"].format


def notch() -> QWheelEvent:
    at, none, phase = QPointF(8, 8), Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase
    return QWheelEvent(at, at, QPoint(), QPoint(0, -120), Qt.MouseButton.NoButton, none, phase, False)


def test_a_wheel_that_passes_edits_nothing(panel: InspectorPanel, session: Session, qtbot: PatientBot) -> None:
    editor = panel.precision.rows["weight"].editor
    field = editor.widgets["width"]
    sliders = panel.findChildren(ShareSlider)
    assert sliders
    before = [s.value() for s in sliders]
    for passed in (editor.choice, field, *sliders):
        assert passed.focusPolicy() == Qt.FocusPolicy.StrongFocus  # a WheelFocus is taken first, then used
        passed.clearFocus()
        QApplication.sendEvent(passed, notch())
    assert format_now(session) == Integer(8, 4) and [s.value() for s in sliders] == before
    qtbot.focus(field)
    QApplication.sendEvent(field, notch())
    assert format_now(session) == Integer(7, 4)


def test_a_real_wheel_over_a_closed_list_leaves_it(qtbot: PatientBot) -> None:
    ground, made, line = QWidget(), Choice(("a", "b", "c")), QLineEdit()
    qtbot.addWidget(ground)
    column = QVBoxLayout(ground)
    column.addWidget(made)
    column.addWidget(line)
    ground.show()
    qtbot.focus(line)
    at = QPointF(made.geometry().center())
    QTest.wheelEvent(ground.windowHandle(), at, QPoint(0, -120))
    QApplication.processEvents()
    assert line.hasFocus() and made.get() == "a"
    made.setFocus()
    QTest.wheelEvent(ground.windowHandle(), at, QPoint(0, -120))
    QApplication.processEvents()
    assert made.get() == "b"


def test_an_open_list_scrolls_by_pixels_and_is_as_wide_as_its_words(qtbot: QtBot) -> None:
    made = Choice(tuple(f"a choice of many words, number {n}" for n in range(60)))
    qtbot.addWidget(made)
    made.show()
    made.showPopup()
    view = made.view()
    assert view.isVisible() and view.verticalScrollMode() == QAbstractItemView.ScrollMode.ScrollPerPixel
    assert view.width() >= view.fontMetrics().horizontalAdvance(made.itemText(59))
    made.hidePopup()


def test_no_heading_of_a_format_is_cut(panel: InspectorPanel) -> None:
    choice = panel.precision.rows["weight"].editor.choice
    for name in FORMATS:
        choice.put(name)
        choice.activated.emit(choice.currentIndex())
        heads = [h for h in panel.precision._heads if h.text()]
        assert heads
        for label in heads:
            assert label.fontMetrics().horizontalAdvance(label.text()) <= label.width(), (name, label.text())


def test_a_disabled_list_keeps_its_theme(qtbot: QtBot, qapp: QApplication) -> None:
    appearance = Appearance(qapp, "dark")
    made = Choice(("a",))
    qtbot.addWidget(made)
    made.setEnabled(False)
    made.show()
    assert tokens(made) is DARK
    ground = made.grab().toImage().pixelColor(made.width() // 2, 4)
    assert ground.lightness() < 128
    appearance.set_mode("light")
    appearance.deleteLater()


def test_the_words_of_opening_stand_above_the_middle_of_the_bar(qtbot: QtBot) -> None:
    page = LoadingPage()
    qtbot.addWidget(page)
    page.resize(1200, 700)
    page.show()
    page.begin("Opening demo:small")
    QApplication.processEvents()
    for label in (page._title, page._text):
        assert abs(label.geometry().center().x() - page.rect().center().x()) <= 1


def test_a_long_source_is_opened_with_all_its_lines_shown(qtbot: QtBot) -> None:
    """Sources have no spaces at which a line could end, and can look like markup."""
    page = LoadingPage()
    qtbot.addWidget(page)
    page.resize(1280, 700)
    page.show()
    source = "config:gpt2?n_layer=3&n_embd=24&n_head=3&vocab_size=97&n_positions=64&<b>x</b>=/a/folder/of/models"
    page.begin(f"Opening {source}")
    page.show_progress(f"opening {source}")
    QApplication.processEvents()
    for label in (page._title, page._text):
        assert label.text().replace("\u200b", "").endswith(source) and label.textFormat() == Qt.TextFormat.PlainText
        needed = label.fontMetrics().boundingRect(label.rect(), int(Qt.TextFlag.TextWordWrap), label.text())
        assert needed.width() <= label.width() and needed.height() <= label.height()


def test_a_long_text_shows_its_beginning(qtbot: QtBot) -> None:
    made = WordList(float)
    qtbot.addWidget(made)
    made.put(tuple(i / 10 for i in range(60)))
    assert made.cursorPosition() == 0
    made.setCursorPosition(3)
    made.put(made.get())
    assert made.cursorPosition() == 3  # the same again does not move it
