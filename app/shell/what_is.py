"""Explains the word under the pointer, from a context menu or from the find field: a small window at the place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPoint, QPointF, Qt
from PySide6.QtGui import QCursor, QFont, QFontDatabase
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QComboBox,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QTabBar,
    QVBoxLayout,
    QWidget,
)

from espalier.app.canvas.node_metrics import badge
from espalier.app.canvas.view import GraphCanvas
from espalier.app.explanations import Explanation, explain, explain_first, explain_within
from espalier.app.translation import tr, translated
from espalier.app.widgets.asking import ASKING, header_text
from espalier.app.widgets.heading import link, muted

if TYPE_CHECKING:
    from espalier.app.features.guide.window import GuideWindow

WIDTH, EDGE = 420, 6  # pixels
KINDS = translated({"term": "term", "column": "column", "format": "number format", "pass": "pass", "cost": "cost",
         "operation": "operation", "workspace": "workspace"})  # fmt: skip


def words_at(widget: QWidget | None, screen: QPoint) -> list[str]:
    """The texts at a point of the screen, the innermost first."""
    words: list[str] = []
    while widget is not None:
        words += filter(None, _words(widget, widget.mapFromGlobal(screen)))
        if widget.isWindow():
            break
        widget = widget.parentWidget()
    return list(dict.fromkeys(words))


def _words(widget: QWidget, point: QPoint) -> list[str]:
    match widget:
        case QHeaderView():
            return [header_text(widget, widget.viewport().mapFromGlobal(widget.mapToGlobal(point)))]
        case QAbstractItemView():
            return _item_words(widget, widget.viewport().mapFromGlobal(widget.mapToGlobal(point)))
        case QTabBar():
            return [widget.tabText(widget.tabAt(point))]
        case QComboBox():
            return [widget.currentText(), str(widget.currentData() or "")]
        case QAbstractButton() if widget.property("workspace"):
            return [tr("workspace {}", widget.text())]  # its word alone may be that of a pass
        case QLabel() | QAbstractButton():
            return [widget.text().replace("&", ""), widget.accessibleName()]
        case GraphCanvas():
            return _node_words(widget, point)
        case _:
            return [widget.accessibleName()]


def _node_words(canvas: GraphCanvas, point: QPoint) -> list[str]:
    """The badge of the node at a pixel, and its operation; the graph itself is no word."""
    node = canvas.node_under(QPointF(point))
    if node is None or canvas.graph is None:
        return []
    return [badge(canvas.graph[node]), canvas.graph[node].op]


def _item_words(view: QAbstractItemView, point: QPoint) -> list[str]:
    index = view.indexAt(point)
    if not index.isValid():
        return []
    column = index.model().headerData(index.column(), Qt.Orientation.Horizontal, Qt.ItemDataRole.DisplayRole)
    return [str(index.data() or "").partition(" · ")[0], str(column or "")]


class Card(QFrame):
    """The explanations of a word, above everything until the next click or Escape."""

    def __init__(self, parent: QWidget, word: str, entries: tuple[Explanation, ...]) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("surface", "panel")
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setAccessibleName(tr("What is {}?", word))
        self.setFixedWidth(WIDTH)
        self.links: list[QAbstractButton] = []
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(14, 10, 14, 10)
        self._box.setSpacing(4)
        if not entries:
            self._box.addWidget(_text(f"The guide has no entry for “{word}”." if word else "There is no word here."))

    def add(self, entry: Explanation, open_guide: Callable[[], object]) -> None:
        """Add one explanation."""
        head = QHBoxLayout()
        self._box.addLayout(head)
        title = QLabel(entry.title)
        title.setTextFormat(Qt.TextFormat.PlainText)
        title.setProperty("role", "strong")
        head.addWidget(title)
        head.addWidget(muted(KINDS[entry.kind], wrap=False))
        head.addStretch(1)
        self._box.addWidget(_text(entry.text))
        if entry.formula:
            formula = _text(entry.formula)
            formula.setFont(QFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family(), 9))
            self._box.addWidget(formula)
        if entry.source:
            source = muted(tr("Source: {}", entry.source))
            source.setTextFormat(Qt.TextFormat.PlainText)
            self._box.addWidget(source)
        if entry.page:
            self.add_link(tr("Open the guide"), open_guide)

    def add_link(self, text: str, act: Callable[[], object]) -> None:
        """Add a link, which closes the card."""
        button = link(text, lambda: (self.close(), act()))
        self.links.append(button)
        self._box.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)

    def show_at(self, corner: QPoint) -> None:
        """Show it at a point of the screen, wholly on the screen."""
        self.adjustSize()
        area = self.screen().availableGeometry().adjusted(EDGE, EDGE, -EDGE, -EDGE)
        right, bottom = area.right() + 1 - self.width(), area.bottom() + 1 - self.height()
        self.move(max(area.left(), min(corner.x(), right)), max(area.top(), min(corner.y() + EDGE, bottom)))
        self.show()


def _text(text: str) -> QLabel:
    label = QLabel(text)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label


class WhatIs(QObject):
    """Shows cards. `guide`: shows the guide and returns its window."""

    def __init__(self, window: QWidget, guide: Callable[[], GuideWindow]) -> None:
        super().__init__(window)
        self._window, self._guide = window, guide
        ASKING.asked.connect(self._asked)

    def explain_pointer(self) -> Card:
        """Explain the word under the pointer; of the focus where the pointer is elsewhere."""
        screen = QCursor.pos()
        widget = QApplication.widgetAt(screen)
        if widget is None or widget.window() is not self._window:
            widget = QApplication.focusWidget() or self._window
            screen = widget.mapToGlobal(widget.rect().center())
        return self.explain_at(widget, screen)

    def explain_at(self, widget: QWidget, screen: QPoint) -> Card:
        """Explain the word at a point of the screen: a whole text, else a term within one."""
        words = words_at(widget, screen)
        word, entries = explain_first(words)
        if not entries:
            within = (explain_within(w) for w in words)
            word, entries = next(((w, e) for w, e in within if e), (word, entries))
        return self._show(word, entries, screen)

    def explain(self, word: str) -> Card:
        """Explain a word in the middle of the window."""
        place = self._window.mapToGlobal(QPoint((self._window.width() - WIDTH) // 2, self._window.height() // 5))
        return self._show(word, explain(word), place)

    def _asked(self, word: str, corner: QPoint) -> None:
        if self._window.isActiveWindow() or self._window.isVisible():
            self._show(word, explain(word), corner)

    def _show(self, word: str, entries: tuple[Explanation, ...], corner: QPoint) -> Card:
        card = Card(self._window, word, entries)
        for entry in entries:
            card.add(entry, lambda e=entry: self._guide().open(e.page, e.section, (e.title,)))
        if not entries:
            card.add_link(tr("Search the guide"), lambda: self._guide().query.setText(word))
        card.show_at(corner)
        return card
