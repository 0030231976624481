"""Panel SQNR: heat map of every weight under every format, with formats to apply."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QCursor, QLinearGradient, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.figures.facts import node_path
from espalier.app.number_text import plural
from espalier.app.session.streamed_analysis import StreamedAnalysis
from espalier.app.translation import tr
from espalier.app.widgets.forms.deferred_work import DeferredWork
from espalier.app.widgets.forms.fields import tokens
from espalier.app.widgets.heading import Elided, empty_state, link
from espalier.app.widgets.sqnr_table import MAX_DB, SqnrTable
from espalier.app.widgets.table import to_text
from espalier.model.document.recipe import Step
from espalier.model.errors import ExportError
from espalier.model.files import write_text
from espalier.model.graph.graph import Graph
from espalier.passes.analysis.format_sqnr import (
    PORT,
    FormatSqnrOptions,
    WeightSqnr,
    columns,
    tried_nodes,
    usual_formats,
)
from espalier.passes.choices.edits import with_format

if TYPE_CHECKING:
    from espalier.app.session.session import Session

BAR = 120  # pixels of the colour scale
DEFINITION = tr("SQNR is 10·log10(Σx² / Σ(x − q(x))²) of the stored weight: 6 dB more is one bit more.")
USAGE = tr("Click a cell to apply its format to the weight, a column title to apply it to all or to sort.")
FIRST = tr("Weights appear as they are measured. The first run takes longer: the formats' kernels are compiled.")
LOSS = tr("It does not tell a layer's effect on the model's accuracy.")


class SqnrPanel(DeferredWork):
    """Measures on request; rows appear as they are measured."""

    save_wanted = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.asking = StreamedAnalysis(session, self)
        self._measured: object = None
        self.table = SqnrTable()
        self.words = Elided("", "muted")
        self._counts = QLabel()
        self._counts.setProperty("role", "muted")
        self.again = link(tr("Measure again"), self._press)
        self.tools = [link(tr("Copy as TSV"), self.table.copy), link(tr("Save as CSV…"), self.save_wanted.emit)]
        self._empty, self.start = empty_state(""), link("", self.measure)
        self.menu = QMenu(self)
        self._pages = QStackedWidget()
        self._build()
        self._connect()
        self.refresh()

    def _build(self) -> None:
        bar = QHBoxLayout()
        bar.setContentsMargins(12, 6, 12, 4)
        bar.setSpacing(10)
        bar.addWidget(Legend())
        bar.addWidget(self._counts)
        bar.addStretch(1)
        for button in (self.again, *self.tools):
            bar.addWidget(button)
        body = QWidget()
        box = QVBoxLayout(body)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self.table, 1)
        self.words.setContentsMargins(12, 3, 12, 4)
        box.addWidget(self.words)
        self._pages.addWidget(self._first_page())
        self._pages.addWidget(body)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(self._pages)

    def _first_page(self) -> QWidget:
        page = QWidget()
        box = QVBoxLayout(page)
        box.addStretch(1)
        self._empty.setMargin(2)
        box.addWidget(self._empty)
        box.addWidget(self.start, 0, Qt.AlignmentFlag.AlignHCenter)
        box.addStretch(1)
        return page

    def _connect(self) -> None:
        self._session.opened.connect(self.refresh)
        self._session.changed.connect(lambda _: self._mark())
        self.asking.part_found.connect(self._take)
        self.asking.ended.connect(self._end)
        self.table.chosen.connect(self.apply)
        self.table.column_chosen.connect(self.apply_column)
        self.table.header_pressed.connect(self._ask_column)
        self.table.moved.connect(self._update_texts)

    # -- measuring

    def refresh(self) -> None:
        """Clear the results for another model."""
        self._measured = None
        self._pages.setCurrentIndex(0)
        self.when_visible(self._show_start_page)

    def _show_start_page(self) -> None:
        """Show what can be measured."""
        document = self._session.document
        nodes = tried_nodes(document.graph) if document else []
        has_weights = bool(document) and any(document.graph.weights[w].key for n in nodes for w in n.weights.values())
        self.start.setVisible(has_weights)
        self.start.setText(tr("Measure {} under {} formats", plural(len(nodes), "weight"), len(usual_formats())))
        self._empty.setText(
            tr("Not measured yet. {}", DEFINITION)
            if has_weights
            else tr("Open a model with weights to see what each format does to them.")
        )

    def measure(self) -> None:
        """Start the measurement; errors are shown with the job."""
        graph = self._session.open_document.graph
        names = {n.id: node_path(n) for n in tried_nodes(graph)}
        self.table.heat.begin(columns(usual_formats()), names)
        self.table.fit()
        self.words.show_text(FIRST)
        self._measured = _state(graph)
        self._pages.setCurrentIndex(1)
        self.asking.ask(tr("SQNR of formats"), Step("format_sqnr", FormatSqnrOptions()))
        self._mark()

    def _take(self, part: object) -> None:
        if isinstance(part, WeightSqnr):
            self.table.heat.add(part)
            if self.table.heat.rowCount() == 1:
                self.words.show_text(USAGE)
            self._count()

    def _end(self, good: bool) -> None:
        self._count()
        if not good and not self.table.heat.rowCount():
            self.refresh()

    def _mark(self) -> None:
        document = self._session.document
        if document is None or self._measured is None:
            return
        chosen = {n.id: n.precision[PORT].format for n in document.graph if PORT in n.precision}
        self.table.heat.use(chosen)
        self._count()

    def _count(self) -> None:
        heat, document = self.table.heat, self._session.document
        stale = document is not None and _state(document.graph) != self._measured
        total = f"{plural(heat.rowCount(), 'weight')} × {plural(len(heat.columns), 'format')}"
        text = tr("{} of {} weights", heat.rowCount(), len(heat.names)) if self.asking.busy else total
        self._counts.setText(tr("{} · weights have changed since", text) if stale else text)
        self.again.setText(tr("Stop") if self.asking.busy else tr("Measure again"))

    def _press(self) -> None:
        if self.asking.busy:
            self.asking.stop()
        else:
            self.measure()

    # -- applying

    def apply(self, row: int, column: int) -> None:
        """Apply a column's format to a row's weight as one undo step, and select the node."""
        weight = self.table.heat.row(row)
        document = self._session.document
        if document is not None and weight.node in document.graph.nodes:
            self._session.select((weight.node,))
        self._apply_rows([weight], column, f"{PORT} → {weight.formats[column].label}")

    def apply_column(self, column: int) -> None:
        """Apply a column's format, fitted to each weight, to all weights as one undo step."""
        rows, name = self.table.heat.rows, self.table.heat.columns[column]
        self._apply_rows(rows, column, f"{plural(len(rows), 'weight')} → {name}")

    def _apply_rows(self, rows: Iterable[WeightSqnr], column: int, label: str) -> None:
        document = self._session.document
        if document is None:
            return
        recipe, formats = self._session.recipe, {}
        for row in rows:
            if row.node in document.graph.nodes:
                formats.setdefault(row.formats[column], []).append(row.node)
        for fmt, ids in formats.items():
            recipe = with_format(recipe, tuple(ids), PORT, fmt)
        if formats:
            self._session.set_recipe(recipe, label)

    def _ask_column(self, column: int) -> None:
        heat = self.table.heat
        self.menu.clear()
        use = self.menu.addAction(tr("Use {} for all {}", heat.columns[column], plural(heat.rowCount(), "weight")))
        use.triggered.connect(lambda: self.apply_column(column))
        self.menu.addSeparator()
        for title, best in ((tr("Sort, best first"), True), (tr("Sort, worst first"), False)):
            self.menu.addAction(title).triggered.connect(lambda _=False, b=best: heat.arrange(column, b))
        self.menu.addAction(tr("In the model's order")).triggered.connect(lambda: heat.arrange(None))
        self.menu.popup(QCursor.pos())

    def _update_texts(self, current: QModelIndex) -> None:
        heat = self.table.heat
        if current.isValid():
            keys = tr("Enter applies it here, Ctrl+Enter to all {}", plural(heat.rowCount(), "weight"))
            self.words.show_text(f"{heat.cell_text(current)} · {keys}")

    # -- files

    def save(self, path: Path) -> None:
        """Write the table as CSV; raises ExportError."""
        write_text(path, to_text(*self.table.heat.table(), ","), ExportError)


