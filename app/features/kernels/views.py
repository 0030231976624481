"""Result tabs of a kernel run: table, curves over sizes, roofline, source, comparison."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QTabBar, QVBoxLayout, QWidget

from espalier.app.features.kernels.charts.kernel_sweep import KernelSweep
from espalier.app.features.kernels.charts.roofline import Roofline
from espalier.app.features.kernels.comparison import KernelsComparison
from espalier.app.features.kernels.source import KernelSource
from espalier.app.features.kernels.state.row_text import type_word
from espalier.app.features.kernels.state.runs import Run
from espalier.app.features.kernels.table import KernelTable
from espalier.app.translation import tr, translated
from espalier.app.widgets.charts.chart import Chart
from espalier.app.widgets.form_panel import CurrentPageStack
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import empty_state, link
from espalier.app.widgets.table import Table
from espalier.kernels.bench.results import Row

TABS = translated(("Table", "Curves", "Roofline", "Source", "Compare"))
TABLE, CURVES, ROOF, SOURCE, COMPARE = range(5)
NOTHING = tr("Nothing has been measured yet. Select kernels at the left, then Run.")
TITLES = translated({"time": "time", "gb_s": "GB/s", "tflop_s": "FLOP/s", "ratio": "speed vs baseline"})


class Plot(QWidget):
    """A chart with choices and a legend above it."""

    def __init__(self, chart: KernelSweep | Roofline, *choices: QWidget) -> None:
        super().__init__()
        self.chart, self.legend = chart, QLabel()
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        bar = FlowLayout(spacing=8)
        bar.setContentsMargins(12, 4, 12, 2)
        for part in (*choices, self.legend):
            bar.addWidget(part)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        inside = QHBoxLayout()
        inside.setContentsMargins(4, 0, 12, 2)
        inside.addWidget(chart)
        box.addLayout(inside, 1)
        chart.themed.connect(self.update_legend)

    def update_legend(self) -> None:
        """Update the legend."""
        self.legend.setText(self.chart.legend())


class Views(QWidget):
    """Emits `save_wanted` with a table or chart, dialog title and file name, and `load_wanted` to load a file."""

    save_wanted = Signal(object, str, str)
    load_wanted = Signal()

    def __init__(self, *tools: QWidget) -> None:
        """`tools`: widgets at the end of the tab row."""
        super().__init__()
        self._run: Run | None = None
        self._others = tools
        self.tabs, self._pages = QTabBar(), CurrentPageStack()
        self.table, self.comparison = KernelTable(), KernelsComparison()
        self.table.setAccessibleName(tr("Kernels"))
        self.kernel, self.dtype = Choice(), Choice()
        self.figure = Choice(tuple(TITLES), tuple(TITLES.values()))
        self.curves = Plot(KernelSweep(), self.kernel, self.dtype, self.figure)
        self.roof = Plot(Roofline())
        self.source = KernelSource(lambda: self._run.rows if self._run else ())
        self._empty = empty_state(NOTHING)
        self._tools = (link(tr("Copy"), lambda: self._now_table().copy()), link(tr("Save as…"), self._save))
        self._build()
        self._connect()

    def _build(self) -> None:
        for title in TABS:
            self.tabs.addTab(title)
        self.tabs.setAccessibleName(tr("View of the run"))
        self.tabs.setExpanding(False)
        self.tabs.setUsesScrollButtons(True)
        self.tabs.setElideMode(Qt.TextElideMode.ElideNone)
        for choice, name in ((self.kernel, tr("Kernel")), (self.dtype, tr("Type")), (self.figure, tr("Figure"))):
            choice.setAccessibleName(name)
        for page in (self.table, self.curves, self.roof, self.source, self.comparison, self._empty):
            self._pages.addWidget(page)
        bar = FlowLayout(spacing=10)
        bar.setContentsMargins(4, 0, 12, 0)
        for part in (self.tabs, *self._tools, *self._others):
            bar.addWidget(part)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self._pages, 1)

    def _connect(self) -> None:
        self.tabs.currentChanged.connect(lambda _: self.refresh())
        for choice in (self.kernel, self.dtype, self.figure):
            choice.edited.connect(self._draw)
        self.table.picked_row.connect(self._picked)
        for chart in (self.curves.chart, self.roof.chart):
            chart.chosen.connect(self._pointed)
        self.comparison.load_wanted.connect(self.load_wanted)

    # -- display

    def show_run(self, run: Run | None) -> None:
        """Show a run, or more rows of the shown one."""
        other = run is not self._run
        self._run = run
        rows = run.rows if run else []
        kernels = tuple(dict.fromkeys(r.kernel for r in rows))
        self.kernel.offer(kernels, tuple(k.replace("_", " ") for k in kernels))
        if other or len(kernels) == 1:
            self.kernel.put(kernels[0] if kernels else None)
        self._offer_types(rows)
        self.refresh()

    def _offer_types(self, rows: list[Row]) -> None:
        dtypes = tuple(dict.fromkeys(r.dtype for r in rows))
        self.dtype.offer(dtypes, tuple(map(type_word, dtypes)))
        self.dtype.setVisible(len(dtypes) > 1)
        self.kernel.setVisible(len(self.kernel.values) > 0)

    def refresh(self) -> None:
        """Update the tab in front."""
        at, rows = self.tabs.currentIndex(), self._run.rows if self._run else []
        message = self._missing(at, rows)
        self._empty.setText(message)
        self._pages.setCurrentIndex(len(TABS) if message else at)
        self._tools[0].setVisible(at in (TABLE, COMPARE) and not message)
        self._tools[1].setVisible(at != SOURCE and not message)
        if at == TABLE:
            self.table.show_run(rows)
        elif at in (CURVES, ROOF):
            self._draw()
        elif at == SOURCE:
            self.source.refresh()
        else:
            self.comparison.refresh()

    def _missing(self, at: int, rows: list[Row]) -> str:
        """Text shown instead of an empty tab."""
        if at in (SOURCE, COMPARE):
            return ""
        if not rows:
            return tr("The first row is being measured.") if self._run and self._run.job else NOTHING
        if at != TABLE and not any(r.seconds for r in rows):
            return tr("No row has a time: see the table for the reasons.")
        return ""

    def _draw(self) -> None:
        """Draw the chart in front."""
        run = self._run
        if run is None or not run.rows:
            return
        names = tuple(dict.fromkeys(r.version for r in run.rows))
        if self.tabs.currentIndex() == CURVES:
            kernel, dtype = self.kernel.get(), self.dtype.get()
            rows = [r for r in run.rows if r.kernel == kernel and r.dtype == dtype]
            chart = self.curves.chart
            assert isinstance(chart, KernelSweep)
            chart.show_rows(rows, self.figure.get(), names, run.results.ceilings)
            self.curves.update_legend()
        elif self.tabs.currentIndex() == ROOF:
            chart = self.roof.chart
            assert isinstance(chart, Roofline)
            chart.show_rows(run.rows, names, run.results.ceilings)
            self.roof.update_legend()

    # -- linked selection

    def _picked(self, row: Row) -> None:
        """Draw and show the source of the kernel of a chosen table row."""
        self.kernel.put(row.kernel)
        self.dtype.put(row.dtype)
        self.source.show_kernel(row.kernel, row.version)

    def _pointed(self, row: Row) -> None:
        """Select the table row of a clicked chart point."""
        self.table.show_run(self._run.rows if self._run else ())
        self.table.choose_row(row)
        self._picked(row)

    # -- files

    def _now_table(self) -> Table:
        return self.comparison.table if self.tabs.currentIndex() == COMPARE else self.table

    def _save(self) -> None:
        contents: dict[int, tuple[Table | Chart, str, str]] = {
            TABLE: (self.table, tr("Save the table"), "kernels.csv"),
            CURVES: (self.curves.chart, tr("Save the curves"), "kernels.png"),
            ROOF: (self.roof.chart, tr("Save the roofline"), "roofline.png"),
            COMPARE: (self.comparison.table, tr("Save the table"), "kernels-compared.csv"),
        }
        self.save_wanted.emit(*contents[self.tabs.currentIndex()])

    def export(self, path: Path) -> None:
        """Write the chart in front to a .png, .svg or .csv file; raises FileError."""
        (self.roof if self.tabs.currentIndex() == ROOF else self.curves).chart.export(path)
