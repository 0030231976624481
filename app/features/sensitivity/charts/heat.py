"""Heat map of sensitivities: one row a port, one column a candidate, coloured by divergence."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QPersistentModelIndex,
    QPointF,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QFont,
    QFontMetrics,
    QKeyEvent,
    QLinearGradient,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QTableView,
    QWidget,
)

from espalier.app.figures.heat_lines import Heat, Line, divergence_text
from espalier.app.number_text import count
from espalier.app.theme import ROW, Palette
from espalier.app.translation import tr
from espalier.app.widgets.asking import header_text, offer_meaning
from espalier.app.widgets.forms.fields import tokens
from espalier.app.widgets.sqnr_table import text_colour
from espalier.model.formats.base import Format
from espalier.passes.sensitivity.table import Candidate

Index = QModelIndex | QPersistentModelIndex
_NOWHERE = QModelIndex()
Display = Qt.ItemDataRole.DisplayRole
CELL, NAMES, BAR = 54, 250, 110
SHADES = 96  # steps of the colours
DOT = 2.0  # radius of the dot of a measured cell
DOT_ROOM = 3  # horizontal offset of the text for the dot
Present = Mapping[tuple[str, str], Format]


class HeatModel(QAbstractTableModel):
    """Table model of a Heat. `error`: typical error factor of predictions, 0 if unknown."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.heat = Heat()
        self.present: Present = {}
        self.chosen: Collection[str] = ()
        self.error = 0.0

    def show_heat(self, heat: Heat) -> None:
        """Show a Heat; selection and scroll position are kept if rows and columns stay."""
        before = self.heat
        same = _outline(before) == _outline(heat)
        if same and before.columns == heat.columns:
            self.heat = heat
            self._emit_changed()
            return
        self.beginResetModel()
        self.heat = heat
        self.endResetModel()

    def mark(self, present: Present, chosen: Collection[str]) -> None:
        """Mark the ports' present formats with a frame, and the selected nodes."""
        self.present, self.chosen = present, chosen
        self._emit_changed()

    def _emit_changed(self) -> None:
        if self.heat.lines and self.heat.columns:
            self.dataChanged.emit(self.index(0, 0), self.index(self.rowCount() - 1, self.columnCount() - 1))
            self.headerDataChanged.emit(Qt.Orientation.Vertical, 0, self.rowCount() - 1)

    def line(self, index: int) -> Line:
        """The line of a row."""
        return self.heat.lines[index]

    def candidate(self, index: Index) -> Candidate | None:
        """The candidate of a cell."""
        return self.line(index.row()).candidate(index.column()) if index.isValid() else None

    def marked(self, index: Index) -> bool:
        """Whether the port has the cell's format."""
        return index.column() in self.present_columns(index.row())

    def present_columns(self, row: int) -> set[int]:
        """The columns with the present format of a row's port."""
        line = self.line(row)
        fmt = self.present.get((line.row.node, line.row.port)) if line.row else None
        if fmt is None:
            return set()
        candidates = ((i, line.candidate(i)) for i in range(len(self.heat.columns)))
        return {i for i, c in candidates if c and not c.sparsity and c.format == fmt}

    def rowCount(self, parent: Index = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.heat.lines)

    def columnCount(self, parent: Index = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.heat.columns)

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Cells without a candidate are not selectable."""
        able = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        return able if self.candidate(index) is not None else Qt.ItemFlag.NoItemFlags

    def data(self, index: Index, role: int = Display) -> object:
        """Text or tooltip of a cell; UserRole: the divergence."""
        if role not in (Display, Qt.ItemDataRole.UserRole, Qt.ItemDataRole.ToolTipRole):
            return None
        value = self.line(index.row()).known(index.column())
        if value is None:
            return None
        if role == Qt.ItemDataRole.ToolTipRole:
            return self.cell_text(index)
        return divergence_text(value) if role == Display else value

    def cell_text(self, index: Index) -> str:
        """Text of a cell: layer, port, candidate, predicted and measured divergence."""
        line = self.line(index.row())
        rank = line.place(index.column())
        if line.row is None or rank is None:
            return ""
        row = line.row
        candidate, measured = row.candidates[rank], row.measured[rank]
        margin = tr(" (± a factor of {:.1f})", self.error) if self.error > 1 and row.predicted[rank] > 0 else ""
        measured_text = tr("measured {}", divergence_text(measured)) if measured is not None else tr("not measured")
        predicted = tr("KL predicted {}{}", divergence_text(row.predicted[rank]), margin)
        return f"{row.node} · {row.port} · {candidate.label} · {predicted}, {measured_text}"

    def headerData(self, section: int, side: Qt.Orientation, role: int = Display) -> object:
        across = side == Qt.Orientation.Horizontal
        if section >= (self.columnCount() if across else self.rowCount()):
            return None  # while the model is reset, one header asks with the sections that it had before
        return (self._column_head if across else self._line_head)(section, role)

    def _line_head(self, section: int, role: int) -> object:
        line = self.line(section)
        if role == Display:
            return f"{line.title} {line.port}".strip()
        if role == Qt.ItemDataRole.ToolTipRole and line.row:
            return tr("{} · {}: {} elements", line.row.node, line.row.port, count(line.row.elements))
        return None

    def _column_head(self, section: int, role: int) -> object:
        column = self.heat.columns[section]
        if role == Display:
            return in_two(column.title)
        if role == Qt.ItemDataRole.ToolTipRole:
            return tr("{}: {:.3g} bits an element. Click to apply to the selected layers.", column.title, column.bits)
        return None


def _outline(heat: Heat) -> list[tuple[str, str, str]]:
    """Identity of the lines without their values."""
    return [(n.title, n.row.node if n.row else "", n.row.port if n.row else "") for n in heat.lines]


def in_two(title: str) -> str:
    """Split a column's title into two lines."""
    head, _, tail = title.partition(" · ") if " · " in title else title.partition(" ")
    return f"{head}\n{tail}"


