"""Samples of a split as a table that loads pages while it is scrolled."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, Qt, Signal
from PySide6.QtGui import QColor, QImage, QPixmap
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from espalier.app.number_text import column_title, shown
from espalier.app.translation import tr
from espalier.app.widgets.asking import header_text, offer_meaning
from espalier.app.widgets.drag_handle import offer_table
from espalier.app.widgets.forms.fields import tokens
from espalier.app.widgets.table import Index, Row, alignment, columns_of, to_text

TEXT_HEIGHT, PICTURE_HEIGHT = 38, 52  # of a row with two lines of text, of a row with a picture
TIP_WIDTH = 100  # characters in a line of a tooltip
ROOT = QModelIndex()
Pictures = Mapping[int, tuple[int, int, int, bytes]]


class SampleModel(QAbstractTableModel):
    """Loaded pages of samples; `wanted` requests the next page, with the index of its first sample."""

    wanted = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.columns: list[str] = []
        self.found = 0
        self._pictures: dict[int, QPixmap] = {}
        self._requested = False

    def clear(self) -> None:
        """Remove all samples."""
        self.beginResetModel()
        self.rows, self.columns, self.found, self._requested = [], [], 0, False
        self._pictures.clear()
        self.endResetModel()

    def begin(self, rows: Sequence[Row], matches: int, pictures: Pictures) -> None:
        """Show the first page of `found` samples."""
        self.beginResetModel()
        self.rows, self.found, self._requested = list(rows), matches, False
        self.columns = columns_of(self.rows)
        if pictures:
            self.columns.insert(1, "picture")
        self._pictures = {at: picture(*data) for at, data in pictures.items()}
        self.endResetModel()

    def append(self, rows: Sequence[Row], pictures: Pictures) -> None:
        """Append another page."""
        self._requested = False
        self._pictures |= {at: picture(*data) for at, data in pictures.items()}
        self.beginInsertRows(ROOT, len(self.rows), len(self.rows) + len(rows) - 1)
        self.rows += rows
        self.endInsertRows()

    def canFetchMore(self, parent: Index) -> bool:
        return not parent.isValid() and not self._requested and 0 < len(self.rows) < self.found

    def fetchMore(self, parent: Index) -> None:
        self._requested = True
        self.wanted.emit(len(self.rows))

    def rowCount(self, parent: Index = ROOT) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = ROOT) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Value of a cell for a role."""
        name, row = self.columns[index.column()], self.rows[index.row()]
        if name == "picture":
            return self._pictures.get(row["sample"]) if role == Qt.ItemDataRole.DecorationRole else None
        value = row.get(name)
        if role == Qt.ItemDataRole.DisplayRole:
            return shown(name, value)
        if role == Qt.ItemDataRole.ToolTipRole and name == "text":
            return textwrap.fill(str(value), TIP_WIDTH)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return alignment(value)
        if role == Qt.ItemDataRole.ForegroundRole and name == "predicted" and value != row["class"]:
            return QColor(self.bad)
        return None

    bad = "#B3261E"

    def headerData(self, section: int, side: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if side == Qt.Orientation.Horizontal and section >= len(self.columns):
            return None  # a reset has taken it
        if side == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return column_title(self.columns[section])
        if side == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.TextAlignmentRole and self.rows:
            return alignment(self.rows[0].get(self.columns[section]))
        return None


def picture(height: int, width: int, channels: int, data: bytes) -> QPixmap:
    """A pixmap scaled to the height of a row, without smoothing."""
    kind = QImage.Format.Format_RGB888 if channels == 3 else QImage.Format.Format_Grayscale8
    plain = data if channels in (1, 3) else data[::channels]
    image = QImage(plain, width, height, width * (3 if channels == 3 else 1), kind).copy()
    side = PICTURE_HEIGHT - 6
    fast = Qt.TransformationMode.FastTransformation
    return QPixmap.fromImage(image.scaled(side, side, Qt.AspectRatioMode.KeepAspectRatio, fast))


class SampleTable(QTableView):
    """Table with two lines of text a row; the current row expands to its full text. Ctrl+C copies."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        offer_meaning(self.horizontalHeader(), partial(header_text, self.horizontalHeader()))
        self.samples = SampleModel()
        self.setModel(self.samples)
        self.setWordWrap(True)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setAccessibleName(tr("Samples"))
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.horizontalHeader().setHighlightSections(False)
        self.selectionModel().currentRowChanged.connect(self._expand_row)
        self.samples.modelReset.connect(self._fit_columns)
        self.handle = offer_table(self, SampleTable.as_text)

    @property
    def _height(self) -> int:
        return PICTURE_HEIGHT if "picture" in self.samples.columns else TEXT_HEIGHT

    def _fit_columns(self) -> None:
        """Set column widths from the first page; the text column stretches."""
        self.samples.bad = tokens(self).bad
        self.verticalHeader().setDefaultSectionSize(self._height)
        header, stretch = self.horizontalHeader(), QHeaderView.ResizeMode.Stretch
        for at, name in enumerate(self.samples.columns):
            wide = name == "text"
            header.setSectionResizeMode(at, stretch if wide else QHeaderView.ResizeMode.Interactive)
            if not wide:
                title = header.sectionSizeHint(at)
                self.setColumnWidth(at, min(max(self.sizeHintForColumn(at) + 6, title), 130))

    def _expand_row(self, current: Index, previous: Index) -> None:
        """Expand the current row to the height of its text."""
        if previous.isValid() and previous.row() < len(self.samples.rows):
            self.setRowHeight(previous.row(), self._height)
        if current.isValid():
            self.setRowHeight(current.row(), max(self.sizeHintForRow(current.row()), self._height))

    def as_text(self, delimiter: str) -> str:
        """The selected rows, or all, as delimited text without their pictures."""
        chosen = sorted(i.row() for i in self.selectionModel().selectedRows())
        rows: list[Any] = [self.samples.rows[i] for i in chosen] or self.samples.rows
        return to_text(rows, [c for c in self.samples.columns if c != "picture"], delimiter)
