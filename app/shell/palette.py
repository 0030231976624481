"""The find field: nodes and commands in one list, by a few letters, with the keyboard alone.

The list is a child of the window, not a window of its own, so focus never leaves the field.
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
from PySide6.QtGui import QFocusEvent, QFont, QKeyEvent, QPainter, QResizeEvent
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

Index = QModelIndex | QPersistentModelIndex
_NOWHERE = QModelIndex()
SHOWN = 60
ROW_HEIGHT = 26
ENTRY = Qt.ItemDataRole.UserRole


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the list: what it is called, where or how else it is reached, what choosing it does."""

    title: str
    detail: str
    kind: str
    run: Callable[[], object]


Finder = Callable[[str], Sequence[Entry]]


def rank(text: str, title: str) -> int | None:
    """How well `text` fits a title (0 is best), or None: every word is in it, or its letters are, in order."""
    wish, name = text.casefold().split(), title.casefold()
    if all(w in name for w in wish):
        starts = all(name.startswith(w) or f" {w}" in name for w in wish)
        return 0 if starts else 2
    place = 0
    for letter in "".join(wish):
        place = name.find(letter, place) + 1
        if not place:
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

    def rowCount(self, parent: Index = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.entries)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        entry = self.entries[index.row()]
        if role == ENTRY:
            return entry
        if role == Qt.ItemDataRole.DisplayRole:
            return f"{entry.title}, {entry.kind}, {entry.detail}"
        return None


class _Painter(QStyledItemDelegate):
    """Title at the left, the rest muted at the right."""

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


class FindList(QFrame):
    """The list that drops from the field."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("popup", True)
        self.model = _Entries(self)
        self.view = QListView(uniformItemSizes=True)
        self.view.setModel(self.model)
        self.view.setItemDelegate(_Painter(self.view))
        self.view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.nothing = QLabel(wordWrap=True, margin=12)
        self.nothing.setProperty("role", "muted")
        box = QVBoxLayout(self)
        box.setContentsMargins(1, 5, 1, 5)
        box.addWidget(self.view)
        box.addWidget(self.nothing)
        self.hide()

    def show_entries(self, entries: Sequence[Entry], text: str) -> None:
        """Show what was found, or say that nothing was."""
        self.model.show(entries)
        self.view.setVisible(bool(entries))
        self.nothing.setVisible(not entries)
        self.nothing.setText(f"No match for “{text}”. Try part of a node's name, an op, or a command.")
        if entries:
            self.view.setCurrentIndex(self.model.index(0))
        rows = min(len(entries), 14)
        self.resize(self.width(), rows * ROW_HEIGHT + 14 if entries else self.nothing.sizeHint().height() + 26)

    def step(self, by: int) -> None:
        """Move the mark, round the ends."""
        if count := len(self.model.entries):
            self.view.setCurrentIndex(self.model.index((self.view.currentIndex().row() + by) % count))

    @property
    def current(self) -> Entry | None:
        """The marked entry."""
        row = self.view.currentIndex().row()
        return self.model.entries[row] if 0 <= row < len(self.model.entries) else None


LEAST, MOST = 150, 330  # pixels that the field gives way between, lest it leave a narrow toolbar


class FindField(QLineEdit):
    """Type to find; up and down choose, Enter goes there, Escape leaves: the keys go back to where they were."""

    def __init__(self, finder: Finder, parent: QWidget) -> None:
        super().__init__(placeholderText="Find a node or a command")
        self._finder, self._window = finder, parent
        self._before: QWidget | None = None
        self.setAccessibleName("Find a node or a command")
        self.setMinimumWidth(LEAST)
        self.setMaximumWidth(MOST)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.found = FindList(parent)
        self.found.view.clicked.connect(lambda _: self._go())
        self._hint = QLabel("Ctrl+Shift+P", self)
        self._hint.setProperty("role", "small")
        self._hint.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._wait = QTimer(self, singleShot=True, interval=25)
        self._wait.timeout.connect(self._search)
        self.textEdited.connect(lambda _: self._wait.start())

    def begin(self) -> None:
        """Take the focus and show the list."""
        if not self.hasFocus():
            self._before = QApplication.focusWidget()
        self.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.selectAll()
        self._search()

    def _search(self) -> None:
        text = self.text().strip()
        self._tell_key()
        corner = self.mapTo(self._window, QPoint(0, self.height() + 4))
        width = max(self.width(), 460)
        self.found.setFixedWidth(width)
        self.found.move(corner.x() + self.width() - width, corner.y())
        self.found.show_entries(self._finder(text)[:SHOWN], text)
        self.found.show()
        self.found.raise_()

    def _go(self) -> None:
        self._wait.stop()
        entry = self.found.current
        self._leave()
        if entry:
            entry.run()

    def _leave(self) -> None:
        self.found.hide()
        self.clear()
        self._tell_key()
        before, self._before = self._before, None
        if before is not None and isValid(before) and before.isVisible() and self.hasFocus():
            before.setFocus()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_PageDown: 10, Qt.Key.Key_PageUp: -10}
        if event.key() in steps:
            self.found.step(steps[Qt.Key(event.key())])
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self._wait.isActive():
                self._search()
            self._go()
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
        self.found.hide()

    def sizeHint(self) -> QSize:
        return QSize(MOST, super().sizeHint().height())

    def _tell_key(self) -> None:
        """Show the key where it leaves room for the words."""
        words = self.fontMetrics().horizontalAdvance(self.placeholderText())
        self._hint.setVisible(not self.text() and self.width() > words + self._hint.sizeHint().width() + 30)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        size = self._hint.sizeHint()
        self._tell_key()
        self._hint.setGeometry(
            self.width() - size.width() - 9, (self.height() - size.height()) // 2, size.width(), size.height()
        )