@dataclass(frozen=True, slots=True)
class Paint:
    """Appearance of a cell: text, background, text colour, and the dot of a measured value."""

    text: str
    ground: QColor
    ink: QColor
    dot: bool


def paints(heat: Heat, line: Line, look: Palette) -> tuple[Paint | None, ...]:
    """The cells of a line; None if the port lacks the candidate."""
    cells: list[Paint | None] = []
    for column in range(len(heat.columns)):
        value = line.known(column)
        if value is None:
            cells.append(None)
            continue
        colour = look.sequential(round(heat.position(value) * SHADES) / SHADES)
        cells.append(Paint(divergence_text(value), *_inks(colour), line.measured(column)))
    return tuple(cells)


@lru_cache(maxsize=512)
def _inks(colour: str) -> tuple[QColor, QColor]:
    return QColor(colour), QColor(text_colour(colour))


def paint_cell(painter: QPainter, box: QRect, cell: Paint) -> None:
    """Paint background, value and dot."""
    painter.fillRect(box.adjusted(0, 0, -1, -1), cell.ground)
    painter.setPen(cell.ink)
    painter.drawText(box.adjusted(0, 0, -2 * DOT_ROOM, 0), Qt.AlignmentFlag.AlignCenter, cell.text)
    if cell.dot:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setBrush(cell.ink)
        painter.drawEllipse(box.topRight().toPointF() + QPointF(-4, 4.5), DOT, DOT)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


