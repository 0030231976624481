"""Plots panel: live plots of jobs that report metrics while they run, kept after the job has ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.features.plots.smoothing import Smoothing
from espalier.app.features.plots.state import plotted_runs_of
from espalier.app.jobs.status import can_keep, figures
from espalier.app.translation import tr
from espalier.app.widgets.charts.metrics import DASHES, MAX_OTHERS, MetricChart, export, last_step, quantities, quantity
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import empty_state, link
from espalier.passes.jobs.kinds import JobInfo
from espalier.passes.training.curve import SAMPLES, samples_of

if TYPE_CHECKING:
    from espalier.app.session.session import Session

INTERVAL = 50  # milliseconds between two drawings


class PlotsPanel(QWidget):
    """Shows one run, the newest unless another is chosen, and optionally others behind it."""

    save_wanted = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._state = plotted_runs_of(session)
        self.runs, self._name = self._state.runs, self._state.name
        self.charts: dict[str, MetricChart] = {}
        self._choice, self._figures, self._dashes = Choice(), QLabel(), QLabel()
        self._choice.setAccessibleName(tr("Run"))
        self.compare, self.others = link(tr("Compare with ▾"), self._show_others), QMenu(self)
        self.compare.setToolTip(tr("Draw other runs of this document behind this one, {} at most", MAX_OTHERS))
        self.smoothing = Smoothing()
        for label in (self._figures, self._dashes):
            label.setProperty("role", "muted")
        self._keep = link(tr("Stop and keep"), self._stop_and_keep)
        self._save = link(tr("Save as PNG, SVG or CSV…"), self.save_wanted.emit)
        self._row = QHBoxLayout()
        self._pages, self._empty = QStackedWidget(), empty_state(self._state.text)
        self._build()
        self._redraw = QTimer(self, singleShot=True, interval=INTERVAL)
        self._redraw.timeout.connect(self.refresh)
        self._choice.edited.connect(self._offer_others)
        self._choice.edited.connect(self.refresh)
        self.smoothing.changed.connect(self.refresh)
        self._state.started.connect(self._offer_runs)
        self._state.measured.connect(lambda: self._redraw.isActive() or self._redraw.start())
        self._state.ended.connect(self._on_ended)
        self._state.text_changed.connect(self._show_text)
        self._state.cleared.connect(self.clear)
        if self.runs:
            self._offer_runs(next(reversed(self.runs)))
        else:
            self._offer_others()
        self.refresh()

    def _build(self) -> None:
        self._choice.setMinimumWidth(150)
        self._choice.setFixedHeight(25)
        bar = FlowLayout()
        bar.setContentsMargins(12, 6, 12, 4)
        for part in (self._choice, self.compare, self.smoothing, self._keep, self._save, self._figures, self._dashes):
            bar.addWidget(part)
        charts = QWidget()
        charts.setLayout(self._row)
        self._row.setContentsMargins(8, 0, 8, 4)
        self._row.setSpacing(8)
        self._pages.addWidget(self._empty)
        self._pages.addWidget(charts)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self._pages, 1)

    @property
    def run(self) -> JobInfo | None:
        """The shown run."""
        return self.runs.get(self._choice.get()) if self.runs else None

    def clear(self) -> None:
        """Show that there is no run."""
        self._choice.offer((), ())
        self._offer_others()
        self._show_text()
        self.refresh()

    def _show_text(self) -> None:
        self._empty.setText(self._state.text)

    def _on_ended(self) -> None:
        """Draw the last metrics at once; those within one interval are drawn together."""
        self._redraw.stop()
        self.refresh()

    def _offer_runs(self, number: int) -> None:
        """List the runs, and choose one."""
        self._choice.offer(tuple(self.runs), tuple(map(self._name, self.runs)))
        self._choice.put(number)
        self._offer_others()

    def _offer_others(self) -> None:
        """List the other runs; those that are compared and still available stay chosen."""
        chosen = set(self.compared)
        self.others.clear()
        others = [n for n in self.runs if self.run is None or n != self.run.id]
        for number in reversed(others):
            action = self.others.addAction(self._name(number))
            action.setData(number)
            action.setCheckable(True)
            action.setChecked(number in chosen)
            action.toggled.connect(self._compare)
        self.compare.setVisible(bool(others))

    @property
    def compared(self) -> list[int]:
        """The runs that are drawn behind the chosen one, oldest first."""
        return sorted(a.data() for a in self.others.actions() if a.isChecked())

    def _compare(self) -> None:
        full = len(self.compared) >= MAX_OTHERS
        for action in self.others.actions():
            action.setEnabled(action.isChecked() or not full)
        self.refresh()

    def _show_others(self) -> None:
        self.others.popup(self.compare.mapToGlobal(self.compare.rect().bottomLeft()))

    def refresh(self) -> None:
        """Draw the chosen run and the runs it is compared with."""
        run = self.run
        for widget in (self._choice, self._save, self._figures, self.smoothing):
            widget.setVisible(run is not None)
        self._pages.setCurrentIndex(1 if run else 0)
        self._keep.setVisible(run is not None and can_keep(run))
        if run is None:
            return
        metrics = {name: list(points) for name, points in list(run.metrics.items())}
        plotted = {name: points for name, points in metrics.items() if name != SAMPLES}
        compared = {self._name(n): {k: list(p) for k, p in list(self.runs[n].metrics.items())} for n in self.compared}
        last = last_step([*plotted.values(), *(p for of in compared.values() for k, p in of.items() if k in plotted)])
        self._show_charts(quantities(list(plotted)))
        for what, chart in self.charts.items():
            own = {n: p for n, p in plotted.items() if quantity(n) == what}
            chart.show_series(own, compared, last, samples_of(metrics), self.smoothing.weight)
        self._figures.setText(figures(run))
        self._dashes.setText(" · ".join(f"{style}: {name}" for style, name in zip(DASHES, compared, strict=False)))
        self._dashes.setVisible(bool(compared))

    def _show_charts(self, names: list[str]) -> None:
        """Show one chart for each quantity, side by side; existing charts are kept."""
        if names == list(self.charts):
            return
        for name in [w for w in self.charts if w not in names]:
            removed = self.charts.pop(name)
            self._row.removeWidget(removed)
            removed.hide()
            removed.deleteLater()
        self.charts = {name: self.charts.get(name) or MetricChart(name) for name in names}
        for chart in self.charts.values():
            self._row.addWidget(chart, 1)

    def _stop_and_keep(self) -> None:
        if self.run:
            self._session.stop_and_keep(self.run.id)

    def export(self, path: Path) -> None:
        """Write the shown charts to a .png, .svg or .csv file; raises FileError."""
        export(list(self.charts.values()), path)
