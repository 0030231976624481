"""Read-only lines of text, appended one by one, of which only the newest are kept."""

from __future__ import annotations

from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QWidget

LAID_OUT = 500  # appended lines after which the layouts of all lines are dropped


class Lines(QPlainTextEdit):
    """The last `limit` lines.

    Qt lays each appended line out, even in a hidden panel, and keeps its glyphs: 4.2 KiB a line of 50 characters. A
    text that is set at once is laid out only where it is seen: 0.5 KiB a line.
    """

    def __init__(self, limit: int, placeholder: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent, readOnly=True, maximumBlockCount=limit)
        self.setProperty("bare", True)
        self.setPlaceholderText(placeholder)
        self._appended = 0

    def add(self, text: str) -> None:
        """Append a line, or several."""
        self.appendPlainText(text)
        self._appended += 1 + text.count("\n")
        if self._appended >= LAID_OUT:
            self._drop_layouts()

    def _drop_layouts(self) -> None:
        """Set the same text again; selection and scroll position stay."""
        self._appended = 0
        bar, cursor = self.verticalScrollBar(), self.textCursor()
        top, at_end = bar.value(), bar.value() >= bar.maximum()
        anchor, position = cursor.anchor(), cursor.position()
        self.setPlainText(self.document().toRawText())  # as it is, with no-break spaces
        cursor = self.textCursor()
        cursor.setPosition(anchor)
        cursor.setPosition(position, QTextCursor.MoveMode.KeepAnchor)
        self.setTextCursor(cursor)
        bar.setValue(bar.maximum() if at_end else top)