class LineHeads(QHeaderView):
    """Row headers: block titles bold, selected layers marked with a bar, ports at the right."""

    def __init__(self, parent: QTableView) -> None:
        super().__init__(Qt.Orientation.Vertical, parent)

    def paintSection(self, painter: QPainter, rect: QRect, logicalIndex: int) -> None:
        model = self.model()
        assert isinstance(model, HeatModel)
        look, line = tokens(self), model.line(logicalIndex)
        chosen = line.row is not None and line.row.node in model.chosen
        painter.save()
        painter.fillRect(rect, QColor(look.accent_ground if chosen else look.panel))
        if chosen:
            painter.fillRect(QRect(rect.left(), rect.top(), 3, rect.height()), QColor(look.accent))
        font = QFont(painter.font())
        font.setWeight(QFont.Weight.DemiBold if line.row is None else QFont.Weight.Normal)
        painter.setFont(font)
        box = rect.adjusted(12 if line.row is None else 20, 0, -8, 0)
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setPen(QColor(look.muted))
        painter.drawText(box, middle | Qt.AlignmentFlag.AlignRight, line.port)
        box.setWidth(box.width() - (painter.fontMetrics().horizontalAdvance(line.port) + 8 if line.port else 0))
        painter.setPen(QColor(look.muted if line.row is None else look.text))
        text = painter.fontMetrics().elidedText(line.title, Qt.TextElideMode.ElideLeft, box.width())
        painter.drawText(box, middle | Qt.AlignmentFlag.AlignLeft, text)
        painter.restore()


