"""Tables as wide as their place: words give way, numbers do not, and a tool tip tells what is cut."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QTableView, QTreeWidget

from espalier.app.widgets.table import Table, alignment
from espalier.app.words import of_row, shown

PAD = 8  # pixels beside what a column holds
WORDS, ROOM = 40, 320  # the least and the most of a column of words
LEFT = alignment("")
ARROW = " ▾"  # at the title of the column that is sorted by
DIGITS = str.maketrans("123456789", "0" * 9)


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


def share(view: QTableView | QTreeWidget, natural: Sequence[int], words: Sequence[bool], given: list[int]) -> list[int]:
    """Fit the columns of a view, and return their widths; one no longer as it was `given` is a person's, and stays."""
    own = [bool(given) and view.columnWidth(k) != given[k] for k in range(len(natural))]
    wish = [view.columnWidth(k) if mine else w for k, (w, mine) in enumerate(zip(natural, own, strict=True))]
    soft = [w and not mine for w, mine in zip(words, own, strict=True)]
    now = list(given) or [0] * len(natural)
    for k, width in enumerate(shared(wish, soft, view.viewport().width())):
        if not own[k]:
            view.setColumnWidth(k, width)
            now[k] = view.columnWidth(k)  # Qt has a least width of its own
    return now


class FittedTable(Table):
    """A table that never scrolls sideways where the least widths have room."""

    def __init__(self) -> None:
        super().__init__()
        self._natural: list[int] = []
        self._soft: list[bool] = []
        self._given: list[int] = []
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # names differ at their ends

    def _fit(self) -> None:
        super()._fit()
        self._soft = [self._words(name) for name in self.rows.columns]
        self._natural = [self._need(k) for k in range(len(self.rows.columns))]
        self._given = []
        self._share()

    def _need(self, column: int) -> int:
        """Pixels for a column: of words, what the first rows need, of numbers, what the widest of all needs."""
        head = self.horizontalHeader()
        least = head.sectionSizeHint(column) + head.fontMetrics().horizontalAdvance(ARROW)
        if self._soft[column]:
            return max(self.columnWidth(column) - 28 + PAD, least)
        name = self.rows.columns[column]
        looks: dict[str, int] = {}  # how the digits stand → the first row with it: few, so few are measured
        for at, row in enumerate(self.rows.shown):
            looks.setdefault(shown(name, of_row(row, name)).translate(DIGITS), at)
        cells = (self.sizeHintForIndex(self.rows.index(at, column)).width() for at in looks.values())
        return max(max(cells, default=0) + PAD, least)

    def _share(self) -> None:
        if len(self._natural) == len(self.rows.columns):
            self._given = share(self, self._natural, self._soft, self._given)

    def _words(self, column: str) -> bool:
        value = next((v for r in self.rows.shown if (v := r.get(column)) is not None), None)
        return alignment(value) == LEFT

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._share()


class FittedColumns(QObject):
    """Keeps the columns of a tree within it: `natural` widths, of which the first `soft` give way."""

    def __init__(self, tree: QTreeWidget, natural: Sequence[int], soft: int) -> None:
        super().__init__(tree)
        self._tree, self._natural = tree, natural
        self._words = [k < soft for k in range(len(natural))]
        self._given: list[int] = []
        self._room = -1
        tree.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        tree.viewport().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QResizeEvent) and event.size().width() != self._room:  # not where a bar below comes
            self._room = event.size().width()
            self._given = share(self._tree, self._natural, self._words, self._given)
        return False
