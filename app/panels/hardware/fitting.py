"""Tables as wide as their place: words give way, numbers do not, and a tool tip tells what is cut."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QTreeWidget

from app.panels.table import Table, alignment

PAD = 8  # pixels beside what a column holds
WORDS, ROOM = 40, 320  # the least and the most of a column of words
LEFT = alignment("")


def shared(natural: Sequence[int], words: Sequence[bool], room: int) -> list[int]:
    """Widths of columns that fill at most `room`: where they are too wide, the widest columns of words shrink alike."""
    free = room - sum(w for w, soft in zip(natural, words, strict=True) if not soft)
    left = sorted(min(w, ROOM) for w, soft in zip(natural, words, strict=True) if soft)
    most = ROOM
    for k, width in enumerate(left):  # the narrow ones keep theirs, the others share the rest
        even = free // (len(left) - k)
        if width > even:
            most = max(even, WORDS)
            break
        free -= width
    return [min(w, most) if soft else w for w, soft in zip(natural, words, strict=True)]


class FittedTable(Table):
    """A table that never scrolls sideways where the least widths have room."""

    def __init__(self) -> None:
        super().__init__()
        self._natural: list[int] = []
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # names differ at their ends

    def _fit(self) -> None:
        super()._fit()
        self._natural = [self.columnWidth(k) - 28 + PAD for k in range(len(self.rows.columns))]
        self._share()

    def _share(self) -> None:
        columns = self.rows.columns
        if len(self._natural) != len(columns):
            return
        soft = [self._words(name) for name in columns]
        for k, width in enumerate(shared(self._natural, soft, self.viewport().width())):
            self.setColumnWidth(k, width)

    def _words(self, column: str) -> bool:
        value = next((v for r in self.rows.shown[:50] if (v := r.get(column)) is not None), None)
        return alignment(value) == LEFT

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._share()


class FittedColumns(QObject):
    """Keeps the columns of a tree within it: `natural` widths, of which the first `soft` give way."""

    def __init__(self, tree: QTreeWidget, natural: Sequence[int], soft: int) -> None:
        super().__init__(tree)
        self._tree, self._natural, self._soft = tree, natural, soft
        tree.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        tree.viewport().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            words = [k < self._soft for k in range(len(self._natural))]
            for k, width in enumerate(shared(self._natural, words, self._tree.viewport().width())):
                self._tree.setColumnWidth(k, width)
        return False
