"""SystemVerilog as it is read and written: with numbers of lines, marks of findings and waves under what is wrong."""

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

from espalier.app.widgets.forms.fields import tokens
from espalier.app.widgets.source.colours import Highlighter

GUTTER = 10
STEP = 2  # spaces that Tab indents by
READ = Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard


@dataclass(frozen=True, slots=True)
class Mark:
    """What a tool found at a line (from 1), perhaps at a column."""

    line: int
    text: str
    column: int = 0


class Numbers(QWidget):
    """The strip beside the text; lines with a finding are red and begin with a mark."""

    def __init__(self, text: SourceText) -> None:
        super().__init__(text)
        self._text = text

    def sizeHint(self) -> QSize:
        return QSize(self._text.strip_width(), 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        self._text.paint_numbers(self, event)


class SourceText(QPlainTextEdit):
    """In a fixed font. `marks`: line → what a tool found there. `clicked`: the paragraph and the line under the mouse.

    `typed`: what is edited is another text now. Each edited text keeps its own document, and so its own undo.
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
        self.setAccessibleName("SystemVerilog")
        self.marks: dict[int, str] = {}
        self._look = tokens(self)
        self._strip = Numbers(self)
        self._shown = _Sheet(self)
        self._sheets: dict[str, _Sheet] = {}
        self._found: list[QTextEdit.ExtraSelection] = []
        self._use(self._shown, editable=False)
        self.blockCountChanged.connect(lambda _: self._fit())
        self.updateRequest.connect(self._scrolled)
        self.textChanged.connect(self._told)
        self._fit()

    # -- what is shown

    def show_text(self, text: str, marks: Mapping[int, str]) -> None:
        """Show another file to be read, from its beginning."""
        self._shown.setPlainText(text)
        self._use(self._shown, editable=False)
        self.show_marks([Mark(line, words) for line, words in marks.items()])

    def show_editable(self, name: str, text: str) -> None:
        """Show a text to be edited: the one of before under its name, with what can be undone there."""
        sheet = self._sheets.get(name)
        if sheet is None:
            sheet = self._sheets[name] = _Sheet(self)
            sheet.setPlainText(text)
        elif sheet.toPlainText() != text:
            sheet.replace(text)
        self._use(sheet, editable=True)
        self.show_marks([])

    def forget(self, name: str = "") -> None:
        """Drop an edited text, or all of them."""
        for each in [name] if name else list(self._sheets):
            if sheet := self._sheets.pop(each, None):
                if self.document() is sheet:
                    self._use(self._shown, editable=False)
                sheet.deleteLater()

    def _use(self, sheet: _Sheet, editable: bool) -> None:
        self.setReadOnly(True)  # another document is another text, and nobody has typed it
        if self.document() is not sheet:
            self.setDocument(sheet)
        self.setReadOnly(not editable)
        if not editable:
            self.setTextInteractionFlags(READ)
        self._found = []
        self.setExtraSelections([])
        self._fit()

    @property
    def editable(self) -> bool:
        """Whether one can write here."""
        return not self.isReadOnly()

    def show_marks(self, marks: Sequence[Mark]) -> None:
        """Mark lines in the strip; what has a column is underlined from there to the word's end."""
        self.marks = {}
        for mark in marks:
            before = self.marks.get(mark.line)
            self.marks[mark.line] = f"{before}\n{mark.text}" if before else mark.text
        self._found = [self._wave(m) for m in marks if m.column and m.line]
        self.setExtraSelections(self._found)
        self._strip.update()

    def _wave(self, mark: Mark) -> QTextEdit.ExtraSelection:
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
        """Bring a line (from 1) into the middle and mark it."""
        cursor = QTextCursor(self.document().findBlockByNumber(max(line - 1, 0)))
        mark = QTextEdit.ExtraSelection()
        mark.format.setBackground(QColor(self._look.accent_ground))  # type: ignore[attr-defined]
        mark.format.setProperty(QTextCharFormat.Property.FullWidthSelection, True)  # type: ignore[attr-defined]
        mark.cursor = QTextCursor(cursor)  # type: ignore[attr-defined]
        if column > 1:
            cursor.movePosition(QTextCursor.MoveOperation.Right, n=column - 1)
        self.setTextCursor(cursor)
        self.centerCursor()
        self.setExtraSelections([mark, *self._found])

    def line_of(self, text: str) -> int:
        """The first line (from 1) that holds `text`; 0 where none does."""
        lines = self.toPlainText().splitlines()
        return next((i for i, line in enumerate(lines, 1) if text in line), 0)

    def paragraph(self, line: int) -> str:
        """The lines around one (from 0) up to empty ones."""
        lines = self.toPlainText().split("\n")
        if not lines[line].strip():
            return ""
        first = next((i + 1 for i in range(line, -1, -1) if not lines[i].strip()), 0)
        last = next((i for i in range(line, len(lines)) if not lines[i].strip()), len(lines))
        return "\n".join(lines[first:last])

    # -- hands

    def _told(self) -> None:
        if self.editable:
            self.typed.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Tab indents by two spaces, Return goes on as the line before began."""
        if self.editable and event.key() == Qt.Key.Key_Tab and not event.modifiers():
            cursor = self.textCursor()
            cursor.insertText(" " * (STEP - cursor.positionInBlock() % STEP))
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

    # -- the strip

    def strip_width(self) -> int:
        """Pixels that the numbers need."""
        return self.fontMetrics().horizontalAdvance("✗" + "9" * len(str(self.blockCount()))) + 2 * GUTTER

    def _fit(self) -> None:
        self.setViewportMargins(self.strip_width(), 0, 0, 0)
        inside = self.contentsRect()
        self._strip.setGeometry(QRect(inside.left(), inside.top(), self.strip_width(), inside.height()))

    def _scrolled(self, rect: QRect, by: int) -> None:
        if by:
            self._strip.scroll(0, by)
        else:
            self._strip.update(0, rect.y(), self._strip.width(), rect.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        seen = 0 <= self.cursorRect().top() < event.oldSize().height()
        super().resizeEvent(event)
        self._fit()
        if seen and self.editable and event.size().height() < event.oldSize().height():
            self.ensureCursorVisible()  # a list of findings below takes room; what is written stays in sight

    def paint_numbers(self, strip: QWidget, event: QPaintEvent) -> None:
        """Draw the numbers of the lines that are seen."""
        painter = QPainter(strip)
        painter.fillRect(event.rect(), QColor(self._look.group))
        painter.setFont(self.font())
        block = self.firstVisibleBlock()
        top = self.blockBoundingGeometry(block).translated(self.contentOffset()).top()
        high = self.fontMetrics().height()
        while block.isValid() and top <= event.rect().bottom():
            number = block.blockNumber() + 1
            painter.setPen(QColor(self._look.bad if number in self.marks else self._look.muted))
            box = QRect(0, round(top), strip.width() - GUTTER, high)
            painter.drawText(box, Qt.AlignmentFlag.AlignRight, f"{'✗' if number in self.marks else ''}{number}")
            top += self.blockBoundingRect(block).height()
            block = block.next()
        painter.end()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange) and hasattr(self, "_sheets"):
            look = tokens(self)
            if look is not self._look:
                self._look = look
                for sheet in (self._shown, *self._sheets.values()):
                    sheet.colours.use(look)
                self._strip.update()

    def event(self, event: QEvent) -> bool:
        """A tool tip tells what was found in the line under the mouse."""
        if event.type() == QEvent.Type.ToolTip and self.marks:
            line = self.cursorForPosition(self.viewport().mapFromGlobal(event.globalPos())).blockNumber() + 1  # type: ignore[attr-defined]
            self.setToolTip(self.marks.get(line, ""))
        return super().event(event)


class _Sheet(QTextDocument):
    """A text with its colours."""

    def __init__(self, owner: SourceText) -> None:
        super().__init__(owner)
        self.setDefaultFont(owner.font())
        self.setDocumentLayout(QPlainTextDocumentLayout(self))
        self.colours = owner.colours(self, tokens(owner))

    def replace(self, text: str) -> None:
        """Another text, as one step that can be undone."""
        cursor = QTextCursor(self)
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text)
