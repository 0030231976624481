"""The tab Run of the panel Kernels: kernels and settings at the left, what came of them at the right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from espalier.app.features.kernels.beside import show_names
from espalier.app.features.kernels.list import KernelList
from espalier.app.features.kernels.setup import KernelSetup
from espalier.app.features.kernels.state.runs import Run, kernel_runs_of
from espalier.app.features.kernels.state.words import busy_words, limits_words
from espalier.app.features.kernels.views import SOURCE, Views
from espalier.app.widgets.bench import FormArea
from espalier.app.widgets.forms.fields import Choice, wear_field_style
from espalier.app.widgets.heading import Elided, link, muted, row_of, warning
from espalier.app.words import plural
from espalier.kernels.bench.request import Request
from espalier.model.errors import EspalierError

if TYPE_CHECKING:
    from espalier.app.session.session import Session

LIST, SETUP = 220, 256


class KernelRuns(QWidget):
    """`save_wanted` and `load_wanted` ask the window for a file; `begun`: a run has."""

    begun = Signal()
    save_wanted = Signal(object, str, str)
    load_wanted = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session, self._eager = session, False
        self.held = kernel_runs_of(session)
        self.list, self.setup = KernelList(), KernelSetup()
        self.split = QSplitter(Qt.Orientation.Horizontal)
        self.choice, self._status, self._wrong = Choice(), Elided("", "muted", 40), warning()
        self._busy = muted("")
        self._save = link("Save results…", self._want_results)
        self._load = link("Load…", self.load_wanted.emit)
        self._remove = link("Remove", self._drop)
        self._again = link("List them again", self.held.want_lab)
        self.views = Views(self._save, self._load, self._remove)
        self._build()
        self._connect()
        wear_field_style(self)
        self.held.want_lab()
        self._known()
        self._listed()

    # -- building

    def _build(self) -> None:
        self.choice.setAccessibleName("Run")
        self._save.setToolTip("As JSON, which kernels --compare and other windows read")
        self._load.setToolTip("Results of this or another machine, as the command line writes them")
        middle = QWidget()
        column = QVBoxLayout(middle)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(FormArea(self.setup), 1)
        column.addWidget(self.setup.foot)
        self.split.setHandleWidth(1)
        for part in (self.list, middle, self._shown()):
            self.split.addWidget(part)
        self.split.setStretchFactor(2, 1)
        self.split.setSizes([LIST, SETUP, 1000])
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(self.split)

    def _shown(self) -> QWidget:
        held, bar = QWidget(), row_of(8)
        bar.setContentsMargins(12, 4, 12, 0)
        bar.addWidget(self.choice)
        bar.addWidget(self._status, 1)
        bar.addWidget(self._again)
        for line in (self._busy, self._wrong):
            line.setContentsMargins(12, 2, 12, 0)
            line.setMinimumWidth(1)
        box = QVBoxLayout(held)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self._busy)
        box.addWidget(self._wrong)
        box.addWidget(self.views, 1)
        return held

    def _connect(self) -> None:
        held, views = self.held, self.views
        held.known.connect(self._known)
        held.listed.connect(self._listed)
        held.changed.connect(self._changed)
        self.list.changed.connect(self._selected)
        self.setup.run_wanted.connect(self.start)
        self.setup.stop_wanted.connect(held.stop)
        self.choice.edited.connect(self._choose)
        views.save_wanted.connect(self.save_wanted)
        views.load_wanted.connect(self.load_wanted)

    # -- what there is

    def _known(self) -> None:
        """The kernels are listed, or cannot be."""
        lab, error = self.held.lab, self.held.lab_error
        if lab:
            self.setup.use(lab)
            self.list.offer(lab.kernels)
            self.views.source.offer(lab.kernels)
            self._selected()
            if self._eager:
                self.setup.run()
        self._eager = False
        self._again.setVisible(lab is None and error is not None)
        words = f"{error.message} {error.hint}" if error else "The kernels are being listed."
        self.views.source.say(words)
        if lab is None:
            self.list.say("not listed" if error else "being listed …")
        self._show_state()

    def _selected(self) -> None:
        infos = self.list.chosen
        self.setup.choose(infos)
        if infos:
            self.views.source.show_kernel(infos[0].name)

    def _listed(self) -> None:
        """Another list of runs."""
        runs = self.held.runs
        titles = {n: f"{i}: {_title(r)}" for i, (n, r) in enumerate(runs.items(), 1)}
        before = self.choice.get() if self.choice.values else None
        self.choice.offer(tuple(runs), tuple(titles.values()))
        show_names(self.choice)
        if before not in runs and runs:
            self.choice.put(list(runs)[-1])
        self._choose()

    def _choose(self) -> None:
        self.views.show_run(self.run)
        self._offer_beside()
        self._show_state()

    def _offer_beside(self) -> None:
        runs = {n: r for n, r in self.held.runs.items() if r.rows and not r.job}
        numbers = {n: i for i, n in enumerate(self.held.runs, 1)}
        titles = {n: f"{numbers[n]}: {_title(r)} · {r.machine}" for n, r in runs.items()}
        self.views.beside.offer(runs, titles, self.run.name if self.run else "")

    def _changed(self, run: Run) -> None:
        if run is self.run:
            self.views.show_run(run)
        if not run.job:
            self._offer_beside()
        self._show_state()

    @property
    def run(self) -> Run | None:
        """The run that is shown."""
        return self.held.runs.get(self.choice.get()) if self.choice.values else None

    def _show_state(self) -> None:
        run, busy = self.run, self.held.running
        self.setup.show_running(busy is not None)
        for part in (self.choice, self._status, self._save, self._remove):
            part.setVisible(run is not None)
        self._save.setEnabled(bool(run and run.rows))
        self._status.show_text(_state(run) if run else "")
        busy_else = busy_words(run.rows) if run else ""
        self._busy.setText(busy_else)
        self._busy.setVisible(bool(busy_else))
        told = [run.error if run else "", _told(self.held.unread), _told(self.held.lab_error)]
        self._wrong.setText(" ".join(t for t in told if t))
        self._wrong.setVisible(any(told))

    # -- acts

    def run_chosen(self) -> None:
        """Measure what is selected, as soon as it is known what there is."""
        if self.held.lab is None:
            self._eager = True
            self.held.want_lab()
        else:
            self.setup.run()

    def start(self, request: Request) -> None:
        """Measure, and show what comes."""
        try:
            run = self.held.start(request)
        except EspalierError as error:
            self._session.problem.emit(error)
            return
        self.choice.put(run.name)
        self._choose()
        if self.views.tabs.currentIndex() == SOURCE:
            self.views.tabs.setCurrentIndex(0)
        self.begun.emit()

    def load(self, path: Path) -> None:
        """Read a file of results and show it; raises KernelError."""
        run = self.held.load(path)
        self.choice.put(run.name)
        self._choose()

    def _want_results(self) -> None:
        if self.run:
            self.save_wanted.emit(self.run, "Save the results", "kernels.json")

    def _drop(self) -> None:
        if self.run:
            self.held.remove(self.run)


def _title(run: Run) -> str:
    """`softmax, sweep · CPU`, or the file and its machine."""
    return f"{run.title} · {run.file or run.device.upper()}"


def _state(run: Run) -> str:
    """How far it is, where, and what that machine can do."""
    if run.job:
        doing = run.job.progress.text if run.job.progress else "waiting for the job before it"
        doing = doing if run.job.state != "paused" else "paused"
        return f"{doing} · {plural(len(run.rows), 'row')}"
    failed = sum(not r.seconds for r in run.rows)
    parts = ("stopped" if run.stopped else "", plural(len(run.rows), "row"),
             f"{failed} without a time" if failed else "", run.machine if run.file else "",
             limits_words(run.results.ceilings) if run.results.ceilings else "", run.results.date)  # fmt: skip
    return " · ".join(p for p in parts if p)


def _told(error: EspalierError | None) -> str:
    return f"{error.message} {error.hint}".strip() if error else ""
