"""Tables and trees that fit their width: text columns are elided, number columns are not."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QTableView, QTreeWidget

from espalier.app.number_text import row_value, shown
from espalier.app.widgets.table import Table, alignment

PAD = 8  # pixels added to the width of a cell's text
MIN_TEXT, MAX_TEXT = 64, 320  # pixels of a text column
LEFT = alignment("")
ARROW = " ▾"  # sort indicator in a column's title
DIGITS = str.maketrans("123456789", "0" * 9)


def column_widths(natural: Sequence[int], is_text: Sequence[bool], room: int) -> list[int]:
    """Column widths whose sum is at most `room`: the widest text columns shrink to one common width."""
    free = room - sum(w for w, soft in zip(natural, is_text, strict=True) if not soft)
    widths = sorted(min(w, MAX_TEXT) for w, soft in zip(natural, is_text, strict=True) if soft)
    limit = MAX_TEXT
    for k, width in enumerate(widths):  # narrow columns keep their width, the others share the rest
        even = free // (len(widths) - k)
        if width > even:
            limit = max(even, MIN_TEXT)
            break
        free -= width
    return [min(w, limit) if soft else w for w, soft in zip(natural, is_text, strict=True)]


def fit_columns(
    view: QTableView | QTreeWidget, natural: Sequence[int], is_text: Sequence[bool], previous: list[int]
) -> list[int]:
    """Fit the columns of a view and return their widths; columns resized by the user since `given` are kept."""
    resized = [bool(previous) and view.columnWidth(k) != previous[k] for k in range(len(natural))]
    widths = [view.columnWidth(k) if kept else w for k, (w, kept) in enumerate(zip(natural, resized, strict=True))]
    soft = [w and not kept for w, kept in zip(is_text, resized, strict=True)]
    now = list(previous) or [0] * len(natural)
    for k, width in enumerate(column_widths(widths, soft, view.viewport().width())):
        if not resized[k]:
            view.setColumnWidth(k, width)
            now[k] = view.columnWidth(k)  # Qt enforces a minimum width
    return now


class ElidedTable(Table):
    """A table without horizontal scrolling, as long as the minimum widths fit."""

    def __init__(self) -> None:
        super().__init__()
        self._natural: list[int] = []
        self._soft: list[bool] = []
        self._given: list[int] = []
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # long names often differ only at their end

    def _fit(self) -> None:
        super()._fit()
        self._soft = [self._is_text(name) for name in self.rows.columns]
        self._natural = [self._need(k) for k in range(len(self.rows.columns))]
        self._given = []
        self._fit_width()

    def _need(self, column: int) -> int:
        """Natural width in pixels: of text by the first rows, of numbers by the widest value."""
        head = self.horizontalHeader()
        minimum = head.sectionSizeHint(column) + head.fontMetrics().horizontalAdvance(ARROW)
        if self._soft[column]:
            return max(self.columnWidth(column) - 28 + PAD, minimum)
        name = self.rows.columns[column]
        looks: dict[str, int] = {}  # text with digits as 0 → first row with it: few to measure
        for at, row in enumerate(self.rows.shown):
            looks.setdefault(shown(name, row_value(row, name)).translate(DIGITS), at)
        cells = (self.sizeHintForIndex(self.rows.index(at, column)).width() for at in looks.values())
        return max(max(cells, default=0) + PAD, minimum)

    def _fit_width(self) -> None:
        if len(self._natural) == len(self.rows.columns):
            self._given = fit_columns(self, self._natural, self._soft, self._given)

    def _is_text(self, column: str) -> bool:
        value = next((v for r in self.rows.shown if (v := r.get(column)) is not None), None)
        return alignment(value) == LEFT

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._fit_width()


class ElidedColumns(QObject):
    """Fits the columns of a tree to its width; `natural` widths, of which the first `soft` may shrink."""

    def __init__(self, tree: QTreeWidget, natural: Sequence[int], soft: int) -> None:
        super().__init__(tree)
        self._tree, self._natural = tree, natural
        self._is_text = [k < soft for k in range(len(natural))]
        self._given: list[int] = []
        self._room = -1
        tree.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        tree.viewport().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if (
            isinstance(event, QResizeEvent) and event.size().width() != self._room
        ):  # ignore height changes by a scroll bar
            self._room = event.size().width()
            self._given = fit_columns(self._tree, self._natural, self._is_text, self._given)
        return False
