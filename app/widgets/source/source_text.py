"""A viewer and editor of SystemVerilog, with line numbers, marks of findings and underlined errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontDatabase,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
)
from PySide6.QtWidgets import QPlainTextDocumentLayout, QPlainTextEdit, QTextEdit, QWidget

from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import tokens
from espalier.app.widgets.source.highlighter import Highlighter

GUTTER = 10  # pixels beside the line numbers
INDENT = 2  # spaces inserted by Tab
READ_ONLY = Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard


@dataclass(frozen=True, slots=True)
class Mark:
    """A finding of a tool at a line (from 1), and a column (from 1) if known."""

    line: int
    text: str
    column: int = 0


class LineNumbers(QWidget):
    """The line numbers; those of lines with a finding are red and marked."""

    def __init__(self, text: SourceText) -> None:
        super().__init__(text)
        self._text = text

    def sizeHint(self) -> QSize:
        return QSize(self._text.numbers_width(), 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        self._text.paint_numbers(self, event)


class SourceText(QPlainTextEdit):
    """Shows or edits a text in a fixed font. `marks`: line → findings.

    `clicked`: the paragraph and the line (from 1) under the mouse. `typed`: the edited text has changed. Each edited
    text has its own document and thus its own undo history.
    """

    clicked = Signal(str, int)
    typed = Signal()

    def __init__(self, colours: type[Highlighter] = Highlighter) -> None:
        super().__init__()
        self.colours = colours
        self.setProperty("bare", True)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(12)
        self.setFont(font)
        self.setStyleSheet("font-size: 12px;")
        self.setAccessibleName(tr("SystemVerilog"))
        self.marks: dict[int, str] = {}
        self._look = tokens(self)
        self._numbers = LineNumbers(self)
        self._read_only = _Document(self)
        self._documents: dict[str, _Document] = {}
        self._underlines: list[QTextEdit.ExtraSelection] = []
        self._use(self._read_only, editable=False)
        self.blockCountChanged.connect(lambda _: self._fit_numbers())
        self.updateRequest.connect(self._scrolled)
        self.textChanged.connect(self._text_changed)
        self._fit_numbers()

    # -- texts

    def show_text(self, text: str, marks: Mapping[int, str]) -> None:
        """Show a text read-only, from its start."""
        self._read_only.setPlainText(text)
        self._use(self._read_only, editable=False)
        self.show_marks([Mark(line, finding) for line, finding in marks.items()])

    def show_editable(self, name: str, text: str) -> None:
        """Show a text for editing; the name identifies its document and undo history."""
        document = self._documents.get(name)
        if document is None:
            document = self._documents[name] = _Document(self)
            document.setPlainText(text)
        elif document.toPlainText() != text:
            document.replace(text)
        self._use(document, editable=True)
        self.show_marks([])

    def forget(self, name: str = "") -> None:
        """Delete the document of an edited text, or all."""
        for each in [name] if name else list(self._documents):
            if document := self._documents.pop(each, None):
                if self.document() is document:
                    self._use(self._read_only, editable=False)
                document.deleteLater()

    def _use(self, document: _Document, editable: bool) -> None:
        self.setReadOnly(True)  # so that the change of document is not signalled as typing
        if self.document() is not document:
            self.setDocument(document)
        self.setReadOnly(not editable)
        if not editable:
            self.setTextInteractionFlags(READ_ONLY)
        self._underlines = []
        self.setExtraSelections([])
        self._fit_numbers()

    @property
    def editable(self) -> bool:
        """Whether the text can be edited."""
        return not self.isReadOnly()

    def show_marks(self, marks: Sequence[Mark]) -> None:
        """Mark lines; marks with a column underline the text from there to the end of the word."""
        self.marks = {}
        for mark in marks:
            others = self.marks.get(mark.line)
            self.marks[mark.line] = f"{others}\n{mark.text}" if others else mark.text
        self._underlines = [self._underline(m) for m in marks if m.column and m.line]
        self.setExtraSelections(self._underlines)
        self._numbers.update()

    def _underline(self, mark: Mark) -> QTextEdit.ExtraSelection:
        block = self.document().findBlockByNumber(mark.line - 1)
        cursor = QTextCursor(block)
        cursor.movePosition(QTextCursor.MoveOperation.Right, n=min(mark.column - 1, max(block.length() - 2, 0)))
        cursor.movePosition(QTextCursor.MoveOperation.EndOfWord, QTextCursor.MoveMode.KeepAnchor)
        if not cursor.hasSelection():
            cursor.movePosition(QTextCursor.MoveOperation.Right, QTextCursor.MoveMode.KeepAnchor)
        wave = QTextEdit.ExtraSelection()
        wave.format.setUnderlineStyle(QTextCharFormat.UnderlineStyle.WaveUnderline)  # type: ignore[attr-defined]
        wave.format.setUnderlineColor(QColor(self._look.bad))  # type: ignore[attr-defined]
        wave.cursor = cursor  # type: ignore[attr-defined]
        return wave

    def go_to(self, line: int, column: int = 0) -> None:
        """Centre a line (from 1) and highlight it."""
        cursor = QTextCursor(self.document().findBlockByNumber(max(line - 1, 0)))
        mark = QTextEdit.ExtraSelection()
        mark.format.setBackground(QColor(self._look.accent_ground))  # type: ignore[attr-defined]
        mark.format.setProperty(QTextCharFormat.Property.FullWidthSelection, True)  # type: ignore[attr-defined]
        mark.cursor = QTextCursor(cursor)  # type: ignore[attr-defined]
        if column > 1:
            cursor.movePosition(QTextCursor.MoveOperation.Right, n=column - 1)
        self.setTextCursor(cursor)
        self.centerCursor()
        self.setExtraSelections([mark, *self._underlines])

    def line_of(self, text: str) -> int:
        """The first line (from 1) that contains `text`; 0 if none does."""
        lines = self.toPlainText().splitlines()
        return next((i for i, line in enumerate(lines, 1) if text in line), 0)

    def paragraph(self, line: int) -> str:
        """The lines around a line (from 0), up to empty lines."""
        lines = self.toPlainText().split("\n")
        if not lines[line].strip():
            return ""
        first = next((i + 1 for i in range(line, -1, -1) if not lines[i].strip()), 0)
        last = next((i for i in range(line, len(lines)) if not lines[i].strip()), len(lines))
        return "\n".join(lines[first:last])

    # -- input

    def _text_changed(self) -> None:
        if self.editable:
            self.typed.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Tab indents by two spaces, Return keeps the indentation."""
        if self.editable and event.key() == Qt.Key.Key_Tab and not event.modifiers():
            cursor = self.textCursor()
            cursor.insertText(" " * (INDENT - cursor.positionInBlock() % INDENT))
        elif self.editable and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not event.modifiers():
            cursor = self.textCursor()
            line = cursor.block().text()[: cursor.positionInBlock()]
            cursor.insertText("\n" + line[: len(line) - len(line.lstrip(" "))])
            self.ensureCursorVisible()
        else:
            super().keyPressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and not self.textCursor().hasSelection():
            line = self.cursorForPosition(event.position().toPoint()).blockNumber()
            self.clicked.emit(self.paragraph(line), line + 1)

    # -- line numbers

    def numbers_width(self) -> int:
        """The width of the line numbers in pixels."""
        return self.fontMetrics().horizontalAdvance("✗" + "9" * len(str(self.blockCount()))) + 2 * GUTTER

    def _fit_numbers(self) -> None:
        self.setViewportMargins(self.numbers_width(), 0, 0, 0)
        area = self.contentsRect()
        self._numbers.setGeometry(QRect(area.left(), area.top(), self.numbers_width(), area.height()))

    def _scrolled(self, rect: QRect, by: int) -> None:
        if by:
            self._numbers.scroll(0, by)
        else:
            self._numbers.update(0, rect.y(), self._numbers.width(), rect.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        visible = 0 <= self.cursorRect().top() < event.oldSize().height()
        super().resizeEvent(event)
        self._fit_numbers()
        if visible and self.editable and event.size().height() < event.oldSize().height():
            self.ensureCursorVisible()  # the list of findings below may have taken the room

    def paint_numbers(self, strip: QWidget, event: QPaintEvent) -> None:
        """Draw the numbers of the visible lines."""
        painter = QPainter(strip)
        painter.fillRect(event.rect(), QColor(self._look.group))
        painter.setFont(self.font())
        block = self.firstVisibleBlock()
        top = self.blockBoundingGeometry(block).translated(self.contentOffset()).top()
        height = self.fontMetrics().height()
        while block.isValid() and top <= event.rect().bottom():
            number = block.blockNumber() + 1
            painter.setPen(QColor(self._look.bad if number in self.marks else self._look.muted))
            box = QRect(0, round(top), strip.width() - GUTTER, height)
            painter.drawText(box, Qt.AlignmentFlag.AlignRight, f"{'✗' if number in self.marks else ''}{number}")
            top += self.blockBoundingRect(block).height()
            block = block.next()
        painter.end()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange) and hasattr(self, "_documents"):
            look = tokens(self)
            if look is not self._look:
                self._look = look
                for document in (self._read_only, *self._documents.values()):
                    document.colours.use(look)
                self._numbers.update()

    def event(self, event: QEvent) -> bool:
        """The tool tip shows the findings of the line under the mouse."""
        if event.type() == QEvent.Type.ToolTip and self.marks:
            line = self.cursorForPosition(self.viewport().mapFromGlobal(event.globalPos())).blockNumber() + 1  # type: ignore[attr-defined]
            self.setToolTip(self.marks.get(line, ""))
        return super().event(event)


class _Document(QTextDocument):
    """A text with its highlighter."""

    def __init__(self, owner: SourceText) -> None:
        super().__init__(owner)
        self.setDefaultFont(owner.font())
        self.setDocumentLayout(QPlainTextDocumentLayout(self))
        self.colours = owner.colours(self, tokens(owner))

    def replace(self, text: str) -> None:
        """Replace the text as one undo step."""
        cursor = QTextCursor(self)
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text)
