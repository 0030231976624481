"""Panel Training: options of a fine-tuning, estimate, running job, and the result of the last run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from espalier.app.features.training.run import TrainingRun
from espalier.app.features.training.state.estimate import TrainingEstimate
from espalier.app.features.training.state.last_options import recall, remember
from espalier.app.features.training.state.run_text import graph_text, suggested_rate
from espalier.app.features.training.state.trainings import trainings_of
from espalier.app.features.training.trainable_selection import TrainableSelection
from espalier.app.jobs.previews import Previews
from espalier.app.number_text import count
from espalier.app.session.opened_state import opened_state_of
from espalier.app.translation import error_text, message, tr
from espalier.app.widgets.forms.data_fields import DataField
from espalier.app.widgets.forms.deferred_work import DeferredWork
from espalier.app.widgets.forms.grouped_form import GroupedForm
from espalier.app.widgets.forms.training_groups import GROUPS
from espalier.app.widgets.heading import link, muted, warning
from espalier.model.errors import EspalierError, OptionsError
from espalier.passes.jobs.kinds import JobInfo
from espalier.passes.training.checkpoint_folders import InterruptedRun, discard, interrupted_run
from espalier.passes.training.options import FinetuneOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session

NO_DATA = tr("Name the data to train on: a demo, a data set of the hub, a file or a folder.")


class TrainingPanel(DeferredWork):
    """Emits `wanted` with the options when Train is pressed; follows the run by the session's jobs."""

    wanted = Signal(object)
    refused = Signal()  # an error is shown here and the panel is visible

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._trainings, self._opened_state = session, trainings_of(session), opened_state_of(session)
        self._rate = 0.0  # learning rate suggested last
        self.form = GroupedForm(FinetuneOptions, GROUPS, without=("freeze",))
        self.trainable = TrainableSelection(session)
        self.run = TrainingRun(session)
        self.hint, self.words, self.error, self.result = muted(""), QLabel(wordWrap=True), warning(), muted("")
        self.interrupted = muted("")
        self.train = QPushButton(tr("Train"))
        self.estimate = TrainingEstimate(session, self.options, lambda: self._trainings.job is not None)
        self.time = link(tr("Estimate the time"), lambda: self.estimate.ask(automatic=False))
        self.resume, self.restart = QPushButton(tr("Continue")), QPushButton(tr("Restart"))
        self._previews = Previews(self, cache_size=0)  # each wish has a key of its own
        self._build()
        self._connect()
        self._show_interrupted(None)
        self._opened()
        self._show_result()
        if self._trainings.job is not None:
            self._begin_run(self._trainings.job)
            self._set_busy(True)
        if self._trainings.error is not None:
            self._show_error(self._trainings.error)

    # -- building

    def _build(self) -> None:
        inner = QWidget()
        inner.setProperty("surface", "panel")
        column = QVBoxLayout(inner)
        column.setContentsMargins(12, 4, 12, 8)
        column.setSpacing(8)
        column.addWidget(self.form)
        self.form.column.insertWidget(2, _trainable_row(self))
        self.form.column.insertWidget(2, self.hint)
        self.hint.setProperty("role", "small")
        self.setFocusProxy(self.form.editor("data"))
        column.addStretch(1)
        area = QScrollArea(widgetResizable=True)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(inner)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(area, 1)
        box.addWidget(_foot(self))

    def _connect(self) -> None:
        self.form.changed.connect(self._edited)
        self.trainable.edited.connect(self._edited)
        self.train.clicked.connect(self.begin)
        self.resume.clicked.connect(self.begin)
        self.restart.clicked.connect(self._restart)
        for key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            short = QShortcut(QKeySequence(key), self.form)
            short.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            short.activated.connect(self.begin)
        self.estimate.text_changed.connect(self._show_estimate)
        self.estimate.failed.connect(self._show_error)
        self._previews.ready.connect(lambda slot, key, run: self._show_interrupted(run))
        session, trainings = self._session, self._trainings
        session.opened.connect(self._opened)
        session.data_changed.connect(self._on_data)
        session.changed.connect(self._on_changed)
        trainings.began.connect(self._begin_run)
        trainings.busy_changed.connect(self._set_busy)
        trainings.ended.connect(self._end_run)
        trainings.result_changed.connect(self._show_result)
        trainings.failed.connect(self._on_problem)

    # -- options

    def options(self) -> FinetuneOptions:
        """The options of the form; raises OptionsError."""
        self.settle()
        options = replace(self.form.value(), freeze=self.trainable.get())
        if not options.data:
            raise OptionsError(NO_DATA, "")
        return options

    def offer(self, options: FinetuneOptions) -> None:
        """Show options in the form."""
        document = self._session.document
        self.form.put(options, document.graph if document else None)
        self.trainable.put(options.freeze)
        self._edited()

    def _opened(self) -> None:
        """Show the model's default options, or those of its interrupted training."""
        self.estimate.drop()
        self.trainable.forget_graph()
        document, opened = self._session.document, self._opened_state
        options = FinetuneOptions()
        if document and opened.graph is not None:
            self._rate, _ = suggested_rate(opened.graph)
            options = replace(options, **opened.data.which, learning_rate=self._rate)
            last = recall(document.project.source.spec)
            if last and interrupted_run(opened.graph, last, 0, document.project.base):
                options = last
        self.offer(options)
        self._suggest()

    def _on_data(self) -> None:
        """Offer the data of a measurement if the form names none."""
        if not self._session.document or not self._session.measured_on.data:
            return
        try:
            options = self.form.value()
        except EspalierError:  # shown by the form
            return
        if not options.data:
            self.offer(replace(options, **self._session.measured_on.which, freeze=self.trainable.get()))

    def _suggest(self) -> None:
        """Suggest a learning rate for the graph, unless the user has entered one."""
        document, field = self._session.document, self.form.editor("learning_rate")
        self.hint.setVisible(document is not None)
        if document is None:
            return
        rate, why = suggested_rate(document.graph)
        self.hint.setText(tr("Learning rate {:g}: {}.", rate, why))
        if field._value == self._rate != rate:
            field.put(rate)
        self._rate = rate

    def _edited(self) -> None:
        """Drop the estimate of other options, and look for an interrupted training with these."""
        self.estimate.drop()
        self.error.hide()
        document = self._session.document
        self.train.setEnabled(document is not None)
        self.time.setEnabled(document is not None)
        self.time.setVisible(self._trainings.job is None)
        self.words.setText(graph_text(document.graph) if document else tr("Open a model to train it."))
        try:
            self._find_interrupted(self.options())
        except EspalierError as error:
            self._show_interrupted(None)
            self._previews.forget("unfinished")
            if document:
                self.words.setText(message(error.message))
            return
        self.estimate.forget()

    def look_on(self, on: bool) -> None:
        """Set whether the panel is in front."""
        self.estimate.set_active(on)

    def _find_interrupted(self, options: FinetuneOptions) -> None:
        document = self._session.document
        if document is None:
            self._show_interrupted(None)
            return
        graph, base = document.graph, document.project.base
        self._previews.forget("unfinished")
        self._previews.ask("unfinished", object(), lambda stop: interrupted_run(graph, options, 0, base) or ())

    def _show_interrupted(self, run: InterruptedRun | tuple[()] | None) -> None:
        """Offer to resume an interrupted training."""
        shown = isinstance(run, InterruptedRun) and self._trainings.job is None
        if isinstance(run, InterruptedRun):
            self.interrupted.setText(_interrupted_text(run))
        for widget in (self.interrupted, self.resume, self.restart):
            widget.setVisible(shown)
        self.train.setVisible(not shown and self._trainings.job is None)

    def _show_estimate(self, text: str) -> None:
        """Show the estimate in place of its link."""
        self.words.setText(text)
        self.time.setVisible(not text and self._trainings.job is None)

    def _show_error(self, error: Any) -> None:
        """Show an error, unless the data field shows it already."""
        self.words.setText("")
        data = self.form.editor("data")
        if isinstance(data, DataField) and data.shows(error):
            self.error.hide()
            return
        self.error.setText(error_text(error))
        self.error.show()

    # -- the run

    def begin(self) -> None:
        """Start or resume the training."""
        document = self._session.document
        if document is None or self._trainings.job is not None:
            return
        try:
            options = self.options()
        except EspalierError as error:
            self._show_error(error)
            return
        self.error.hide()
        self.result.hide()
        self.estimate.drop()
        remember(document.project.source.spec, options)
        self.wanted.emit(options)

    def _restart(self) -> None:
        document = self._session.document
        try:
            options = self.options()
        except EspalierError as error:
            self._show_error(error)
            return
        if document:
            discard(document.graph, options, 0, document.project.base)
        self.begin()

    def _begin_run(self, job: JobInfo) -> None:
        self.run.follow(job)
        self._show_interrupted(None)

    def _set_busy(self, busy: bool) -> None:
        """Hide what begins another training while one is queued or running."""
        for widget in (self.train, self.time, self.words):
            widget.setVisible(not busy)

    def _end_run(self) -> None:
        self._edited()
        if self._trainings.error is not None:
            self._show_error(self._trainings.error)

    def _show_result(self) -> None:
        """Show the result of the last training until the state changes."""
        self.result.setText(self._trainings.result)
        self.result.setVisible(bool(self._trainings.result))

    def _on_changed(self) -> None:
        if self._trainings.job is None:
            self.when_visible(self._follow)

    def _follow(self) -> None:
        """Update suggestion and state for the present graph while no training runs."""
        if self._trainings.job is None:
            self._suggest()
            self._edited()

    def _on_problem(self, error: EspalierError) -> None:
        self._show_error(error)
        if not self.visibleRegion().isEmpty():
            self.refused.emit()


