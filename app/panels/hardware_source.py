"""SystemVerilog as it is read: coloured by the theme, with numbers of lines, marks of findings, and a search."""

from __future__ import annotations

import re
from collections.abc import Mapping

from PySide6.QtCore import QEvent, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontDatabase,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QSyntaxHighlighter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
)
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QPlainTextEdit, QTextEdit, QVBoxLayout, QWidget

from app.fields import Choice, tokens
from app.panels.heading import link
from app.theme import Palette

KEYWORDS = (
    "always|always_comb|always_ff|assign|automatic|begin|bit|break|case|casez|continue|default|else|end|endcase|"
    "endfunction|endgenerate|endmodule|endpackage|endtask|enum|for|function|generate|genvar|if|import|initial|"
    "inout|input|int|integer|localparam|logic|module|negedge|output|package|packed|parameter|posedge|real|reg|"
    "return|signed|string|struct|task|typedef|unique|unsigned|void|while|wire"
)
GUTTER = 10
FIND = QKeySequence.StandardKey.Find
# Later ones win: what stands in a comment or a string is neither keyword nor number.
RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("number", re.compile(r"\b\d*'s?[bodhBODH][0-9a-fA-FxzXZ_?]+|'[01]\b|\b\d[\d_]*\b")),
    ("keyword", re.compile(rf"\b(?:{KEYWORDS})\b")),
    ("system", re.compile(r"[$`]\w+")),
    ("string", re.compile(r'"(?:[^"\\]|\\.)*"')),
    ("comment", re.compile(r"//.*|/\*.*?\*/")),
)


class Highlighter(QSyntaxHighlighter):
    """Colours of one theme; `use` takes another."""

    def __init__(self, document: QTextDocument, palette: Palette) -> None:
        super().__init__(document)
        self._formats: dict[str, QTextCharFormat] = {}
        self.use(palette)

    def use(self, palette: Palette) -> None:
        """Colour again, for `palette`."""
        colours = {
            "keyword": palette.accent, "number": palette.bad, "string": palette.good, "comment": palette.muted,
            "system": palette.scale[1],
        }  # fmt: skip
        for name, colour in colours.items():
            made = self._formats[name] = QTextCharFormat()
            made.setForeground(QColor(colour))
            made.setFontItalic(name == "comment")
        self._formats["keyword"].setFontWeight(QFont.Weight.DemiBold)
        self.rehighlight()

    def highlightBlock(self, text: str) -> None:
        for name, pattern in RULES:
            for found in pattern.finditer(text):
                if name != "comment" or text[: found.start()].count('"') % 2 == 0:
                    self.setFormat(found.start(), found.end() - found.start(), self._formats[name])


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
    """Read only, in a fixed font. `marks`: line → what a tool found there. `clicked`: the paragraph under the mouse."""

    clicked = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setReadOnly(True)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setProperty("bare", True)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(12)
        self.setFont(font)
        self.setStyleSheet("font-size: 12px;")
        self.setAccessibleName("SystemVerilog")
        self.marks: dict[int, str] = {}
        self._strip = Numbers(self)
        self._colours = Highlighter(self.document(), tokens(self))
        self._look = tokens(self)
        self.blockCountChanged.connect(lambda _: self._fit())
        self.updateRequest.connect(self._scrolled)
        self._fit()

    def show_text(self, text: str, marks: Mapping[int, str]) -> None:
        """Show another file, from its beginning."""
        self.marks = dict(marks)
        self.setPlainText(text)
        self.setExtraSelections([])
        self._strip.update()

    def go_to(self, line: int) -> None:
        """Bring a line (from 1) into the middle and mark it."""
        block = self.document().findBlockByNumber(max(line - 1, 0))
        cursor = QTextCursor(block)
        self.setTextCursor(cursor)
        self.centerCursor()
        mark = QTextEdit.ExtraSelection()
        mark.format.setBackground(QColor(self._look.accent_ground))  # type: ignore[attr-defined]
        mark.format.setProperty(QTextCharFormat.Property.FullWidthSelection, True)  # type: ignore[attr-defined]
        mark.cursor = cursor  # type: ignore[attr-defined]
        self.setExtraSelections([mark])

    def line_of(self, text: str) -> int:
        """The first line (from 1) that holds `text`; 0 where none does."""
        lines = self.toPlainText().splitlines()
        return next((i for i, line in enumerate(lines, 1) if text in line), 0)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and not self.textCursor().hasSelection():
            self.clicked.emit(self.paragraph(self.cursorForPosition(event.position().toPoint()).blockNumber()))

    def paragraph(self, line: int) -> str:
        """The lines around one (from 0) up to empty ones."""
        lines = self.toPlainText().split("\n")
        if not lines[line].strip():
            return ""
        first = next((i + 1 for i in range(line, -1, -1) if not lines[i].strip()), 0)
        last = next((i for i in range(line, len(lines)) if not lines[i].strip()), len(lines))
        return "\n".join(lines[first:last])

    def strip_width(self) -> int:
        """Pixels that the numbers need."""
        return self.fontMetrics().horizontalAdvance("9" * len(str(self.blockCount()))) + 2 * GUTTER

    def _fit(self) -> None:
        self.setViewportMargins(self.strip_width(), 0, 0, 0)

    def _scrolled(self, rect: QRect, by: int) -> None:
        if by:
            self._strip.scroll(0, by)
        else:
            self._strip.update(0, rect.y(), self._strip.width(), rect.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        inside = self.contentsRect()
        self._strip.setGeometry(QRect(inside.left(), inside.top(), self.strip_width(), inside.height()))

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
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange) and hasattr(self, "_look"):
            look = tokens(self)
            if look is not self._look:
                self._look = look
                self._colours.use(look)
                self._strip.update()

    def event(self, event: QEvent) -> bool:
        """A tool tip tells what was found in the line under the mouse."""
        if event.type() == QEvent.Type.ToolTip and self.marks:
            line = self.cursorForPosition(self.viewport().mapFromGlobal(event.globalPos())).blockNumber() + 1  # type: ignore[attr-defined]
            self.setToolTip(self.marks.get(line, ""))
        return super().event(event)


