"""A line to search a text in: Return goes on, with Shift back, Escape to the text."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QTextCursor, QTextDocument
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QPlainTextEdit, QWidget


class Find(QWidget):
    """The line, and "not found" beside it."""

    def __init__(self, text: QPlainTextEdit) -> None:
        super().__init__()
        self._text = text
        self.wish, self.found = _Wish(), QLabel()
        self.found.setProperty("role", "muted")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self.wish)
        row.addWidget(self.found)
        self.found.hide()
        self.wish.textChanged.connect(lambda _: self.find(again=True))
        self.wish.forward.connect(self.find)
        self.wish.left.connect(text.setFocus)

    def begin(self) -> None:
        """Take the keyboard, and what is selected in the text as the wish."""
        chosen = self._text.textCursor().selectedText()
        if chosen and "\u2029" not in chosen:
            self.wish.setText(chosen)
        self.wish.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.wish.selectAll()

    def find(self, back: bool = False, again: bool = False) -> None:
        """Go to the next place that holds what is sought; round at the end. `again`: from where the last one began."""
        wish, cursor = self.wish.text(), self._text.textCursor()
        if again:
            cursor.setPosition(cursor.selectionStart())
            self._text.setTextCursor(cursor)
        self._tell("")
        if not wish:
            return
        flag = QTextDocument.FindFlag.FindBackward if back else QTextDocument.FindFlag(0)
        if self._text.find(wish, flag):
            return
        edge = QTextCursor.MoveOperation.End if back else QTextCursor.MoveOperation.Start
        self._text.moveCursor(edge)
        self._tell("" if self._text.find(wish, flag) else "not found")

    def _tell(self, words: str) -> None:
        self.found.setText(words)
        self.found.setVisible(bool(words))


class _Wish(QLineEdit):
    forward = Signal(bool)
    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setPlaceholderText("Find (Ctrl+F)")
        self.setClearButtonEnabled(True)
        self.setMaximumWidth(104)
        self.setFixedHeight(25)
        self.setAccessibleName("Find in the file")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.forward.emit(bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))
        elif event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)
