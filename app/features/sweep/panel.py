"""The panel Sweeps: the form of a sweep, its curves, and its points with their recipes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QLabel, QSplitter, QVBoxLayout, QWidget

from espalier.app.features.sweep.chart import CurveChart
from espalier.app.features.sweep.points import SweepPoints
from espalier.app.features.sweep.setup import SweepSetup
from espalier.app.features.sweep.state import Run, sweeps_of
from espalier.app.figures.curves import draw, figure_title
from espalier.app.number_text import plural
from espalier.app.translation import tr
from espalier.app.widgets.form_panel import FormPanel, empty_page
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import Elided, link, muted, warning
from espalier.model.errors import EspalierError
from espalier.model.files import write_text
from espalier.passes.sweep.example import example
from espalier.passes.sweep.results import Outcome, figures_of
from espalier.passes.sweep.sweep import Sweep, points

if TYPE_CHECKING:
    from espalier.app.session.session import Session

PAUSE = 100  # milliseconds between two frames
ABOUT = tr(
    "A sweep runs the recipe with one option at several values and draws the scores: accuracy against width, "
    "sparsity, rank or epochs. Each point is a recipe that you can use."
)
CHOOSE = tr("Choose what to vary at the left, then <b>Run</b>. The curve is drawn here, point by point.")
SETUP, TABLE, WORDS, MIDDLE, NAME = 288, 440, 520, 260, 260


class SweepsPanel(FormPanel):
    """The form at the left, the curves in the middle, the points at the right."""

    save_wanted = Signal()
    begun = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._looked_at = session, True
        self.sweeps = sweeps_of(session)
        self.setup = SweepSetup(session, self.sweeps.timed)
        self.chart, self.points = CurveChart(), SweepPoints()
        self._runs, self._figure = Choice(), Choice()
        self._runs.setAccessibleName(tr("Sweep"))
        self._figure.setAccessibleName(tr("Figure"))
        self._status, self._legend, self._wrong = Elided("", "muted", 40), QLabel(wordWrap=True), warning()
        self._stop = link(tr("Stop"), lambda: self._with_run(self.sweeps.stop))
        self._after = link(
            tr("Stop after this point"), lambda: self._with_run(partial(self.sweeps.stop, after_point=True))
        )
        self._rerun_link = link(tr("Run what is missing"), self._go_on)
        self._save = link(tr("Save as…"), self.save_wanted.emit)
        self._remove = link(tr("Remove"), lambda: self._with_run(self.sweeps.remove))
        self._build()
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._wait.timeout.connect(self.refresh)
        self._connect()
        self._opened()

    # -- building

    def _build(self) -> None:
        self._how = muted(tr("Or add a step to the recipe, such as Model → Prune…, and choose what to vary."))
        self.example_link = link(tr("Try it: accuracy against weight width"), self.run_example)
        empty = empty_page(WORDS, muted(ABOUT), self.example_link, self._how)
        content = QWidget()  # filled in place, since a reparented widget is styled again
        self._lay_out(empty, self.setup, self.setup.foot, content, [SETUP, 560 + TABLE])
        self._fill(content)

    def _fill(self, content: QWidget) -> None:
        """Build the view of the chosen sweep: its actions above its curves and its points."""
        box, split = QVBoxLayout(content), QSplitter(Qt.Orientation.Horizontal)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        self._runs.setMaximumWidth(NAME)
        box.addLayout(_bar(self._runs, self._figure, self._status, self._rerun_link, self._after, self._stop,
                           self._save, self._remove))  # fmt: skip
        box.addWidget(split, 1)
        split.setHandleWidth(1)
        for part in (self._middle(), self.points):
            split.addWidget(part)
        split.setStretchFactor(0, 3)
        split.setStretchFactor(1, 2)
        split.setSizes([560, TABLE])

    def _middle(self) -> QWidget:
        self._legend.setTextFormat(Qt.TextFormat.RichText)
        self._legend.setMinimumWidth(1)  # wraps; its text must not widen the window
        self._legend.setContentsMargins(12, 0, 12, 0)
        self._wrong.setContentsMargins(12, 0, 12, 0)
        content = QWidget()
        content.setMinimumWidth(MIDDLE)
        box = QVBoxLayout(content)
        box.setContentsMargins(0, 3, 0, 2)
        box.setSpacing(3)
        box.addWidget(self._wrong)
        box.addWidget(self._legend)
        box.addWidget(self.chart, 1)
        return content

    def _connect(self) -> None:
        self.chart.themed.connect(self._name_colours)
        session = self._session
        self._runs.edited.connect(self._run_chosen)
        self._figure.edited.connect(self.refresh)
        self.setup.run_wanted.connect(self.start)
        self.chart.chosen.connect(self.points.choose_at)
        self.points.chosen.connect(lambda outcome: self.chart.pick(outcome.variant, outcome.x))
        self.points.used.connect(self._use)
        self.sweeps.changed.connect(self._changed)
        self.sweeps.listed.connect(self._listed)
        session.opened.connect(self._opened)
        session.changed.connect(lambda _: self._offer(self._looked_at))
        session.score_changed.connect(self.setup.update_estimate)

    def look_on(self, on: bool) -> None:
        """Follow the visibility of the panel; a visible one follows the recipe."""
        self._looked_at = on
        self._offer(on)

    # -- display

    @property
    def run(self) -> Run | None:
        """The shown sweep."""
        return self.sweeps.runs.get(self._runs.get()) if self._runs.currentIndex() >= 0 else None

    @property
    def figure(self) -> str:
        """The shown metric."""
        return self._figure.get() if self._figure.currentIndex() >= 0 else "accuracy"

    def _opened(self) -> None:
        self.setup.score.forget()
        self._listed()

    def _offer(self, visible: bool = True) -> None:
        """Offer the options to vary, only if visible, since a long recipe takes a while."""
        document = self._session.document
        if document and visible:
            self.setup.offer(document.recipe)
        self.example_link.setVisible(document is not None)
        self._how.setVisible(document is not None)
        filled = document is not None and bool(document.recipe.steps or self.sweeps.runs)
        self._pages.setCurrentIndex(1 if filled else 0)

    def _listed(self) -> None:
        runs = list(self.sweeps.runs.values())
        self._runs.offer(tuple(r.name for r in runs), tuple(f"{n} {r.title}" for n, r in enumerate(runs, 1)))
        self._offer()
        self.refresh()

    def _changed(self, run: Run) -> None:
        if run is not self.run:
            return
        if run.running:
            if not self._wait.isActive():
                self._wait.start()
        else:
            self._wait.stop()
            self.refresh()
            self.setup.update_estimate()

    def _run_chosen(self) -> None:
        self.chart.picked = None
        self.refresh()

    def refresh(self) -> None:
        """Draw the chosen sweep."""
        run = self.run
        sweep, outcomes = (run.sweep, list(run.outcomes.values())) if run else (None, [])
        metrics = figures_of(outcomes) or ("accuracy",)
        self._figure.offer(metrics, tuple(map(figure_title, metrics)))
        for part in (self._runs, self._figure, self._save, self._remove):
            part.setVisible(run is not None)
        self.chart.show_run(sweep, outcomes, self.figure)
        self.points.show_run(sweep, outcomes)
        self._name_colours()
        self._show_state(run)

    def _name_colours(self) -> None:
        """The legend, in the theme's colours."""
        self._legend.setText(self.chart.legend() if self.run else CHOOSE)

    def _show_state(self, run: Run | None) -> None:
        if run is None:
            self._status.show_text("")
        else:
            total, failed = len(points(run.sweep)), sum(bool(o.error) for o in self.points.outcomes)
            texts = [
                tr("{} of {}", len(self.points.outcomes), plural(total, "point")),
                tr("{} failed", failed) if failed else "",
                _doing(run),
            ]
            self._status.show_text(" · ".join(w for w in texts if w))
        running = run is not None and run.running
        for part in (self._stop, self._after):
            part.setVisible(running)
        self._rerun_link.setVisible(run is not None and not running and run.missing > 0)
        wrong = run.error if run else ""
        self._wrong.setText(tr("{} The points so far are kept.", wrong) if wrong else "")
        self._wrong.setVisible(bool(wrong))

    # -- running

    def _use(self, outcome: Outcome) -> None:
        """Make a point's recipe the recipe."""
        if self.run:
            self.sweeps.use(self.run, outcome)

    def start(self, sweep: object) -> None:
        """Run a sweep and show it."""
        assert isinstance(sweep, Sweep)
        try:
            run = self.sweeps.start(sweep)
        except EspalierError as error:
            self._session.problem.emit(error)
            return
        self._runs.put(run.name)
        self._run_chosen()
        self.begun.emit()

    def run_example(self) -> None:
        """Run an example."""
        document = self._session.open_document
        metric = figure_title(self._session.main_metric)
        metric = metric[:1].upper() + metric[1:]
        self.start(example(document.recipe, document.graph, self._session.measured_on, metric))

    def preset(self, index: int, path: str | None = None) -> None:
        """Preset an option of a step."""
        self._offer()
        self.setup.preset(index, path)

    def _go_on(self) -> None:
        if self.run:
            self.start(self.run.sweep)

    def _with_run(self, act: object) -> None:
        if self.run:
            act(self.run)  # type: ignore[operator]

    def export(self, path: Path) -> None:
        """Write the curves to a .png or .svg file, or the points to .csv; raises FileError."""
        run = self.run
        if run is None:
            return
        if path.suffix == ".csv":
            from espalier.app.features.sweep.commands.sweep_files import to_csv
            from espalier.passes.sweep.journal import Journal

            write_text(path, to_csv(Journal(run.sweep, tuple(self.points.outcomes))))
        else:
            draw(path, run.sweep, self.points.outcomes, self.figure)


def _doing(run: Run) -> str:
    if run.job is None:
        return ""
    return tr("running") if run.job.state == "running" else tr("queued")


def _bar(runs: QWidget, figure: QWidget, *others: QWidget) -> FlowLayout:
    """The bar with sweep, metric, progress and links, in two lines if it is narrow."""
    runs.setMinimumWidth(150)
    figure.setMinimumWidth(90)
    bar = FlowLayout()
    bar.setContentsMargins(12, 6, 12, 0)
    for part in (runs, figure, *others):
        bar.addWidget(part)
    return bar
