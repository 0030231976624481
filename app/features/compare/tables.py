"""The table of differences, with a row for equal changes of similar nodes, and the scores of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QColor, QPalette, QResizeEvent
from PySide6.QtWidgets import QHeaderView, QVBoxLayout, QWidget

from espalier.app.figures.difference import COST, Row, RowCosts, StateComparison, score_rows, table_rows, test_words
from espalier.app.number_text import plural
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import tokens
from espalier.app.widgets.heading import Elided
from espalier.app.widgets.table import RIGHT, Index, Table, TableModel
from espalier.passes.comparison.groups import Group

TONES = {"better": "good", "worse": "bad"}


def shared_widths(natural: Sequence[int], room: int) -> list[int]:
    """Column widths in pixels within a width: the first column takes the rest; if they do not fit, the widest
    shrink."""
    order = sorted(natural)
    cap, remaining = max(order, default=0), room
    if sum(order) > room:
        for index, width in enumerate(order):
            cap = max(remaining // (len(order) - index), 0)
            if width > cap:
                break
            remaining -= width
    widths = [min(width, cap) for width in natural]
    return [max(widths[0], room - sum(widths[1:])), *widths[1:]] if widths else []


class FittedTable(Table):
    """A table whose columns share its width, so that the longest texts are elided first; `numbers` stay whole."""

    numbers: tuple[str, ...] = ()

    def fit(self) -> None:
        """Give each column its width."""
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setStretchLastSection(False)
        columns = range(len(self.rows.columns))
        natural = {c: max(self.sizeHintForColumn(c), header.sectionSizeHint(c)) for c in columns}
        room = self.viewport().width()
        whole = [c for c in columns if self.rows.columns[c] in self.numbers]
        if sum(natural[c] for c in whole) > room // 2:
            whole = []
        others = [c for c in columns if c not in whole]
        widths = shared_widths([natural[c] for c in others], room - sum(natural[c] for c in whole))
        for column, width in {**{c: natural[c] for c in whole}, **dict(zip(others, widths, strict=True))}.items():
            header.resizeSection(column, width)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit()


class RightModel(TableModel):
    """A table model that aligns texts of numbers right."""

    def __init__(self, right: tuple[str, ...]) -> None:
        super().__init__()
        self._right = right

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The data of a cell."""
        if role == Qt.ItemDataRole.TextAlignmentRole and self.columns[index.column()] in self._right:
            return RIGHT
        return super().data(index, role)

    def headerData(self, section: int, side: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if (
            role == Qt.ItemDataRole.TextAlignmentRole
            and section < len(self.columns)
            and self.columns[section] in self._right
        ):
            return RIGHT
        return super().headerData(section, side, role)


class DifferenceTable(FittedTable):
    """`group_chosen`: the group of the row that became current."""

    group_chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__(model=RightModel(("size", COST)))
        self.numbers = ("size", COST)
        self.setAccessibleName(tr("Differences"))
        self.setTextElideMode(Qt.TextElideMode.ElideLeft)  # paths of nodes differ at their ends
        self._groups: dict[int, Group] = {}  # by the row's identity, which is independent of sorting
        self._all: list[Row] = []
        self.selectionModel().currentRowChanged.connect(self._chosen)

    def show_comparison(self, comparison: StateComparison | None) -> None:
        """Show the groups of a comparison."""
        rows = table_rows(comparison) if comparison is not None else []
        groups = comparison.groups if comparison is not None else ()
        self._all = rows
        self._groups = {id(row): group for row, group in zip(rows, groups, strict=True)}
        self.show_rows(rows)
        self.fit()

    def show_costs(self, costs: RowCosts | None) -> None:
        """Show what the rows cost alone, in place while the column is there, so that order and selection stay."""
        had = COST in self.rows.columns
        for index, row in enumerate(self._all):
            if costs is not None:
                row[COST] = costs.value(index)
            else:
                row.pop(COST, None)
        if had == (costs is not None):
            self.viewport().update()
        else:
            self.show_rows(self._all)
            self.fit()

    def group_at(self, row: int) -> Group | None:
        """The group of a shown row."""
        rows = self.rows.shown
        return self._groups.get(id(rows[row])) if 0 <= row < len(rows) else None

    def step(self, by: int) -> None:
        """Go to the next or the previous row, around the ends."""
        count = len(self.rows.shown)
        if count:
            row = self.currentIndex().row()
            self.setCurrentIndex(self.rows.index((row + by) % count if row >= 0 else (0 if by > 0 else count - 1), 0))

    def mark(self, nodes: frozenset[str]) -> None:
        """Make the first row with one of these nodes current, without emitting signals."""
        row = next((i for i, r in enumerate(self.rows.shown) if nodes & set(self._groups[id(r)].nodes)), -1)
        current = self.group_at(self.currentIndex().row())
        if row < 0 or (current is not None and nodes & set(current.nodes)):
            return
        blocked = self.selectionModel().blockSignals(True)
        self.setCurrentIndex(self.rows.index(row, 0))
        self.selectionModel().blockSignals(blocked)
        self.viewport().update()

    @property
    def position(self) -> str:
        """`3 of 48`."""
        count, row = len(self.rows.shown), self.currentIndex().row()
        return tr("{} of {}", row + 1, count) if row >= 0 else plural(count, "row")

    def _chosen(self, current: QModelIndex) -> None:
        if not self.selectionModel().hasSelection():  # focusing makes the first row current but unselected
            self.selectRow(current.row())
        if (group := self.group_at(current.row())) is not None:
            self.group_chosen.emit(group)

    def _choose(self, current: QModelIndex) -> None:
        """Emit the group of the current row; labels are not node ids, so that node signals are not emitted."""

    def want_node(self) -> None:
        """Select the nodes of the current row again."""
        self._chosen(self.currentIndex())


class _ScoreModel(RightModel):
    """Verdicts with colours for better and worse."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(("A", "B", "B − A"))
        self._widget = widget

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The data of a cell."""
        column = self.columns[index.column()]
        if role == Qt.ItemDataRole.ForegroundRole and column == "verdict":
            tone = TONES.get(str(self.shown[index.row()].get(column)))
            return QColor(getattr(tokens(self._widget), tone)) if tone else self._widget.palette().brush(
                QPalette.ColorRole.PlaceholderText
            )  # fmt: skip
        return super().data(index, role)


class ScoreTable(QWidget):
    """The metrics of A and B, B − A and the verdict, with the statistical test below."""

    def __init__(self) -> None:
        super().__init__()
        self.table = FittedTable(model=_ScoreModel(self))
        self.table.setAccessibleName(tr("Scores"))
        self.table.setSortingEnabled(False)
        self.words = Elided("", "muted")
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self.table, 1)
        self.words.setContentsMargins(12, 2, 12, 2)
        box.addWidget(self.words)

    def show_comparison(self, comparison: StateComparison | None) -> None:
        """Show the scores of a comparison."""
        scores = comparison.scores if comparison is not None else ()
        self.table.rows.set_rows(score_rows(scores))
        self.table.fit()
        self.words.show_text(test_words(scores))

    def save(self, path: Path) -> None:
        """Write the rows as CSV."""
        self.table.save(path)
