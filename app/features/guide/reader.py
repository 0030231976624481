"""Shows a page of the guide: Markdown in the window's colours, with links and marked search terms."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt, QUrl, Signal
from PySide6.QtGui import (
    QColor,
    QDesktopServices,
    QFont,
    QFontDatabase,
    QHelpEvent,
    QImage,
    QTextBlock,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFrameFormat,
    QTextLength,
    QTextTable,
    QTextTableFormat,
)
from PySide6.QtWidgets import QTextBrowser, QTextEdit, QToolTip, QWidget

from espalier.app.features.guide.pages import ROOT, plain, resolved, slug
from espalier.app.glossary import line_at
from espalier.app.theme import BODY, Palette
from espalier.app.translation import tr

WIDEST, MARGIN = 900, 22  # largest width of a picture, and margin of the text, in pixels
BESIDE = 2 * MARGIN + 60  # pixels between a picture and the page's edge, also in a list
SIZES = {1: 1.65, 2: 1.3, 3: 1.1, 4: 1.0}  # font sizes of headings relative to the text
HIGHLIGHTS = 500  # largest number of marked occurrences of a term


class Reader(QTextBrowser):
    """One page. `wanted`: a link to (path below the guide, section) was followed."""

    wanted = Signal(str, str)

    def __init__(self, parent: QWidget, palette: Palette, root: Path = ROOT) -> None:
        super().__init__(parent)
        self._root, self._palette, self._path = root, palette, ""
        self._words: tuple[str, ...] = ()
        self._made: QTextDocument | None = None
        self.setOpenLinks(False)
        self.setProperty("bare", True)
        self.setAccessibleName(tr("Page of the guide"))
        self.anchorClicked.connect(self._follow)

    def open(self, path: str, section: str = "", terms: tuple[str, ...] = ()) -> None:
        """Show a page from its start or a section, with search terms marked."""
        if path != self._path:
            self._load(path)
        self._mark(terms)
        self.verticalScrollBar().setValue(self._height_of(section))

    def show_palette(self, palette: Palette) -> None:
        """Redraw the page in other colours, keeping the position."""
        self._palette, at = palette, self.verticalScrollBar().value()
        self._load(self._path)
        self._mark(self._words)
        self.verticalScrollBar().setValue(at)

    def _load(self, path: str) -> None:
        self._path = path
        text = (self._root / path).read_text(encoding="utf-8")
        document, previous = QTextDocument(self), self._made  # built off-screen, without intermediate layouts
        document.setDefaultFont(self.font())
        document.setDocumentMargin(MARGIN)
        document.setMarkdown(text, QTextDocument.MarkdownFeature.MarkdownDialectGitHub)
        cursor = QTextCursor(document)
        cursor.beginEditBlock()
        block = document.begin()
        while block.isValid():
            self._dress(cursor, block)
            block = block.next()
        for frame in document.rootFrame().childFrames():
            if isinstance(frame, QTextTable):
                self._rule(frame)
        cursor.endEditBlock()
        self.setDocument(document)
        self._made = document
        if previous is not None:
            previous.deleteLater()

    def _dress(self, cursor: QTextCursor, block: QTextBlock) -> None:
        """Format headings with spacing and code with a background."""
        cursor.setPosition(block.position())
        block_format = QTextBlockFormat()
        if level := block.blockFormat().headingLevel():
            block_format.setTopMargin(4 if level == 1 else 18)
            block_format.setBottomMargin(6)
            cursor.setPosition(block.position() + block.length() - 1, QTextCursor.MoveMode.KeepAnchor)
            font, look = QFont(self.font()), QTextCharFormat()
            font.setPixelSize(round(BODY * SIZES.get(level, 1.0)))
            font.setWeight(QFont.Weight.DemiBold)
            look.setFont(font)
            cursor.setCharFormat(look)
        elif _is_code(block):
            block_format.setBackground(QColor(self._palette.group))
            block_format.setLeftMargin(8)
            block_format.setNonBreakableLines(False)
            self._fixed(cursor, block.position(), block.length() - 1)
        else:
            block_format.setLineHeight(118, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
            if block.textList() is None and cursor.currentTable() is None:
                block_format.setTopMargin(5)
                block_format.setBottomMargin(5)
            self._inline(cursor, block)
        cursor.mergeBlockFormat(block_format)

    def _inline(self, cursor: QTextCursor, block: QTextBlock) -> None:
        part = block.begin()
        code: list[tuple[int, int]] = []
        while not part.atEnd():
            fragment = part.fragment()
            if fragment.charFormat().fontFixedPitch():
                code.append((fragment.position(), fragment.length()))
            part += 1
        for at, length in code:
            self._fixed(cursor, at, length)
        cursor.setPosition(block.position())

    def _fixed(self, cursor: QTextCursor, at: int, length: int) -> None:
        """Set a fixed-width font."""
        look = QTextCharFormat()
        look.setFontFamilies([QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()])
        look.setProperty(QTextCharFormat.Property.FontPixelSize, round(BODY - 0.5))
        look.setBackground(QColor(self._palette.group))
        cursor.setPosition(at)
        cursor.setPosition(at + length, QTextCursor.MoveMode.KeepAnchor)
        cursor.mergeCharFormat(look)
        cursor.setPosition(at)

    def _rule(self, table: QTextTable) -> None:
        """Draw thin lines between the cells of a table."""
        look = QTextTableFormat(table.format())
        look.setBorderCollapse(True)
        look.setBorder(1)
        look.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
        look.setBorderBrush(QColor(self._palette.line))
        look.setCellPadding(5)
        look.setTopMargin(4)
        look.setBottomMargin(10)
        look.setWidth(QTextLength(QTextLength.Type.PercentageLength, 100))
        table.setFormat(look)

    def _mark(self, terms: tuple[str, ...]) -> None:
        self._words = terms
        look = QTextCharFormat()
        look.setBackground(QColor(self._palette.accent_ground))
        look.setForeground(QColor(self._palette.accent))
        marks: list[QTextEdit.ExtraSelection] = []
        for term in terms:
            cursor = self.document().find(term, 0)
            while not cursor.isNull() and len(marks) < HIGHLIGHTS:
                mark = QTextEdit.ExtraSelection()
                mark.cursor, mark.format = cursor, look  # type: ignore[attr-defined]
                marks.append(mark)
                cursor = self.document().find(term, cursor)
        self.setExtraSelections(marks)

    def _height_of(self, section: str) -> int:
        """Vertical position of a section, by heading or anchor."""
        if not section:
            return 0
        block = self.document().begin()
        while block.isValid():
            text = block.text()
            if block.blockFormat().headingLevel() and section in (slug(text), plain(text)):
                top = self.document().documentLayout().blockBoundingRect(block).top()
                return max(0, round(top) - 8)
            block = block.next()
        return 0

    def viewportEvent(self, event: QEvent) -> bool:
        """Show the glossary entry of a hovered term."""
        if isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.term_at(event.pos()), self.viewport())
            return True
        return super().viewportEvent(event)

    def term_at(self, point: QPoint) -> str:
        """The glossary entry of the word at a point of the viewport; empty for other words and in code."""
        scrolled = QPointF(point.x() + self.horizontalScrollBar().value(), point.y() + self.verticalScrollBar().value())
        at = self.document().documentLayout().hitTest(scrolled, Qt.HitTestAccuracy.ExactHit)
        block = self.document().findBlock(at)
        return "" if at < 0 or _is_code(block) else line_at(block.text(), at - block.position())

    def _follow(self, url: QUrl) -> None:
        if url.scheme() in ("http", "https"):
            QDesktopServices.openUrl(url)
            return
        path, section = resolved(self._path, url.toString())
        if path.endswith(".md") and (self._root / path).is_file():
            self.wanted.emit(path, section)

    def loadResource(self, kind: int, name: QUrl | str) -> object:
        """Load pictures of the guide, scaled to the page; other files and network resources are not read."""
        path, _ = resolved(self._path, name.toString() if isinstance(name, QUrl) else name)
        picture = QImage(str(self._root / path)) if path else QImage()
        room = min(WIDEST, self.viewport().width() - BESIDE)
        if picture.isNull() or picture.width() <= room:
            return picture
        ratio = self.devicePixelRatioF()
        return _narrowed(picture, room, ratio)


def _narrowed(picture: QImage, width: int, ratio: float) -> QImage:
    scaled = picture.scaledToWidth(round(width * ratio), Qt.TransformationMode.SmoothTransformation)
    scaled.setDevicePixelRatio(ratio)
    return scaled


def _is_code(block: QTextBlock) -> bool:
    look = block.blockFormat()
    fence = QTextBlockFormat.Property.BlockCodeFence, QTextBlockFormat.Property.BlockCodeLanguage
    return look.nonBreakableLines() or any(look.hasProperty(p) for p in fence)
