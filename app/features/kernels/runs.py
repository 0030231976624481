"""Tab Run of the panel Kernels: kernels and settings at the left, results at the right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from espalier.app.features.kernels.comparison import show_names
from espalier.app.features.kernels.list import KernelList
from espalier.app.features.kernels.setup import KernelSetup
from espalier.app.features.kernels.state.row_text import busy_text, limits_text
from espalier.app.features.kernels.state.runs import Run, kernel_runs_of
from espalier.app.features.kernels.views import SOURCE, Views
from espalier.app.number_text import plural
from espalier.app.translation import error_text, message, tr
from espalier.app.widgets.form_panel import FormArea
from espalier.app.widgets.forms.fields import Choice, apply_field_style
from espalier.app.widgets.heading import Elided, link, muted, row_of, warning
from espalier.kernels.bench.request import Request
from espalier.model.errors import EspalierError

if TYPE_CHECKING:
    from espalier.app.session.session import Session

LIST, SETUP = 220, 256


class KernelRuns(QWidget):
    """Emits `save_wanted` and `load_wanted` for the window's file dialogs, and `begun` when a run starts."""

    begun = Signal()
    save_wanted = Signal(object, str, str)
    load_wanted = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__()
        apply_field_style(self)
        self._session, self._run_pending = session, False
        self.state = kernel_runs_of(session)
        self.list, self.setup = KernelList(), KernelSetup()
        self.split = QSplitter(Qt.Orientation.Horizontal)
        self.choice, self._status, self._error = Choice(), Elided("", "muted", 40), warning()
        self._busy = muted("")
        self._save = link(tr("Save results…"), self._want_results)
        self._load = link(tr("Load…"), self.load_wanted.emit)
        self._remove = link(tr("Remove"), self._drop)
        self._again = link(tr("List again"), self.state.want_lab)
        self.views = Views(self._save, self._load, self._remove)
        self._build()
        self._connect()
        self.state.want_lab()
        self._on_lab()
        self._on_listed()

    # -- building

    def _build(self) -> None:
        self.choice.setAccessibleName(tr("Run"))
        self._save.setToolTip(tr("As JSON, for kernels --compare and other windows"))
        self._load.setToolTip(tr("Results file of this or another machine"))
        middle = QWidget()
        column = QVBoxLayout(middle)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(FormArea(self.setup), 1)
        column.addWidget(self.setup.foot)
        self.split.setHandleWidth(1)
        for part in (self.list, middle, self._results()):
            self.split.addWidget(part)
        self.split.setStretchFactor(2, 1)
        self.split.setSizes([LIST, SETUP, 1000])
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(self.split)

    def _results(self) -> QWidget:
        widget, bar = QWidget(), row_of(8)
        bar.setContentsMargins(12, 4, 12, 0)
        bar.addWidget(self.choice)
        bar.addWidget(self._status, 1)
        bar.addWidget(self._again)
        for line in (self._busy, self._error):
            line.setContentsMargins(12, 2, 12, 0)
            line.setMinimumWidth(1)
        box = QVBoxLayout(widget)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self._busy)
        box.addWidget(self._error)
        box.addWidget(self.views, 1)
        return widget

    def _connect(self) -> None:
        state, views = self.state, self.views
        state.lab_changed.connect(self._on_lab)
        state.listed.connect(self._on_listed)
        state.changed.connect(self._on_run_changed)
        self.list.changed.connect(self._selected)
        self.setup.run_wanted.connect(self.start)
        self.setup.stop_wanted.connect(state.stop)
        self.choice.edited.connect(self._choose)
        views.save_wanted.connect(self.save_wanted)
        views.load_wanted.connect(self.load_wanted)

    # -- kernels and runs

    def _on_lab(self) -> None:
        """Offer the listed kernels, or show why they cannot be listed."""
        lab, error = self.state.lab, self.state.lab_error
        if lab:
            self.setup.use(lab)
            self.list.offer(lab.kernels)
            self.views.source.offer(lab.kernels)
            self._selected()
            if self._run_pending:
                self.setup.run()
        self._run_pending = False
        self._again.setVisible(lab is None and error is not None)
        text = error_text(error) if error else tr("The kernels are being listed.")
        self.views.source.show_message(text)
        if lab is None:
            self.list.show_message(tr("not listed") if error else tr("being listed …"))
        self._show_state()

    def _selected(self) -> None:
        infos = self.list.chosen
        self.setup.choose(infos)
        if infos:
            self.views.source.show_kernel(infos[0].name)

    def _on_listed(self) -> None:
        """Offer the runs after the list has changed."""
        runs = self.state.runs
        titles = {n: f"{i}: {_title(r)}" for i, (n, r) in enumerate(runs.items(), 1)}
        before = self.choice.get() if self.choice.values else None
        self.choice.offer(tuple(runs), tuple(titles.values()))
        show_names(self.choice)
        if before not in runs and runs:
            self.choice.put(list(runs)[-1])
        self._choose()

    def _choose(self) -> None:
        self.views.show_run(self.run)
        self._offer_comparison()
        self._show_state()

    def _offer_comparison(self) -> None:
        runs = {n: r for n, r in self.state.runs.items() if r.rows and not r.job}
        numbers = {n: i for i, n in enumerate(self.state.runs, 1)}
        titles = {n: f"{numbers[n]}: {_title(r)} · {r.machine}" for n, r in runs.items()}
        self.views.comparison.offer(runs, titles, self.run.name if self.run else "")

    def _on_run_changed(self, run: Run) -> None:
        if run is self.run:
            self.views.show_run(run)
        if not run.job:
            self._offer_comparison()
        self._show_state()

    @property
    def run(self) -> Run | None:
        """The shown run."""
        return self.state.runs.get(self.choice.get()) if self.choice.values else None

    def _show_state(self) -> None:
        run, busy = self.run, self.state.running
        self.setup.show_running(busy is not None)
        for part in (self.choice, self._status, self._save, self._remove):
            part.setVisible(run is not None)
        self._save.setEnabled(bool(run and run.rows))
        self._status.show_text(_state_text(run) if run else "")
        disturbance = busy_text(run.rows) if run else ""
        self._busy.setText(disturbance)
        self._busy.setVisible(bool(disturbance))
        errors = [run.error if run else "", _error_text(self.state.unread), _error_text(self.state.lab_error)]
        self._error.setText(" ".join(t for t in errors if t))
        self._error.setVisible(any(errors))

    # -- actions

    def run_chosen(self) -> None:
        """Run the selected kernels, once the kernels are listed."""
        if self.state.lab is None:
            self._run_pending = True
            self.state.want_lab()
        else:
            self.setup.run()

    def start(self, request: Request) -> None:
        """Start a run and show it."""
        try:
            run = self.state.start(request)
        except EspalierError as error:
            self._session.problem.emit(error)
            return
        self.choice.put(run.name)
        self._choose()
        if self.views.tabs.currentIndex() == SOURCE:
            self.views.tabs.setCurrentIndex(0)
        self.begun.emit()

    def load(self, path: Path) -> None:
        """Load a results file and show it; raises KernelError."""
        run = self.state.load(path)
        self.choice.put(run.name)
        self._choose()

    def _want_results(self) -> None:
        if self.run:
            self.save_wanted.emit(self.run, tr("Save the results"), "kernels.json")

    def _drop(self) -> None:
        if self.run:
            self.state.remove(self.run)


def _title(run: Run) -> str:
    """Title of a run: `softmax, sweep · CPU`, or with its file."""
    return f"{run.title} · {run.file or run.device.upper()}"


def _state_text(run: Run) -> str:
    """Progress, or row counts, machine, ceilings and date of a run."""
    if run.job:
        progress = message(run.job.progress.text) if run.job.progress else tr("queued")
        progress = progress if run.job.state != "paused" else tr("paused")
        return f"{progress} · {plural(len(run.rows), 'row')}"
    failed = sum(not r.seconds for r in run.rows)
    parts = (tr("stopped") if run.stopped else "", plural(len(run.rows), "row"),
             tr("{} without a time", failed) if failed else "", run.machine if run.file else "",
             limits_text(run.results.ceilings) if run.results.ceilings else "", run.results.date)  # fmt: skip
    return " · ".join(p for p in parts if p)


def _error_text(error: EspalierError | None) -> str:
    return error_text(error) if error else ""
