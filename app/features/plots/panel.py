"""Live plots of the jobs that tell figures while they run, such as a training; kept when the job has ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.jobs.status import can_keep, figures, trains
from espalier.app.widgets.charts.metrics import MetricChart, export, last_step, quantities, quantity
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.heading import empty_state, link
from espalier.passes.jobs.kinds import TERMINAL, JobEvent, JobInfo, Metric
from espalier.passes.training.curve import SAMPLES, samples_of

if TYPE_CHECKING:
    from espalier.app.session.session import Session

KEPT = 20  # runs
PAUSE = 50  # milliseconds between two drawings: 20 a second
EMPTY = "No plot yet. A training (Model → Fine-tune…) draws its loss and accuracy here while it runs."


class PlotsPanel(QWidget):
    """One run at a time, the newest until another is chosen."""

    save_wanted = Signal()
    begun = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.runs: dict[int, JobInfo] = {}
        self.charts: dict[str, MetricChart] = {}
        self._choice, self.beside, self._figures = Choice(), Choice(), QLabel()
        self._choice.setAccessibleName("Run")
        self.beside.setAccessibleName("Run to compare with")
        self._figures.setProperty("role", "muted")
        self._keep = link("Stop and keep", self._stop_and_keep)
        self._save = link("Save as PNG, SVG or CSV…", self.save_wanted.emit)
        self._row = QHBoxLayout()
        self._pages, self._empty = QStackedWidget(), empty_state(EMPTY)
        self._build()
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._wait.timeout.connect(self.refresh)
        self._choice.edited.connect(self._offer_others)
        self._choice.edited.connect(self.refresh)
        self.beside.edited.connect(self.refresh)
        session.job_event.connect(self.hear)
        session.opened.connect(self.clear)

    def _build(self) -> None:
        for choice in (self._choice, self.beside):
            choice.setMinimumWidth(150)
            choice.setFixedHeight(25)
        bar = QHBoxLayout()
        bar.setContentsMargins(12, 6, 12, 4)
        bar.setSpacing(8)
        bar.addWidget(self._choice)
        bar.addWidget(self.beside)
        bar.addWidget(self._figures)
        bar.addStretch(1)
        bar.addWidget(self._keep)
        bar.addWidget(self._save)
        drawn = QWidget()
        drawn.setLayout(self._row)
        self._row.setContentsMargins(8, 0, 8, 4)
        self._row.setSpacing(8)
        self._pages.addWidget(self._empty)
        self._pages.addWidget(drawn)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self._pages, 1)
        self.clear()

    @property
    def run(self) -> JobInfo | None:
        """The run that is shown."""
        return self.runs.get(self._choice.get()) if self.runs else None

    def clear(self) -> None:
        """Forget the runs: they were of another document."""
        self.runs.clear()
        self._choice.offer((), ())
        self._offer_others()
        self._empty.setText(EMPTY)
        self.refresh()

    def hear(self, heard: JobEvent) -> None:
        """Note a figure; it is drawn with those that come in the next moment."""
        known = heard.job.id in self.runs
        if isinstance(heard.event, Metric) and not known:
            self._add(heard.job)
        elif not self.runs:
            self._tell_of(heard.job)
        if isinstance(heard.event, Metric) and not self._wait.isActive():
            self._wait.start()
        elif isinstance(heard.event, TERMINAL) and known:
            self._wait.stop()
            self.refresh()

    def _tell_of(self, job: JobInfo) -> None:
        """Say what a training does before its first figure."""
        if trains(job.job):
            begun = job.state == "running"
            doing = f": {job.progress.text}" if job.progress and job.progress.text else ""
            now = f"{job.title} is running{doing}. Its curves are drawn here live."
            self._empty.setText(now if begun else EMPTY)

    def _add(self, job: JobInfo) -> None:
        self.runs[job.id] = job
        for number in list(self.runs)[:-KEPT]:
            self.runs.pop(number)
        self._choice.offer(tuple(self.runs), tuple(map(self._name, self.runs)))
        self._choice.put(job.id)
        self._offer_others()
        self.begun.emit()

    def _name(self, number: int) -> str:
        return f"{self.runs[number].title} {list(self.runs).index(number) + 1}"

    def _offer_others(self) -> None:
        """The runs that can be drawn beside the chosen one; the last choice stays where it can."""
        held = self.beside.get() if self.beside.values else None
        others = tuple(n for n in self.runs if self.run is None or n != self.run.id)
        self.beside.offer((0, *others), ("without comparison", *(f"beside {self._name(n)}" for n in others)))
        self.beside.put(held if held in others else 0)
        self.beside.setVisible(bool(others))

    def refresh(self) -> None:
        """Draw the run that is chosen, and the other one beside it."""
        run = self.run
        for widget in (self._choice, self._save, self._figures):
            widget.setVisible(run is not None)
        self._pages.setCurrentIndex(1 if run else 0)
        self._keep.setVisible(run is not None and can_keep(run))
        if run is None:
            return
        told = {name: list(points) for name, points in list(run.metrics.items())}
        found = {name: points for name, points in told.items() if name != SAMPLES}
        other = self.runs.get(self.beside.get())
        faint = {name: list(points) for name, points in list(other.metrics.items())} if other else {}
        called = self._name(other.id) if other else ""
        last = last_step([*found.values(), *(faint[n] for n in faint if n in found)])
        self._offer(quantities(list(found)))
        for what, chart in self.charts.items():
            own = {n: p for n, p in found.items() if quantity(n) == what}
            chart.show_series(own, faint, called, last, samples_of(told))
        self._figures.setText(figures(run))

    def _offer(self, wanted: list[str]) -> None:
        """The charts of these quantities, side by side; those that are there stay."""
        if wanted == list(self.charts):
            return
        for what in [w for w in self.charts if w not in wanted]:
            gone = self.charts.pop(what)
            self._row.removeWidget(gone)
            gone.hide()
            gone.deleteLater()
        self.charts = {what: self.charts.get(what) or MetricChart(what) for what in wanted}
        for chart in self.charts.values():
            self._row.addWidget(chart, 1)

    def _stop_and_keep(self) -> None:
        if self.run:
            self._session.stop_and_keep(self.run.id)

    def export(self, path: Path) -> None:
        """Write what is shown to a .png, .svg or .csv file; raises FileError."""
        export(list(self.charts.values()), path)
