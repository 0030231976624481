"""The output of the console: plain text in the colours of its kinds."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QFontDatabase, QKeyEvent, QKeySequence, QPalette, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from espalier.app.features.console.messages import ECHO, ERROR, NOTE
from espalier.app.features.console.terminal import LINES, Line
from espalier.app.theme import DARK, LIGHT
from espalier.app.translation import tr

TYPED = "typed"  # lines of the user
FONT = 12  # pixels


class OutputView(QPlainTextEdit):
    """Shows the last lines; scrolls to the newest unless the user has scrolled up. Text never becomes markup.

    `stop_wanted`: Ctrl+C without a selection. `typed`: a key that belongs to the entry.
    """

    stop_wanted = Signal()
    typed = Signal(QKeyEvent)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, readOnly=True, maximumBlockCount=LINES, undoRedoEnabled=False)
        self.setProperty("bare", True)
        self.setAccessibleName(tr("Output of the console"))
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(FONT)
        self.setFont(font)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )

    def show_lines(self, replaces: bool, lines: list[Line]) -> None:
        """Append lines; the first takes the place of the last one if it `replaces` it."""
        if not lines:
            return
        bar = self.verticalScrollBar()
        follow = bar.value() >= bar.maximum() - 1
        if len(lines) >= LINES:
            self.clear()
            lines, replaces = lines[-LINES:], False
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.beginEditBlock()
        if replaces:
            cursor.movePosition(QTextCursor.MoveOperation.StartOfBlock, QTextCursor.MoveMode.KeepAnchor)
            cursor.removeSelectedText()
        for i, (kind, text) in enumerate(lines):
            if (i or not replaces) and not self.document().isEmpty():
                cursor.insertBlock()
            cursor.insertText(text, self._look(kind))
        cursor.endEditBlock()
        if follow:
            bar.setValue(bar.maximum())

    def _look(self, kind: str) -> QTextCharFormat:
        """The colour of a kind of line, in the present theme."""
        palette = self.palette()
        tokens = DARK if palette.color(QPalette.ColorRole.Base).lightness() < 128 else LIGHT
        colour = {ERROR: tokens.bad, TYPED: tokens.accent, ECHO: tokens.good, NOTE: tokens.muted}.get(kind, tokens.text)
        look = QTextCharFormat()
        look.setForeground(QColor(colour))
        return look

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy) and not self.textCursor().hasSelection():
            self.stop_wanted.emit()
        elif event.text().isprintable() and event.text():
            self.typed.emit(event)
        else:
            super().keyPressEvent(event)
