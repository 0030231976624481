"""Where texts of Python are typed: several lines, history, completion."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QEvent, QStringListModel, Qt, Signal
from PySide6.QtGui import QFocusEvent, QFontDatabase, QKeyEvent, QKeySequence, QTextCursor
from PySide6.QtWidgets import QCompleter, QListView, QPlainTextEdit, QWidget

from espalier.app.features.console.completeness import INDENT, is_complete, next_indent
from espalier.app.features.console.history import History
from espalier.app.features.console.output import FONT
from espalier.app.translation import tr

MOST_LINES = 8  # that the entry grows to
Key = Qt.Key
LIST_KEYS = (Key.Key_Return, Key.Key_Enter, Key.Key_Escape, Key.Key_Tab, Key.Key_Backtab)  # of the list of completions


class Entry(QPlainTextEdit):
    """Enter runs a complete text and continues another one. Up and Down walk through the history, Tab completes.

    Signals: `entered` (a text), `completion_wanted` (the text before the cursor), `stop_wanted`, `left` (Escape),
    `clear_wanted`, `ended` (Ctrl+D: no more input), `focused`.
    """

    entered = Signal(str)
    completion_wanted = Signal(str)
    stop_wanted = Signal()
    left = Signal()
    clear_wanted = Signal()
    ended = Signal()
    focused = Signal()

    def __init__(self, history: History, parent: QWidget) -> None:
        super().__init__(parent)
        self._history = history
        self.takes_line = False  # any line is complete: a running text waits for it
        self.setProperty("bare", True)
        self.setAccessibleName(tr("Python"))
        self.setPlaceholderText(tr("Python: m is the open model, selection the selected nodes"))
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(FONT)
        self.setFont(font)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.words = QCompleter(self)
        self.words.setModel(QStringListModel(self.words))
        self.list = QListView(self)
        self.words.setPopup(self.list)
        self.words.setWidget(self)
        self.words.setCompletionMode(QCompleter.CompletionMode.UnfilteredPopupCompletion)
        self.words.activated[str].connect(self._insert)  # type: ignore[index]
        self._length = 0  # characters that a completion replaces
        self.textChanged.connect(self._fit)
        self._fit()

    def _fit(self) -> None:
        """As high as its lines."""
        lines = min(max(self.blockCount(), 1), MOST_LINES)
        margins = self.contentsMargins().top() + self.contentsMargins().bottom()
        self.setFixedHeight(
            lines * self.fontMetrics().lineSpacing() + round(2 * self.document().documentMargin()) + margins + 2
        )

    @property
    def text(self) -> str:
        """The whole text."""
        return self.toPlainText()

    def show_text(self, text: str) -> None:
        """Set the text, with the cursor at its end."""
        self.setPlainText(text)
        self.moveCursor(QTextCursor.MoveOperation.End)

    # -- keys

    def event(self, event: QEvent) -> bool:
        """Leave the keys of the window to it."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and self._is_windows(event):
            event.ignore()
            return False
        return super().event(event)

    def _is_windows(self, event: QKeyEvent) -> bool:
        """Undo and redo without anything typed are those of the window."""
        undo, redo = event.matches(QKeySequence.StandardKey.Undo), event.matches(QKeySequence.StandardKey.Redo)
        document = self.document()
        return (undo and not document.isUndoAvailable()) or (redo and not document.isRedoAvailable())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        popup, key = self.list, event.key()
        if popup.isVisible() and key in LIST_KEYS:
            event.ignore()  # the list takes it
        elif (act := self._own_key(event)) is not None:
            act()
        elif key not in (Key.Key_Up, Key.Key_Down) or not self._walk(-1 if key == Key.Key_Up else 1):
            super().keyPressEvent(event)
            if popup.isVisible():
                self._ask()

    def _own_key(self, event: QKeyEvent) -> Callable[[], object] | None:
        """What a key does here that a text field does not know."""
        control, key = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier), event.key()
        if event.matches(QKeySequence.StandardKey.Copy) and not self.textCursor().hasSelection():
            return self.stop_wanted.emit
        if control and key == Key.Key_L:
            return self.clear_wanted.emit
        if control and key == Key.Key_D and not self.text:
            return self.ended.emit
        return {
            Key.Key_Return: partial(self._enter, event),
            Key.Key_Enter: partial(self._enter, event),
            Key.Key_Tab: self._tab,
            Key.Key_Backtab: self.focusPreviousChild,
            Key.Key_Escape: self.left.emit,
        }.get(Key(key))

    def _enter(self, event: QKeyEvent) -> None:
        modifiers, text = event.modifiers(), self.text
        if self.takes_line or modifiers & Qt.KeyboardModifier.ControlModifier:
            self.entered.emit(text)
        elif modifiers & Qt.KeyboardModifier.ShiftModifier or not self._at_end() or not is_complete(text):
            before = text[: self.textCursor().position()]
            self.insertPlainText("\n" + next_indent(before))
            self.ensureCursorVisible()
        else:
            self.entered.emit(text)

    def _at_end(self) -> bool:
        """Whether the cursor is in the last line."""
        return self.textCursor().blockNumber() == self.blockCount() - 1

    def _walk(self, by: int) -> bool:
        """Show another text of the history, from the first or the last line; False: the cursor moves instead."""
        edge = 0 if by < 0 else self.blockCount() - 1
        if self.takes_line or self.textCursor().blockNumber() != edge:
            return False
        if (text := self._history.step(by, self.text)) is not None:
            self.show_text(text)
        return True

    # -- completion

    def _before(self) -> str:
        return self.text[: self.textCursor().position()]

    def _tab(self) -> None:
        """Complete; an empty text leaves the entry, the beginning of a line is indented."""
        before = self._before()
        if not self.text.strip():
            self.focusNextChild()
        elif not before.rpartition("\n")[2].strip():
            self.insertPlainText(INDENT)
        else:
            self._ask()

    def _ask(self) -> None:
        self.completion_wanted.emit(self._before())

    def complete(self, text: str, length: int, words: tuple[str, ...]) -> None:
        """Show completions of the last `length` characters of `text`; a single one is inserted."""
        popup = self.list
        if text != self._before() or not words:
            popup.hide()
            return
        self._length = length
        if len(words) == 1 and not popup.isVisible():
            self._insert(words[0])
            return
        model = self.words.model()
        assert isinstance(model, QStringListModel)
        model.setStringList(list(words))
        box = self.cursorRect()
        box.setWidth(popup.sizeHintForColumn(0) + popup.verticalScrollBar().sizeHint().width() + 16)
        self.words.complete(box)
        popup.setCurrentIndex(self.words.completionModel().index(0, 0))

    def _insert(self, word: str) -> None:
        cursor = self.textCursor()
        cursor.movePosition(QTextCursor.MoveOperation.Left, QTextCursor.MoveMode.KeepAnchor, self._length)
        cursor.insertText(word)
        self.setTextCursor(cursor)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focused.emit()