class SourceView(QWidget):
    """A choice of files, the text, and a line to search in it (Ctrl+F). `file_shown` tells which is in front."""

    file_shown = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, str] = {}
        self._marks: dict[str, dict[int, str]] = {}
        self.choice, self.text = Choice(), SourceText()
        self.wish, self._found = _Find(), QLabel()
        self._found.setProperty("role", "muted")
        self.choice.setAccessibleName("File")
        bar = QHBoxLayout()
        bar.setContentsMargins(12, 4, 12, 4)
        bar.setSpacing(8)
        for part in (self.choice, self.wish, self._found):
            bar.addWidget(part)
        bar.addStretch(1)
        bar.addWidget(link("Find", self.wish.setFocus))
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self.text, 1)
        self.choice.edited.connect(lambda: self._show(self.choice.get()))
        self.wish.textChanged.connect(lambda _: self.find(again=True))
        self.wish.forward.connect(self.find)
        self.wish.left.connect(self.text.setFocus)

    def event(self, event: QEvent) -> bool:
        """Take Ctrl+F before the window does: in here it searches the file, not the graph."""
        if event.type() == QEvent.Type.ShortcutOverride and event.matches(FIND):  # type: ignore[attr-defined]
            event.accept()
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(FIND):
            self.wish.begin()
        else:
            super().keyPressEvent(event)

    @property
    def file(self) -> str:
        """The file that is shown."""
        return self.choice.get() if self.choice.currentIndex() >= 0 else ""

    def show_files(self, files: Mapping[str, str], marks: Mapping[str, dict[int, str]]) -> None:
        """Offer other files; the one that is shown stays where it is among them."""
        before = self.file
        self._files, self._marks = dict(files), dict(marks)
        names = tuple(sorted(files, key=lambda n: ("/" in n, n)))
        self.choice.offer(names)
        if names:
            self.choice.put(before if before in files else names[0])
            self._show(self.file)
        else:
            self.text.show_text("", {})

    def show_file(self, name: str, text: str = "") -> None:
        """Show a file; at the first line that holds `text`."""
        if name not in self._files:
            return
        if name != self.file or self.text.toPlainText() != self._files[name]:
            self.choice.put(name)
            self._show(name)
        if text and (line := self.text.line_of(text)):
            self.text.go_to(line)

    def _show(self, name: str) -> None:
        self.text.show_text(self._files.get(name, ""), self._marks.get(name, {}))
        self.file_shown.emit(name)

    def find(self, back: bool = False, again: bool = False) -> None:
        """Go to the next place that holds what is sought; round at the end. `again`: from where the last one began."""
        wish, cursor = self.wish.text(), self.text.textCursor()
        if again:
            cursor.setPosition(cursor.selectionStart())
            self.text.setTextCursor(cursor)
        self._found.setText("")
        if not wish:
            return
        flag = QTextDocument.FindFlag.FindBackward if back else QTextDocument.FindFlag(0)
        if self.text.find(wish, flag):
            return
        edge = QTextCursor.MoveOperation.End if back else QTextCursor.MoveOperation.Start
        self.text.moveCursor(edge)
        self._found.setText("" if self.text.find(wish, flag) else "not found")


class _Find(QLineEdit):
    """Return goes on, with Shift back, Escape to the text."""

    forward = Signal(bool)
    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setPlaceholderText("Find in the file")
        self.setClearButtonEnabled(True)
        self.setMaximumWidth(200)
        self.setFixedHeight(25)
        self.setAccessibleName("Find in the file")

    def begin(self) -> None:
        """Take the keyboard."""
        self.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.selectAll()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.forward.emit(bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))
        elif event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)
