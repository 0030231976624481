"""Tabs of the panel Sensitivity (heat map, scatter, bars) with their toolbar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QTabBar, QVBoxLayout, QWidget

from espalier.app.features.sensitivity.charts.agreement import AgreementChart, agreement_text
from espalier.app.features.sensitivity.charts.error_spread import ErrorSpread
from espalier.app.features.sensitivity.charts.heat import HeatMap, HeatScale, Present
from espalier.app.features.sensitivity.charts.heat_bars import LayerBars
from espalier.app.figures.heat_lines import PORTS, Heat, Order
from espalier.app.number_text import plural
from espalier.app.translation import tr, translated
from espalier.app.widgets.charts.chart import Chart
from espalier.app.widgets.forms.fields import Check, Choice
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import Elided, empty_state, link, set_role
from espalier.app.widgets.plain_text_style import rich_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from espalier.app.measured.sensitivities import Sensitivities
    from espalier.passes.sensitivity.table import Sensitivity

TABS = translated(("Heat map", "Predicted against measured", "Layers"))
ORDERS: dict[Order, str] = translated({"model": "in the model's order", "sensitivity": "most sensitive first"})
NO_DOTS = tr(
    "Nothing has been measured yet. Select cells of the heat map and choose Measure selected, "
    "or let the run measure some (Options…)."
)
MAP, SCATTER, BARS = range(3)


class Views(QWidget):
    """Emits `arranged` when other rows shall be shown; the other signals come from the links."""

    arranged = Signal()
    run = Signal()
    stop = Signal()
    options = Signal()
    measure = Signal()
    save = Signal()
    colour = Signal()
    format_chosen = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.heat = Heat()
        self._error = 0.0
        self._table: Sequence[Sensitivity] = ()
        self.map, self.scatter, self.bars = HeatMap(), AgreementChart(), LayerBars()
        self.spread = ErrorSpread()
        self.tabs, self._pages = QTabBar(), QStackedWidget()
        self._ports, self._order = Choice(tuple(PORTS)), Choice(tuple(ORDERS), tuple(ORDERS.values()))
        self._only = Check(tr("only selected layers"))
        self._format = Choice()
        self.status, self.words, self.scale = Elided("", "muted", 40), Elided("", "muted"), HeatScale()
        self._legend = rich_label()
        self._empty = empty_state(NO_DOTS)
        self.links = {
            "run": link(tr("Run again"), self.run.emit),
            "stop": link(tr("Stop"), self.stop.emit),
            "options": link(tr("Options…"), self.options.emit),
            "measure": link(tr("Measure selected"), self.measure.emit),
            "colour": link(tr("Colour the graph"), self.colour.emit),
            "save": link(tr("Save as…"), self.save.emit),
        }
        self._build()
        self._connect()

    def _build(self) -> None:
        for title in TABS:
            self.tabs.addTab(title)
        self.tabs.setAccessibleName(tr("View of the sensitivities"))
        for choice, name in ((self._ports, tr("Ports")), (self._order, tr("Order")), (self._format, tr("Format"))):
            choice.setAccessibleName(name)
        self._format.setToolTip(tr("The format of the bars, and of the colours on the graph"))
        box = QVBoxLayout(self)  # outermost first: a reparented widget is styled again
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        bar = FlowLayout(spacing=10)
        box.addLayout(bar)
        box.addWidget(self._pages, 1)
        self.words.setContentsMargins(12, 3, 12, 4)
        box.addWidget(self.words)
        bar.setContentsMargins(12, 2, 12, 2)
        for part in (self.tabs, self._ports, self._order, self._format, self._only, self.scale, self._legend,
                     self.status, *self.links.values()):  # fmt: skip
            bar.addWidget(part)
        for page in (self.map, self._scatter_page(), self.bars, self._empty):
            self._pages.addWidget(page)

    def _scatter_page(self) -> QWidget:
        """Page with the scatter chart and the error by format."""
        page = QWidget()
        row = QHBoxLayout(page)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self.scatter, 1)
        row.addWidget(self.spread, 1)
        return page

    def _connect(self) -> None:
        self.tabs.currentChanged.connect(lambda _: self._show_tab())
        for part in (self._ports, self._order, self._only):
            part.edited.connect(self.arranged)
        self._format.edited.connect(self._format_chosen)
        for chart in (self.scatter, self.bars):
            chart.themed.connect(self._name_colours)
        self.map.selectionModel().currentChanged.connect(lambda *_: self.show_cell())

    # -- choices

    @property
    def ports(self) -> str:
        """The shown ports, a key of PORTS."""
        return self._ports.get()

    @property
    def order(self) -> Order:
        """The order of the rows."""
        return self._order.get()

    @property
    def only_selected(self) -> bool:
        """Whether only rows of selected nodes are shown."""
        return self._only.get()

    @property
    def column(self) -> int:
        """The column of the bars and of the graph's colours."""
        return max(self._format.currentIndex(), 0)

    @property
    def chart(self) -> Chart | None:
        """The chart in front; None for the map."""
        return (None, self.scatter, self.bars)[self.tabs.currentIndex()]

    def choose_column(self, column: int) -> None:
        """Choose the format of the bars and of the graph's colours."""
        self._format.setCurrentIndex(column)
        self._format_chosen()

    def _format_chosen(self) -> None:
        self._show_bars()
        self.format_chosen.emit()

    def show_layers(self, column: int) -> None:
        """Show the bars of a column."""
        self.choose_column(column)
        self.tabs.setCurrentIndex(BARS)

    # -- showing

    def show_heat(self, heat: Heat, sensitivities: Sensitivities) -> None:
        """Show a Heat; the chosen format is kept if possible."""
        self.heat = heat
        self._offer_formats()
        self.map.cells.error = sensitivities.error_factor
        self._error = sensitivities.left_out_factor
        self.map.show_heat(heat)
        self.scale.show_heat(heat)
        if sensitivities.table is not self._table:
            self._table = sensitivities.table
            self.scatter.show_table(sensitivities.table)
        self._show_bars()
        self._show_tab()

    def _offer_formats(self) -> None:
        titles = tuple(c.title for c in self.heat.columns)
        if titles != self._format.values:
            first = self._format.currentIndex() < 0
            self._format.offer(titles)
            if first and titles:  # about 4 bits, where layers differ
                near = min(range(len(titles)), key=lambda i: abs(self.heat.columns[i].bits - 4))
                self._format.setCurrentIndex(near)

    def mark(self, present: Present, chosen: frozenset[str]) -> None:
        """Mark the ports' present formats and the selected nodes."""
        self.map.cells.mark(present, chosen)
        if chosen != self.bars.picked:
            self._show_bars(chosen)

    def _show_bars(self, chosen: frozenset[str] | None = None) -> None:
        self.bars.show_column(self.heat, self.column, self.bars.picked if chosen is None else chosen)
        self._name_colours()

    def _show_tab(self) -> None:
        tab = self.tabs.currentIndex()
        self._pages.setCurrentIndex(len(TABS) if tab == SCATTER and not self.scatter.dots else tab)
        self.scale.setVisible(tab == MAP)
        if tab == SCATTER and self.spread.dots is not self.scatter.dots:
            self.spread.show_dots(self.scatter.dots)
        self._name_colours()
        self._format.setVisible(tab == BARS)
        for part in (self._ports, self._order, self._only):  # the scatter chart shows all measured cells
            part.setVisible(tab != SCATTER)
        self.links["measure"].setVisible(tab == MAP)
        self.show_cell()

    def _name_colours(self) -> None:
        """Update the legend of the chart in front."""
        chart = self.chart
        texts = chart.legend() if isinstance(chart, AgreementChart | LayerBars) else ""
        self._legend.setText(texts)
        self._legend.setVisible(bool(texts))

    def show_status(self, sensitivities: Sensitivities) -> None:
        """Update the status text and the links."""
        count = len(sensitivities.table) if self.tabs.currentIndex() == SCATTER else sum(
            line.row is not None for line in self.heat.lines)  # fmt: skip
        rows = plural(count, "row")
        self.status.show_text(" · ".join(w for w in (rows, sensitivities.status) if w))
        set_role(self.status, "bad" if sensitivities.error else "muted")
        self.links["stop"].setVisible(sensitivities.running or sensitivities.measuring)
        self.links["run"].setVisible(not sensitivities.running)
        self.links["measure"].setEnabled(not (sensitivities.running or sensitivities.measuring))

    def show_cell(self) -> None:
        """Show the current cell's text, or the accuracy of the predictions."""
        current = self.map.currentIndex()
        if self.tabs.currentIndex() == SCATTER:
            left_out = tr("cells left out are off by a factor of {:.2g} in the median", self._error)
            texts = (agreement_text(self.scatter.dots), left_out if self._error and self.scatter.dots else "")
            self.words.show_text(" · ".join(w for w in texts if w))
        elif self.tabs.currentIndex() == MAP and current.isValid():
            keys = tr("Enter applies it here, a click on the column title to more")
            self.words.show_text(f"{self.map.cells.cell_text(current)} · {keys}")
        else:
            self.words.show_text("")
