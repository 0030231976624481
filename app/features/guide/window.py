"""The window of the guide: the list of pages or search results, beside the current page."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QFont, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QLineEdit,
    QSplitter,
    QToolButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from espalier.app.features.guide.pages import FRONT, ROOT, Hit, pages, search, slug
from espalier.app.features.guide.reader import Reader
from espalier.app.number_text import plural
from espalier.app.translation import tr
from espalier.app.widgets.heading import muted
from espalier.app.widgets.style import Appearance

WIDTH, HEIGHT, LIST = 1080, 760, 290
SPACE = 40  # pixels by which the guide is smaller than the main window
DATA = Qt.ItemDataRole.UserRole
DELAY = 150  # milliseconds after the last keystroke of a search

PortRef = tuple[str, str]


class GuideWindow(QDialog):
    """The list of pages at the left below a search field, the page at the right."""

    def __init__(self, parent: QWidget, appearance: Appearance, root: Path = ROOT) -> None:
        super().__init__(parent)
        self._root, self._past, self._now = root, list[PortRef](), -1
        self.setWindowTitle(tr("Guide"))
        self.setWindowFlag(Qt.WindowType.WindowMinMaxButtonsHint)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(min(WIDTH, parent.width() - SPACE), min(HEIGHT, parent.height() - SPACE))
        self.reader = Reader(self, appearance.palette, root)
        self.reader.wanted.connect(self.open)
        appearance.changed.connect(self.reader.show_palette)
        self.query = QLineEdit(self, placeholderText=tr("Search the guide"), clearButtonEnabled=True)
        self.query.setAccessibleName(tr("Search the guide"))
        self.contents = self._tree(tr("Pages of the guide"))
        self.results = self._tree(tr("Sections found"))
        self.results.setRootIsDecorated(False)
        self.results.setItemsExpandable(False)
        self.results.setIndentation(10)
        self.results.setWordWrap(True)
        self.results.itemClicked.connect(lambda item, _: self._choose(item))
        self.count = muted("")
        self.back, self.forward = self._arrow("←", tr("Back"), -1), self._arrow("→", tr("Forward"), 1)
        self._lay_out()
        self._list_pages()
        self._soon = QTimer(self, interval=DELAY, singleShot=True)
        self._soon.timeout.connect(self._search)
        self.query.textChanged.connect(lambda _: self._soon.start())
        self.query.returnPressed.connect(self._first)
        for tree in (self.contents, self.results):
            tree.currentItemChanged.connect(lambda item, _: self._choose(item))
        self._keys()
        self.open(FRONT)

    def _tree(self, name: str) -> QTreeWidget:
        tree = QTreeWidget(self)
        tree.setHeaderHidden(True)
        tree.setAccessibleName(name)
        tree.setIndentation(14)
        tree.setUniformRowHeights(False)
        tree.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        tree.setTextElideMode(Qt.TextElideMode.ElideRight)
        return tree

    def _arrow(self, sign: str, name: str, step: int) -> QToolButton:
        button = QToolButton(self)
        button.setText(sign)
        button.setProperty("quiet", True)
        button.setAccessibleName(name)
        keys = QKeySequence.StandardKey.Back if step < 0 else QKeySequence.StandardKey.Forward
        button.setToolTip(f"{name}  {QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)}")
        button.clicked.connect(lambda: self.go(step))
        QShortcut(QKeySequence(keys), self).activated.connect(lambda: self.go(step))
        return button

    def _lay_out(self) -> None:
        side, split = QWidget(self), QSplitter(Qt.Orientation.Horizontal, self)
        top = QHBoxLayout()
        top.setSpacing(2)
        top.addWidget(self.query, 1)
        top.addWidget(self.back)
        top.addWidget(self.forward)
        box = QVBoxLayout(side)
        box.setContentsMargins(10, 10, 6, 10)
        box.addLayout(top)
        box.addWidget(self.count)
        box.addWidget(self.contents, 1)
        box.addWidget(self.results, 1)
        self.results.hide()
        self.count.hide()
        split.addWidget(side)
        split.addWidget(self.reader)
        split.setSizes([LIST, max(300, self.width() - LIST)])
        split.setStretchFactor(1, 1)
        split.setCollapsible(1, False)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(split)

    def _keys(self) -> None:
        for keys in (QKeySequence(QKeySequence.StandardKey.Find), QKeySequence("Ctrl+K")):
            QShortcut(keys, self).activated.connect(self._begin_search)
        self.query.setFocus()

    def _begin_search(self) -> None:
        self.query.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.query.selectAll()

    def _list_pages(self) -> None:
        parts: dict[str, QTreeWidgetItem] = {}
        rows: dict[str, QTreeWidgetItem] = {}
        bold = QFont(self.font())
        bold.setWeight(QFont.Weight.DemiBold)
        for page in pages(self._root):
            if not page.part:
                row = QTreeWidgetItem(self.contents, [page.title])
            else:
                if page.part not in parts:
                    head = parts[page.part] = QTreeWidgetItem(self.contents, [page.part])
                    head.setFlags(Qt.ItemFlag.ItemIsEnabled)
                    head.setFont(0, bold)
                    head.setExpanded(True)
                row = QTreeWidgetItem(rows.get(page.under, parts[page.part]), [page.title])
            row.setData(0, DATA, (page.path, ""))
            row.setToolTip(0, page.title)
            rows[page.path] = row
        self._rows = rows

    @property
    def path(self) -> str:
        """The path of the current page."""
        return self._past[self._now][0]

    def open(self, path: str, section: str = "", terms: tuple[str, ...] = ()) -> None:
        """Show a page, and add it to the history."""
        if self._now < 0 or self._past[self._now] != (path, section):
            del self._past[self._now + 1 :]
            self._past.append((path, section))
            self._now += 1
        self._show(terms)

    def go(self, step: int) -> None:
        """Go back or forward in the history."""
        if 0 <= self._now + step < len(self._past):
            self._now += step
            self._show()

    def _show(self, terms: tuple[str, ...] = ()) -> None:
        path, section = self._past[self._now]
        self.reader.open(path, section, terms)
        if (row := self._rows.get(path)) is not None:
            self.contents.blockSignals(True)
            self.contents.setCurrentItem(row)
            self.contents.blockSignals(False)
            self.setWindowTitle(tr("{} · Guide", row.text(0)) if path != FRONT else tr("Guide"))
        self.back.setEnabled(self._now > 0)
        self.forward.setEnabled(self._now + 1 < len(self._past))

    def _choose(self, item: QTreeWidgetItem | None) -> None:
        target = item.data(0, DATA) if item else None
        if target:
            is_hit = item and item.treeWidget() is self.results
            self.open(target[0], target[1], tuple(self.query.text().split()) if is_hit else ())

    def _search(self) -> None:
        query = self.query.text().strip()
        hits = search(query, self._root)
        self.results.blockSignals(True)
        self.results.clear()
        for hit in hits:
            self._add_hit(hit)
        self.results.blockSignals(False)
        for widget, on in ((self.results, bool(query)), (self.contents, not query), (self.count, bool(query))):
            widget.setVisible(on)
        self.count.setText(plural(len(hits), "section") if hits else tr("No page has the words “{}”.", query))

    def _add_hit(self, hit: Hit) -> None:
        title = hit.page.title + (f" › {hit.heading}" if hit.heading else "")
        row = QTreeWidgetItem(self.results, [title])
        row.setData(0, DATA, (hit.page.path, slug(hit.heading)))
        row.setToolTip(0, hit.snippet)
        below = QTreeWidgetItem(row, [hit.snippet])
        below.setFlags(Qt.ItemFlag.ItemIsEnabled)
        below.setData(0, DATA, row.data(0, DATA))
        below.setForeground(0, self.palette().placeholderText())
        row.setExpanded(True)

    def _first(self) -> None:
        self._soon.stop()
        self._search()
        if first := self.results.topLevelItem(0):
            self.results.setCurrentItem(first)
            self.results.setFocus()