def _interrupted_text(run: InterruptedRun) -> str:
    return tr("This training was interrupted at step {} of {}.", count(run.step), count(run.steps))


def _trainable_row(panel: TrainingPanel) -> QWidget:
    row = QWidget()
    line = QHBoxLayout(row)
    line.setContentsMargins(0, 0, 0, 0)
    line.setSpacing(12)
    title = QLabel(tr("trainable"))
    title.setFixedHeight(23)
    line.addWidget(title, 0, Qt.AlignmentFlag.AlignTop)
    line.addWidget(panel.trainable, 1)
    return row


def _foot(panel: TrainingPanel) -> QWidget:
    """Widgets below the scrolled form."""
    foot = QFrame()
    foot.setProperty("foot", True)
    column = QVBoxLayout(foot)
    column.setContentsMargins(12, 4, 12, 6)
    column.setSpacing(4)
    panel.train.setProperty("primary", True)
    panel.words.setProperty("role", "muted")
    again = QHBoxLayout()
    again.addWidget(panel.resume)
    again.addWidget(panel.restart)
    again.addStretch(1)
    row, estimate = QHBoxLayout(), QVBoxLayout()
    estimate.setSpacing(2)
    estimate.addWidget(panel.words)
    estimate.addWidget(panel.time, 0, Qt.AlignmentFlag.AlignLeft)
    row.addLayout(estimate, 1)
    row.addWidget(panel.train, 0, Qt.AlignmentFlag.AlignVCenter)
    for widget in (panel.error, panel.interrupted):
        column.addWidget(widget)
    column.addLayout(again)
    for widget in (panel.run, panel.result):
        column.addWidget(widget)
    column.addLayout(row)
    return foot