class HeatMap(QTableView):
    """Heat map view; emits `picked` when the selection changes and `wanted` with a cell to apply."""

    picked = Signal()
    wanted = Signal(object)
    column_pressed = Signal(int)
    menu_wanted = Signal(object, object)

    def __init__(self) -> None:
        super().__init__()
        offer_meaning(self.horizontalHeader(), partial(header_text, self.horizontalHeader()))
        self.cells = HeatModel(self)
        self.setModel(self.cells)
        self._ready: dict[int, tuple[Paint | None, ...]] = {}
        self._look: Palette | None = None
        self.cells.dataChanged.connect(lambda *_: self._ready.clear())
        self.cells.modelReset.connect(lambda: self._ready.clear())
        self.setShowGrid(False)
        self.setVerticalHeader(LineHeads(self))
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setTabKeyNavigation(False)  # Tab leaves the table
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setAccessibleName(tr("Sensitivity of layers to formats"))
        across, down = self.horizontalHeader(), self.verticalHeader()
        across.setDefaultSectionSize(CELL)
        across.setFixedHeight(38)
        across.setSectionsClickable(True)
        across.setDefaultAlignment(Qt.AlignmentFlag.AlignCenter)
        across.setHighlightSections(False)
        across.sectionClicked.connect(self.column_pressed)
        down.setDefaultSectionSize(ROW)
        down.setMinimumSectionSize(ROW)
        down.setFixedWidth(NAMES)
        down.setSectionsClickable(True)
        self.selectionModel().selectionChanged.connect(lambda *_: self.picked.emit())

    def show_heat(self, heat: Heat) -> None:
        """Show a Heat; columns fit their titles."""
        self.cells.show_heat(heat)
        metrics = QFontMetrics(self.horizontalHeader().font())
        for i, column in enumerate(heat.columns):
            widest = max(metrics.horizontalAdvance(part) for part in in_two(column.title).split("\n"))
            self.setColumnWidth(i, max(CELL, widest + 14) + 2 * DOT_ROOM)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint all cells at once: a delegate per cell would be too slow for scrolling."""
        look, painter, model = tokens(self), QPainter(self.viewport()), self.cells
        if look is not self._look:
            self._look = look
            self._ready.clear()
        painter.fillRect(event.rect(), QColor(look.panel))
        rows, columns = self._seen(event.rect())
        picked = {(i.row(), i.column()) for i in self.selectionModel().selectedIndexes()}
        for row in rows:
            if row not in self._ready:
                self._ready[row] = paints(model.heat, model.line(row), look)
            top, high, cells = self.rowViewportPosition(row), self.rowHeight(row), self._ready[row]
            present = model.present_columns(row)
            for column in columns:
                if (cell := cells[column]) is None:
                    continue
                box = QRect(self.columnViewportPosition(column), top, self.columnWidth(column), high)
                paint_cell(painter, box, cell)
                if (row, column) in picked or column in present:
                    painter.setBrush(Qt.BrushStyle.NoBrush)
                    painter.setPen(QPen(QColor(look.accent if (row, column) in picked else look.text), 2))
                    painter.drawRect(box.adjusted(1, 1, -2, -2))

    def _seen(self, area: QRect) -> tuple[range, range]:
        """The rows and columns in an area of the view."""
        rows, columns = self.cells.rowCount(), self.cells.columnCount()
        ends = (self.rowAt(area.top()), self.rowAt(area.bottom()), self.columnAt(area.left()),
                self.columnAt(area.right()))  # fmt: skip
        top, bottom, left, right = (e if e >= 0 else None for e in ends)
        return (range(top or 0, (rows if bottom is None else bottom + 1) if top is not None or rows else 0),
                range(left or 0, columns if right is None else right + 1))  # fmt: skip

    def places(self) -> list[QModelIndex]:
        """The selected cells in reading order."""
        indexes = self.selectionModel().selectedIndexes()
        return sorted(indexes, key=lambda i: (i.row(), i.column()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        current = self.currentIndex()
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and current.isValid():
            everywhere = event.modifiers() & Qt.KeyboardModifier.ControlModifier
            self.column_pressed.emit(current.column()) if everywhere else self.wanted.emit(current)
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        spot = event.pos() if event.reason() == QContextMenuEvent.Reason.Mouse else None
        index = self.indexAt(spot) if spot else self.currentIndex()
        if index.isValid() and self.cells.candidate(index) is not None:
            at = event.globalPos() if spot else self.viewport().mapToGlobal(self.visualRect(index).center())
            self.menu_wanted.emit(index, at)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if not self.currentIndex().isValid() and (first := self._first()) is not None:
            self.setCurrentIndex(self.cells.index(first, 0))

    def _first(self) -> int | None:
        return next((i for i, line in enumerate(self.cells.heat.lines) if line.row), None)


class HeatScale(QWidget):
    """Colour scale from the smallest to the largest divergence, in nats."""

    def __init__(self) -> None:
        super().__init__()
        self._ends = ("", "")
        self.setMinimumHeight(20)
        self.setToolTip(
            tr(
                "KL divergence of the model's outputs from those before, in nats a sample, on a logarithmic scale. "
                "A dot: measured; no dot: predicted"
            )
        )

    def show_heat(self, heat: Heat) -> None:
        """Set the ends of the scale."""
        self._ends = divergence_text(heat.low), divergence_text(heat.high)
        self.setAccessibleName(tr("Colours from {} to {}\u2009nats", self._ends[0], self._ends[1]))
        self.updateGeometry()
        self.update()

    def _widths(self) -> tuple[int, int]:
        return tuple(self.fontMetrics().horizontalAdvance(w) for w in self._words())  # type: ignore[return-value]

    def _words(self) -> tuple[str, str]:
        return self._ends[0], tr("{}\u2009nats   • measured", self._ends[1])

    def sizeHint(self) -> QSize:
        return QSize(sum(self._widths()) + BAR + 16, 20)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        look, painter = tokens(self), QPainter(self)
        left, right = self._widths()
        paint_scale(painter, QRectF(left + 6, 5, BAR, 10), look)
        painter.setPen(QColor(look.muted))
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(QRectF(0, 0, left, 20), middle, self._words()[0])
        painter.drawText(QRectF(left + BAR + 12, 0, right + 2, 20), middle, self._words()[1])


def paint_scale(painter: QPainter, bar: QRectF, look: Palette) -> None:
    """Paint the colour scale."""
    colours = QLinearGradient(bar.topLeft(), bar.topRight())
    for i, stop in enumerate(look.scale):
        colours.setColorAt(i / (len(look.scale) - 1), QColor(stop))
    painter.fillRect(bar, colours)
