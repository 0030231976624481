"""A search field for a text: Return finds the next match, Shift+Return the previous, Escape returns to the text."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QTextCursor, QTextDocument
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QPlainTextEdit, QWidget

from espalier.app.translation import tr


class FindBar(QWidget):
    """The search field, and a label for "not found"."""

    def __init__(self, text: QPlainTextEdit) -> None:
        super().__init__()
        self._text = text
        self.query, self.message = _SearchField(), QLabel()
        self.message.setProperty("role", "muted")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self.query)
        row.addWidget(self.message)
        self.message.hide()
        self.query.textChanged.connect(lambda _: self.find(again=True))
        self.query.submitted.connect(self.find)
        self.query.cancelled.connect(text.setFocus)

    def begin(self) -> None:
        """Take the focus, with the text selection (of one line) as the query."""
        selection = self._text.textCursor().selectedText()
        if selection and "\u2029" not in selection:
            self.query.setText(selection)
        self.query.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.query.selectAll()

    def find(self, back: bool = False, again: bool = False) -> None:
        """Go to the next match, or the previous one if `back`, wrapping. `again`: from the start of the last match."""
        query, cursor = self.query.text(), self._text.textCursor()
        if again:
            cursor.setPosition(cursor.selectionStart())
            self._text.setTextCursor(cursor)
        self._show_message("")
        if not query:
            return
        flag = QTextDocument.FindFlag.FindBackward if back else QTextDocument.FindFlag(0)
        if self._text.find(query, flag):
            return
        edge = QTextCursor.MoveOperation.End if back else QTextCursor.MoveOperation.Start
        self._text.moveCursor(edge)
        self._show_message("" if self._text.find(query, flag) else tr("not found"))

    def _show_message(self, text: str) -> None:
        self.message.setText(text)
        self.message.setVisible(bool(text))


class _SearchField(QLineEdit):
    submitted = Signal(bool)  # whether Shift is held
    cancelled = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setPlaceholderText(tr("Find (Ctrl+F)"))
        self.setClearButtonEnabled(True)
        self.setMaximumWidth(104)
        self.setFixedHeight(25)
        self.setAccessibleName(tr("Find in the file"))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.submitted.emit(bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))
        elif event.key() == Qt.Key.Key_Escape:
            self.cancelled.emit()
        else:
            super().keyPressEvent(event)
