"""The find field: searches nodes and commands and lists the matches below.

The list is a child of the window, not a popup window, so that the focus stays in the field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QSize,
    Qt,
    QTimer,
)
from PySide6.QtGui import QFocusEvent, QFont, QKeyEvent, QKeySequence, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QLabel,
    QLineEdit,
    QListView,
    QSizePolicy,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from espalier.app.translation import tr

Index = QModelIndex | QPersistentModelIndex
_ROOT = QModelIndex()
MAX_RESULTS = 60
VISIBLE_ROWS = 14
ROW_HEIGHT = 26
ENTRY = Qt.ItemDataRole.UserRole


@dataclass(frozen=True, slots=True)
class Entry:
    """A match: its title, its menu path or operation, its kind ("node", "command") and its action."""

    title: str
    detail: str
    kind: str
    run: Callable[[], object]


Search = Callable[[str], Sequence[Entry]]


def rank(text: str, title: str) -> int | None:
    """Rank a title for a search text, 0 best: all words start a word, are contained, or all letters occur in order.

    Returns None if the title does not match.
    """
    words, name = text.casefold().split(), title.casefold()
    if all(w in name for w in words):
        starts = all(name.startswith(w) or f" {w}" in name for w in words)
        return 0 if starts else 2
    position = 0
    for letter in "".join(words):
        position = name.find(letter, position) + 1
        if not position:
            return None
    return 12


class _Entries(QAbstractListModel):
    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.entries: Sequence[Entry] = ()

    def show(self, entries: Sequence[Entry]) -> None:
        self.beginResetModel()
        self.entries = entries
        self.endResetModel()

    def rowCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(self.entries)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        entry = self.entries[index.row()]
        if role == ENTRY:
            return entry
        if role == Qt.ItemDataRole.DisplayRole:
            return f"{entry.title}, {entry.kind}, {entry.detail}"
        return None


class _Painter(QStyledItemDelegate):
    """Paints the title at the left and the detail, muted, at the right."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(200, ROW_HEIGHT)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        entry: Entry = index.data(ENTRY)
        palette, rect = option.palette, option.rect.adjusted(12, 0, -12, 0)
        painter.save()
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(option.rect, palette.highlight())
            painter.setPen(palette.highlightedText().color())
        painter.setFont(option.font)
        title = option.fontMetrics.elidedText(entry.title, Qt.TextElideMode.ElideMiddle, rect.width() * 2 // 3)
        painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, title)
        room = rect.width() - option.fontMetrics.horizontalAdvance(title) - 24
        small = QFont(option.font)
        small.setPixelSize(11)
        painter.setFont(small)
        if not option.state & QStyle.StateFlag.State_Selected:
            painter.setPen(palette.placeholderText().color())
        detail = painter.fontMetrics().elidedText(entry.detail or entry.kind, Qt.TextElideMode.ElideLeft, room)
        painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, detail)
        painter.restore()


