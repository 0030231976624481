"""What came of a run of kernels: its rows, curves over sizes, the roofline, the source, another run beside it."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QTabBar, QVBoxLayout, QWidget

from espalier.app.features.kernels.beside import KernelsBeside
from espalier.app.features.kernels.charts.kernel_sweep import KernelSweep
from espalier.app.features.kernels.charts.roofline import Roofline
from espalier.app.features.kernels.source import KernelSource
from espalier.app.features.kernels.state.runs import Run
from espalier.app.features.kernels.state.words import type_word
from espalier.app.features.kernels.table import KernelTable
from espalier.app.widgets.bench import Front
from espalier.app.widgets.charts.chart import Chart
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.forms.flow import Flow
from espalier.app.widgets.heading import empty_state, link
from espalier.app.widgets.table import Table
from espalier.kernels.bench.results import Row

TABS = ("Table", "Curves", "Roofline", "Source", "Compare")
TABLE, CURVES, ROOF, SOURCE, BESIDE = range(5)
NOTHING = "Nothing has been measured yet. Select kernels at the left, then Run."
TITLES = {"time": "time", "gb_s": "GB/s", "tflop_s": "FLOP/s", "ratio": "against the baseline"}


class Plot(QWidget):
    """A chart under its choices and its legend."""

    def __init__(self, chart: KernelSweep | Roofline, *choices: QWidget) -> None:
        super().__init__()
        self.chart, self.legend = chart, QLabel()
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        bar = Flow(spacing=8)
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
        chart.themed.connect(self.tell)

    def tell(self) -> None:
        """The legend in the colours of the theme."""
        self.legend.setText(self.chart.legend())


class Views(QWidget):
    """`save_wanted`: a table or a chart, a title and a file's name. `load_wanted`: a file is to be read."""

    save_wanted = Signal(object, str, str)
    load_wanted = Signal()

    def __init__(self, *tools: QWidget) -> None:
        """`tools` stand at the end of the row of tabs."""
        super().__init__()
        self._run: Run | None = None
        self._others = tools
        self.tabs, self._pages = QTabBar(), Front()
        self.table, self.beside = KernelTable(), KernelsBeside()
        self.kernel, self.dtype = Choice(), Choice()
        self.figure = Choice(tuple(TITLES), tuple(TITLES.values()))
        self.curves = Plot(KernelSweep(), self.kernel, self.dtype, self.figure)
        self.roof = Plot(Roofline())
        self.source = KernelSource(lambda: self._run.rows if self._run else ())
        self._empty = empty_state(NOTHING)
        self._tools = (link("Copy", lambda: self._now_table().copy()), link("Save as…", self._save))
        self._build()
        self._connect()

    def _build(self) -> None:
        for title in TABS:
            self.tabs.addTab(title)
        self.tabs.setAccessibleName("View of the run")
        self.tabs.setExpanding(False)
        self.tabs.setUsesScrollButtons(True)
        self.tabs.setElideMode(Qt.TextElideMode.ElideNone)
        for choice, name in ((self.kernel, "Kernel"), (self.dtype, "Type"), (self.figure, "Figure")):
            choice.setAccessibleName(name)
        for page in (self.table, self.curves, self.roof, self.source, self.beside, self._empty):
            self._pages.addWidget(page)
        bar = Flow(spacing=10)
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
        self.beside.load_wanted.connect(self.load_wanted)

    # -- what is shown

    def show_run(self, run: Run | None) -> None:
        """Show another run, or the same with more rows."""
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
        """Show what the tab in front has; the others when they are looked at."""
        at, rows = self.tabs.currentIndex(), self._run.rows if self._run else []
        words = self._missing(at, rows)
        self._empty.setText(words)
        self._pages.setCurrentIndex(len(TABS) if words else at)
        self._tools[0].setVisible(at in (TABLE, BESIDE) and not words)
        self._tools[1].setVisible(at != SOURCE and not words)
        if at == TABLE:
            self.table.show_run(rows)
        elif at in (CURVES, ROOF):
            self._draw()
        elif at == SOURCE:
            self.source.refresh()
        else:
            self.beside.refresh()

    def _missing(self, at: int, rows: list[Row]) -> str:
        """What is said in the place of a tab that has nothing."""
        if at in (SOURCE, BESIDE):
            return ""
        if not rows:
            return "The first row is being measured." if self._run and self._run.job else NOTHING
        if at != TABLE and not any(r.seconds for r in rows):
            return "No row has a time: the table says why."
        return ""

    def _draw(self) -> None:
        """Draw the chart that is in front."""
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
            self.curves.tell()
        elif self.tabs.currentIndex() == ROOF:
            chart = self.roof.chart
            assert isinstance(chart, Roofline)
            chart.show_rows(run.rows, names, run.results.ceilings)
            self.roof.tell()

    # -- from one view to the other

    def _picked(self, row: Row) -> None:
        """A row of the table: its kernel is the one that is drawn and read."""
        self.kernel.put(row.kernel)
        self.dtype.put(row.dtype)
        self.source.show_kernel(row.kernel, row.version)

    def _pointed(self, row: Row) -> None:
        """A point of a chart: its row, in the table."""
        self.table.show_run(self._run.rows if self._run else ())
        self.table.choose_row(row)
        self._picked(row)

    # -- files

    def _now_table(self) -> Table:
        return self.beside.table if self.tabs.currentIndex() == BESIDE else self.table

    def _save(self) -> None:
        what: dict[int, tuple[Table | Chart, str, str]] = {
            TABLE: (self.table, "Save the table", "kernels.csv"),
            CURVES: (self.curves.chart, "Save the curves", "kernels.png"),
            ROOF: (self.roof.chart, "Save the roofline", "roofline.png"),
            BESIDE: (self.beside.table, "Save the table", "kernels-compared.csv"),
        }
        self.save_wanted.emit(*what[self.tabs.currentIndex()])

    def export(self, path: Path) -> None:
        """Write the chart in front to a .png, .svg or .csv file; raises FileError."""
        (self.roof if self.tabs.currentIndex() == ROOF else self.curves).chart.export(path)
