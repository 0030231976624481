"""Panel Sensitivity: divergence of formats by layer as heat map, against measurements, and by layer."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QCursor
from PySide6.QtWidgets import QMenu, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.canvas.colouring import Overlay
from espalier.app.features.sensitivity.charts.heat_picture import export_heat
from espalier.app.features.sensitivity.views import Views
from espalier.app.figures.heat_lines import LEAST, Heat, arrange, title_of
from espalier.app.measured.sensitivities import NO_DATA, sensitivities_of
from espalier.app.number_text import plural
from espalier.app.session.job_strip import JobStrip
from espalier.app.translation import tr
from espalier.app.widgets.drag_handle import offer_picture
from espalier.app.widgets.heading import empty_state, link, set_role
from espalier.model.errors import EspalierError
from espalier.model.formats.base import Format
from espalier.passes.choices.edits import with_format, with_sparsity
from espalier.passes.sensitivity.table import Candidate, Sensitivity

if TYPE_CHECKING:
    from espalier.app.session.session import Session

ABOUT = tr(
    "One pass with gradients over some data predicts, for every format at every layer, the KL divergence of the "
    "outputs from the present ones."
)
NO_MODEL = tr("Open a model with weights to see which layers tolerate a coarse format.")
Cell = tuple[Sensitivity, Candidate]


class SensitivityPanel(QWidget):
    """Emits `port_wanted` to show a port in the inspector, `overlay_wanted` to colour the graph by `overlay`."""

    options_wanted = Signal()
    save_wanted = Signal()
    port_wanted = Signal(str)
    overlay_wanted = Signal()
    overlay_changed = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.known = sensitivities_of(session)
        self.views = Views()
        self._selecting = False
        self._empty = empty_state("")
        self.start = link("", self.run)
        self.ask = link(tr("Data and options…"), self.options_wanted.emit)
        self._pages, self.strip = QStackedWidget(), JobStrip(session)
        self.menu = QMenu(self)
        self._build()
        self._connect()
        self.refresh()

    def _build(self) -> None:
        whole = QVBoxLayout(self)  # outermost first: a reparented widget is styled again
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(self.strip)
        whole.addWidget(self._pages, 1)
        page = QWidget()
        self._pages.addWidget(page)
        self._pages.addWidget(self.views)
        box = QVBoxLayout(page)
        box.addStretch(1)
        self._empty.setMargin(2)
        box.addWidget(self._empty)
        for button in (self.start, self.ask):
            box.addWidget(button, 0, Qt.AlignmentFlag.AlignHCenter)
        box.addStretch(1)

    def _connect(self) -> None:
        session, views, heat = self._session, self.views, self.views.map
        self.known.changed.connect(self.refresh)
        session.changed.connect(lambda _: self._mark())
        session.score_changed.connect(self._data_changed)
        session.selection_changed.connect(lambda _: self._selected())
        views.arranged.connect(self.refresh)
        views.stop.connect(self._stop)
        views.run.connect(self.run)
        views.options.connect(self.options_wanted)
        views.measure.connect(self.measure)
        views.save.connect(self.save_wanted)
        views.colour.connect(self.overlay_wanted)
        views.format_chosen.connect(self.overlay_changed)
        offer_picture(heat, lambda of, path: export_heat(path, of.cells.heat, of.font()), menu=False)
        heat.picked.connect(self._picked)
        heat.wanted.connect(lambda index: self.apply_cells(self._cells([index])))
        heat.column_pressed.connect(self._ask_column)
        heat.menu_wanted.connect(self._ask_cell)
        for chart in (views.scatter, views.spread):
            chart.chosen.connect(lambda row, place: self._go_to(row))
        views.bars.chosen.connect(lambda line: self._go_to(line.row))

    # -- running

    def run(self) -> None:
        """Run with the last options or the source's data; without data ask for the options."""
        if self._session.document is None:
            return
        options = self.known.default_options()
        if options.data:
            self.start_run(options)
        else:
            self.options_wanted.emit()

    def start_run(self, options: Any) -> None:
        """Start a run; raises OptionsError without data."""
        self.known.run(options)

    def _stop(self) -> None:
        self.known.stop()

    def measure(self) -> None:
        """Measure the selected cells one at a time, in the background."""
        try:
            self.known.measure(self._cells(self.views.map.places()))
        except EspalierError as error:
            self._session.problem.emit(error)

    # -- showing

    def refresh(self) -> None:
        """Show the current rows."""
        document, table = self._session.document, self.known.table
        self.strip.show_job(self.known.job or self.known.cell_job)
        self._pages.setCurrentIndex(1 if table else 0)
        if document is None or not table:
            self._show_empty()
            self.overlay_changed.emit()
            return
        views = self.views
        only = set(self._session.selection) if views.only_selected else None
        heat = arrange(table, document.graph, views.ports, views.order, only)
        views.show_heat(heat, self.known)
        self._mark()

    def _show_empty(self) -> None:
        document, running = self._session.document, self.known.running
        has_weights = document is not None and any(w.key for w in document.graph.weights.values())
        data = self._session.measured_on.data if document else ""
        text = ABOUT if has_weights else NO_MODEL
        if has_weights and self.known.error:
            text = self.known.status
        elif running:
            text = tr("{} Measuring; rows appear as they are measured.", ABOUT)
        elif has_weights and not data:
            text = f"{ABOUT} {NO_DATA}"
        self._empty.setText(text)
        set_role(self._empty, "bad" if has_weights and self.known.error else "muted")
        self.start.setVisible(has_weights and bool(data) and not running)
        self.start.setText(tr("Compute sensitivities on {}", data.rpartition("/")[2]))
        self.ask.setVisible(has_weights and not running)

    def _data_changed(self) -> None:
        """Update the suggested data after a measurement."""
        if not self.known.table:
            self._show_empty()

    def _mark(self) -> None:
        """Mark present formats and selected layers."""
        document = self._session.document
        if document is not None:
            present = {(n.id, p): v.format for n in document.graph if n.precision for p, v in n.precision.items()}
            self.views.mark(present, frozenset(self._session.selection))
            self.views.show_status(self.known)
        self.overlay_changed.emit()

    def _selected(self) -> None:
        if self.views.only_selected and not self._selecting:
            self.refresh()
        else:
            self._mark()

    def _picked(self) -> None:
        """Select the nodes of the selected cells on the graph, and show the port."""
        cells = self._cells(self.views.map.places())
        self.views.show_cell()
        if not cells:
            return
        self._selecting = True
        self._session.select(dict.fromkeys(row.node for row, _ in cells))
        self._selecting = False
        self.port_wanted.emit(cells[-1][0].port)

    def _go_to(self, row: Sensitivity | None) -> None:
        if row is not None:
            self._session.select((row.node,))
            self.port_wanted.emit(row.port)

    # -- applying formats

    def _cells(self, indexes: Iterable[QModelIndex]) -> list[Cell]:
        model = self.views.map.cells
        pairs = ((model.line(i.row()).row, model.candidate(i)) for i in indexes)
        return [(row, candidate) for row, candidate in pairs if row is not None and candidate is not None]

    def _column(self, column: int, chosen: bool) -> list[Cell]:
        lines = self.views.heat.lines
        selected = set(self._session.selection)
        pairs = ((n.row, n.candidate(column)) for n in lines)
        return [(row, c) for row, c in pairs if row and c and (not chosen or row.node in selected)]

    def apply_cells(self, cells: list[Cell]) -> None:
        """Apply the cells' candidates to their ports as one undo step."""
        document = self._session.document
        if document is None or not cells:
            return
        recipe = self._session.recipe
        formats: dict[tuple[str, Format | None], list[str]] = {}
        pruned: dict[tuple[float, str], list[str]] = {}
        for row, candidate in cells:
            if row.node not in document.graph.nodes:
                continue
            if candidate.format or not candidate.sparsity:
                formats.setdefault((row.port, candidate.format), []).append(row.node)
            if candidate.sparsity:
                pruned.setdefault((candidate.sparsity, candidate.method), []).append(row.node)
        for (port, fmt), ids in formats.items():
            recipe = with_format(recipe, tuple(ids), port, fmt)
        for (ratio, method), ids in pruned.items():
            recipe = with_sparsity(recipe, tuple(ids), ratio, method, "local")
        if formats or pruned:
            self._session.set_recipe(recipe, _label(cells))

    def _ask_cell(self, index: QModelIndex, at: QPoint) -> None:
        cells = self._cells(self.views.map.places() or [index])
        self.menu.clear()
        verb = tr("Apply this format") if len(cells) == 1 else tr("Apply these {} formats", len(cells))
        self.menu.addAction(f"{verb} ({_label(cells)})").triggered.connect(lambda: self.apply_cells(cells))
        measure = self.menu.addAction(tr("Measure {}", tr("it") if len(cells) == 1 else tr("them")))
        measure.triggered.connect(self.measure)
        measure.setEnabled(not self.known.running)
        self.menu.popup(at)

    def _ask_column(self, column: int) -> None:
        """Show the menu of a column: apply its format to selected or all layers, show or colour by it."""
        self.menu.clear()
        name = self.views.heat.columns[column].title
        for chosen in (True, False):
            cells = self._column(column, chosen)
            count = len({row.node for row, _ in cells})
            act = self.menu.addAction(_apply_text(name, count, chosen))
            act.setEnabled(bool(cells))
            act.triggered.connect(partial(self.apply_cells, cells))
        self.menu.addSeparator()
        show = self.menu.addAction(tr("Show {} layer by layer", name))
        show.triggered.connect(lambda: self.views.show_layers(column))
        colour = self.menu.addAction(tr("Colour the graph by {}", name))
        colour.triggered.connect(lambda: self._colour(column))
        self.menu.popup(QCursor.pos())

    # -- the graph and files

    def _colour(self, column: int) -> None:
        self.views.choose_column(column)
        self.overlay_wanted.emit()

    def colour_chosen(self, mode: str) -> None:
        """Start a run if the graph shall be coloured by sensitivity, data is set, and there are no rows."""
        data = self._session.measured_on.data if self._session.document else ""
        if mode == "sensitivity" and data and not self.known.table and not self.known.running:
            self.run()

    def overlay(self) -> Overlay:
        """Overlay of the graph: largest divergence of a node's ports under the chosen format."""
        heat, column = self.views.heat, self.views.column
        if not self.known.table or not heat.columns:
            return Overlay("sensitivity", {}, "log", self.known.status or tr("not measured yet"))
        return Overlay(
            tr("KL under {}", heat.columns[column].title), overlay_values(heat, column), "log", self.known.status
        )

    def export(self, path: Path) -> None:
        """Export the current view to a .png, .svg or .csv file; raises FileError."""
        if self.views.chart is None:
            export_heat(path, self.views.heat, self.font())
        else:
            self.views.chart.export(path)


def overlay_values(heat: Heat, column: int) -> dict[str, float]:
    """Node → log10 of the largest divergence of its ports at a column."""
    values: dict[str, float] = {}
    for line in heat.lines:
        value = line.known(column)
        if line.row is not None and value is not None:
            values[line.row.node] = max(values.get(line.row.node, -99.0), log10(max(value, LEAST)))
    return values


def _label(cells: list[Cell]) -> str:
    """Undo label: `weight → int 4`, `3 layers → int 4`, `3 layers → several formats`."""
    names = {title_of(c) for _, c in cells}
    format_text = names.pop() if len(names) == 1 else tr("several formats")
    if len(cells) == 1:
        return f"{cells[0][0].port} → {cells[0][1].label}"
    return f"{plural(len({row.node for row, _ in cells}), 'layer')} → {format_text}"


def _apply_text(name: str, count: int, chosen: bool) -> str:
    """The action that applies a format to `count` layers, the selected or all."""
    if not count:
        return tr("Apply {} to the selected layers: none is selected", name)
    return tr("Apply {} to the {}", name, plural(count, "selected layer" if chosen else "layer"))