class ResultList(QFrame):
    """The list of matches below the field."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("popup", True)
        self.model = _Entries(self)
        self.view = QListView(uniformItemSizes=True)
        self.view.setModel(self.model)
        self.view.setItemDelegate(_Painter(self.view))
        self.view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.no_match = QLabel(wordWrap=True, margin=12)
        self.no_match.setProperty("role", "muted")
        box = QVBoxLayout(self)
        box.setContentsMargins(1, 5, 1, 5)
        box.addWidget(self.view)
        box.addWidget(self.no_match)
        self.hide()

    def show_entries(self, entries: Sequence[Entry], text: str) -> None:
        """Show matches, or a message if there are none."""
        self.model.show(entries)
        self.view.setVisible(bool(entries))
        self.no_match.setVisible(not entries)
        self.no_match.setText(tr("No match for “{}”. Try part of a node's name, an op, or a command.", text))
        if entries:
            self.view.setCurrentIndex(self.model.index(0))
        rows = min(len(entries), VISIBLE_ROWS)
        self.resize(self.width(), rows * ROW_HEIGHT + 14 if entries else self.no_match.sizeHint().height() + 26)

    def step(self, by: int) -> None:
        """Move the current row, wrapping at the ends."""
        if count := len(self.model.entries):
            self.view.setCurrentIndex(self.model.index((self.view.currentIndex().row() + by) % count))

    @property
    def current(self) -> Entry | None:
        """The entry of the current row."""
        row = self.view.currentIndex().row()
        return self.model.entries[row] if 0 <= row < len(self.model.entries) else None


MIN_WIDTH, MAX_WIDTH = 150, 330  # pixels; it shrinks in a narrow toolbar


class FindField(QLineEdit):
    """Searches while typing; Up and Down choose, Enter runs, Escape returns the focus to where it was."""

    def __init__(self, search: Search, parent: QWidget) -> None:
        super().__init__(placeholderText=tr("Find a node or a command"))
        self._matches, self._window = search, parent
        self._previous_focus: QWidget | None = None
        self.setAccessibleName(tr("Find a node or a command"))
        self.setMinimumWidth(MIN_WIDTH)
        self.setMaximumWidth(MAX_WIDTH)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.results = ResultList(parent)
        self.results.view.clicked.connect(lambda _: self._run_current())
        self._hint = QLabel("Ctrl+Shift+P", self)
        self._hint.setProperty("role", "small")
        self._hint.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._search_timer = QTimer(self, singleShot=True, interval=25)
        self._search_timer.timeout.connect(self._search)
        self.textEdited.connect(lambda _: self._search_timer.start())

    def show_keys(self, keys: tuple[str, ...]) -> None:
        """Show the last of the keys that lead here."""
        text = QKeySequence(keys[-1]).toString(QKeySequence.SequenceFormat.NativeText) if keys else ""
        self._hint.setText(text)
        self._hint.adjustSize()
        self._show_shortcut()

    def begin(self) -> None:
        """Take the focus and show the list."""
        if not self.hasFocus():
            self._previous_focus = QApplication.focusWidget()
        self.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.selectAll()
        self._search()

    def _search(self) -> None:
        text = self.text().strip()
        self._show_shortcut()
        corner = self.mapTo(self._window, QPoint(0, self.height() + 4))
        width = max(self.width(), 460)
        self.results.setFixedWidth(width)
        self.results.move(corner.x() + self.width() - width, corner.y())
        self.results.show_entries(self._matches(text)[:MAX_RESULTS], text)
        self.results.show()
        self.results.raise_()

    def _run_current(self) -> None:
        self._search_timer.stop()
        entry = self.results.current
        self._leave()
        if entry:
            entry.run()

    def _leave(self) -> None:
        self.results.hide()
        self.clear()
        self._show_shortcut()
        previous, self._previous_focus = self._previous_focus, None
        if previous is not None and isValid(previous) and previous.isVisible() and self.hasFocus():
            previous.setFocus()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_PageDown: 10, Qt.Key.Key_PageUp: -10}
        if event.key() in steps:
            self.results.step(steps[Qt.Key(event.key())])
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self._search_timer.isActive():
                self._search()
            self._run_current()
        elif event.key() == Qt.Key.Key_Escape:
            self._leave()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if event.reason() == Qt.FocusReason.MouseFocusReason:
            self._search()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.results.hide()

    def sizeHint(self) -> QSize:
        return QSize(MAX_WIDTH, super().sizeHint().height())

    def _show_shortcut(self) -> None:
        """Show the shortcut if the placeholder text leaves room for it."""
        text_width = self.fontMetrics().horizontalAdvance(self.placeholderText())
        self._hint.setVisible(not self.text() and self.width() > text_width + self._hint.sizeHint().width() + 30)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        size = self._hint.sizeHint()
        self._show_shortcut()
        self._hint.setGeometry(
            self.width() - size.width() - 9, (self.height() - size.height()) // 2, size.width(), size.height()
        )
