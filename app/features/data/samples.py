"""The samples of a split as a table that grows while it is scrolled; the window holds only what has been looked at."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, Qt, Signal
from PySide6.QtGui import QColor, QGuiApplication, QImage, QKeySequence, QPixmap, QShortcut
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from espalier.app.widgets.forms.fields import tokens
from espalier.app.widgets.table import Index, Row, alignment, columns_of, to_text
from espalier.app.words import column_title, shown

LINES, PICTURE = 38, 52  # heights of a row with two lines of text, with a picture
TIP = 100  # characters of a line of a tooltip
NOWHERE = QModelIndex()
Pictures = Mapping[int, tuple[int, int, int, bytes]]


class SampleModel(QAbstractTableModel):
    """The pages that were loaded; `wanted` asks for the next one, from how many on."""

    wanted = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.columns: list[str] = []
        self.found = 0
        self._pictures: dict[int, QPixmap] = {}
        self._asked = False

    def clear(self) -> None:
        """Show nothing."""
        self.beginResetModel()
        self.rows, self.columns, self.found, self._asked = [], [], 0, False
        self._pictures.clear()
        self.endResetModel()

    def begin(self, rows: Sequence[Row], found: int, pictures: Pictures) -> None:
        """Show the first page of so many."""
        self.beginResetModel()
        self.rows, self.found, self._asked = list(rows), found, False
        self.columns = columns_of(self.rows)
        if pictures:
            self.columns.insert(1, "picture")
        self._pictures = {at: picture(*given) for at, given in pictures.items()}
        self.endResetModel()

    def append(self, rows: Sequence[Row], pictures: Pictures) -> None:
        """Show another page below."""
        self._asked = False
        self._pictures |= {at: picture(*given) for at, given in pictures.items()}
        self.beginInsertRows(NOWHERE, len(self.rows), len(self.rows) + len(rows) - 1)
        self.rows += rows
        self.endInsertRows()

    def canFetchMore(self, parent: Index) -> bool:
        return not parent.isValid() and not self._asked and 0 < len(self.rows) < self.found

    def fetchMore(self, parent: Index) -> None:
        self._asked = True
        self.wanted.emit(len(self.rows))

    def rowCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """What the view asks of a cell."""
        name, row = self.columns[index.column()], self.rows[index.row()]
        if name == "picture":
            return self._pictures.get(row["sample"]) if role == Qt.ItemDataRole.DecorationRole else None
        value = row.get(name)
        if role == Qt.ItemDataRole.DisplayRole:
            return shown(name, value)
        if role == Qt.ItemDataRole.ToolTipRole and name == "text":
            return textwrap.fill(str(value), TIP)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return alignment(value)
        if role == Qt.ItemDataRole.ForegroundRole and name == "told" and value != row["class"]:
            return QColor(self.bad)
        return None

    bad = "#B3261E"

    def headerData(self, section: int, side: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if side == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return column_title(self.columns[section])
        if side == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.TextAlignmentRole and self.rows:
            return alignment(self.rows[0].get(self.columns[section]))
        return None


def picture(height: int, width: int, channels: int, data: bytes) -> QPixmap:
    """A small picture, in whole multiples of its pixels where it is tiny."""
    kind = QImage.Format.Format_RGB888 if channels == 3 else QImage.Format.Format_Grayscale8
    plain = data if channels in (1, 3) else data[::channels]
    image = QImage(plain, width, height, width * (3 if channels == 3 else 1), kind).copy()
    side = PICTURE - 6
    fast = Qt.TransformationMode.FastTransformation
    return QPixmap.fromImage(image.scaled(side, side, Qt.AspectRatioMode.KeepAspectRatio, fast))


class SampleTable(QTableView):
    """Two lines of text a row; the current row shows all of its text. Ctrl+C copies."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.samples = SampleModel()
        self.setModel(self.samples)
        self.setWordWrap(True)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setAccessibleName("Samples")
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.horizontalHeader().setHighlightSections(False)
        self.selectionModel().currentRowChanged.connect(self._unfold)
        self.samples.modelReset.connect(self._fit)
        copy = QShortcut(QKeySequence(QKeySequence.StandardKey.Copy), self)
        copy.setContext(Qt.ShortcutContext.WidgetShortcut)
        copy.activated.connect(self._copy)

    @property
    def _height(self) -> int:
        return PICTURE if "picture" in self.samples.columns else LINES

    def _fit(self) -> None:
        """Widths for what the first page holds; the text has the rest."""
        self.samples.bad = tokens(self).bad
        self.verticalHeader().setDefaultSectionSize(self._height)
        header, stretch = self.horizontalHeader(), QHeaderView.ResizeMode.Stretch
        for at, name in enumerate(self.samples.columns):
            wide = name == "text"
            header.setSectionResizeMode(at, stretch if wide else QHeaderView.ResizeMode.Interactive)
            if not wide:
                title = header.sectionSizeHint(at)
                self.setColumnWidth(at, min(max(self.sizeHintForColumn(at) + 6, title), 130))

    def _unfold(self, now: Index, before: Index) -> None:
        """The current row is as high as its text."""
        if before.isValid() and before.row() < len(self.samples.rows):
            self.setRowHeight(before.row(), self._height)
        if now.isValid():
            self.setRowHeight(now.row(), max(self.sizeHintForRow(now.row()), self._height))

    def _copy(self) -> None:
        chosen = sorted(i.row() for i in self.selectionModel().selectedRows())
        rows: list[Any] = [self.samples.rows[i] for i in chosen] or self.samples.rows
        QGuiApplication.clipboard().setText(to_text(rows, [c for c in self.samples.columns if c != "picture"], "\t"))
