"""Plots panel: live plots of jobs that report metrics while they run, kept after the job has ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.features.plots.smoothing import Smoothing
from espalier.app.jobs.status import can_keep, figures, trains
from espalier.app.widgets.charts.metrics import DASHES, MAX_OTHERS, MetricChart, export, last_step, quantities, quantity
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import empty_state, link
from espalier.passes.jobs.kinds import TERMINAL, JobEvent, JobInfo, Metric
from espalier.passes.training.curve import SAMPLES, samples_of

if TYPE_CHECKING:
    from espalier.app.session.session import Session

MAX_RUNS = 20
INTERVAL = 50  # milliseconds between two drawings
EMPTY = "No plot yet. A training (Model → Fine-tune…) draws its loss and accuracy here while it runs."


class PlotsPanel(QWidget):
    """Shows one run, the newest unless another is chosen, and optionally others behind it."""

    save_wanted = Signal()
    run_started = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.runs: dict[int, JobInfo] = {}
        self.charts: dict[str, MetricChart] = {}
        self._choice, self._figures, self._dashes = Choice(), QLabel(), QLabel()
        self._choice.setAccessibleName("Run")
        self.compare, self.others = link("Compare with ▾", self._show_others), QMenu(self)
        self.compare.setToolTip(f"Draw other runs of this document behind this one, {MAX_OTHERS} at most")
        self.smoothing = Smoothing()
        for label in (self._figures, self._dashes):
            label.setProperty("role", "muted")
        self._keep = link("Stop and keep", self._stop_and_keep)
        self._save = link("Save as PNG, SVG or CSV…", self.save_wanted.emit)
        self._row = QHBoxLayout()
        self._pages, self._empty = QStackedWidget(), empty_state(EMPTY)
        self._build()
        self._redraw = QTimer(self, singleShot=True, interval=INTERVAL)
        self._redraw.timeout.connect(self.refresh)
        self._choice.edited.connect(self._offer_others)
        self._choice.edited.connect(self.refresh)
        self.smoothing.changed.connect(self.refresh)
        session.job_event.connect(self.on_job_event)
        session.opened.connect(self.clear)

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
        self.clear()

    @property
    def run(self) -> JobInfo | None:
        """The shown run."""
        return self.runs.get(self._choice.get()) if self.runs else None

    def clear(self) -> None:
        """Discard all runs: they belong to another document."""
        self.runs.clear()
        self._choice.offer((), ())
        self._offer_others()
        self._empty.setText(EMPTY)
        self.refresh()

    def on_job_event(self, job_event: JobEvent) -> None:
        """Record a metric; metrics within one interval are drawn together."""
        is_shown = job_event.job.id in self.runs
        if isinstance(job_event.event, Metric) and not is_shown:
            self._add(job_event.job)
        elif not self.runs:
            self._show_progress(job_event.job)
        if isinstance(job_event.event, Metric) and not self._redraw.isActive():
            self._redraw.start()
        elif isinstance(job_event.event, TERMINAL) and is_shown:
            self._redraw.stop()
            self.refresh()

    def _show_progress(self, job: JobInfo) -> None:
        """Show what a training does before its first metric."""
        if trains(job.job):
            running = job.state == "running"
            doing = f": {job.progress.text}" if job.progress and job.progress.text else ""
            text = f"{job.title} is running{doing}. Its curves are drawn here live."
            self._empty.setText(text if running else EMPTY)

    def _add(self, job: JobInfo) -> None:
        self.runs[job.id] = job
        for number in list(self.runs)[:-MAX_RUNS]:
            self.runs.pop(number)
        self._choice.offer(tuple(self.runs), tuple(map(self._name, self.runs)))
        self._choice.put(job.id)
        self._offer_others()
        self.run_started.emit()

    def _name(self, number: int) -> str:
        return f"{self.runs[number].title} {list(self.runs).index(number) + 1}"

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