def _state(graph: Graph) -> object:
    """The weights and masks that the results depend on."""
    masks = {n.id: n.sparsity[PORT].mask for n in graph if PORT in n.sparsity}
    return {k: w.key for k, w in graph.weights.items()}, masks


class Legend(QWidget):
    """Colour scale from 0 to 50 dB."""

    def __init__(self) -> None:
        super().__init__()
        self._texts = tr("SQNR  0"), tr("{:.0f}\u2009dB: better", MAX_DB)
        self.setFixedSize(self.sizeHint())
        self.setToolTip(f"{DEFINITION} {LOSS}")
        self.setAccessibleName(tr("Colours from 0 to {:.0f} dB", MAX_DB))

    def sizeHint(self) -> QSize:
        width = sum(map(self.fontMetrics().horizontalAdvance, self._texts))
        return QSize(width + BAR + 16, 20)

    def paintEvent(self, event: QPaintEvent) -> None:
        look, painter = tokens(self), QPainter(self)
        left = self.fontMetrics().horizontalAdvance(self._texts[0]) + 6
        bar = QRectF(left, 5, BAR, 10)
        colours = QLinearGradient(bar.topLeft(), bar.topRight())
        for i, stop in enumerate(look.scale):
            colours.setColorAt(i / (len(look.scale) - 1), stop)
        painter.fillRect(bar, colours)
        painter.setPen(look.muted)
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(QRectF(0, 0, left, 20), middle, self._texts[0])
        painter.drawText(QRectF(left + BAR + 6, 0, self.width(), 20), middle, self._texts[1])
