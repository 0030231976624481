"""Fine-tuning beside the work: on what, how long, what trains; what it will take; the run, and how it ended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from espalier.app.features.training.foot import TrainingFoot
from espalier.app.features.training.run import TrainingRun
from espalier.app.features.training.state.estimate import TrainingEstimate
from espalier.app.features.training.state.memory import recall, remember
from espalier.app.features.training.state.words import begins_with, did, through
from espalier.app.features.training.what_trains import WhatTrains
from espalier.app.jobs.previews import Previews
from espalier.app.jobs.status import trains
from espalier.app.widgets.forms.data_fields import DataField
from espalier.app.widgets.forms.grouped import GroupedForm
from espalier.app.widgets.forms.owing import Owing
from espalier.app.widgets.forms.training_groups import GROUPS
from espalier.app.widgets.heading import muted
from espalier.model.errors import EspalierError, OptionsError
from espalier.passes.jobs.kinds import JobEvent, ReplayJob
from espalier.passes.training.checkpoint_folders import Unfinished, discard, unfinished
from espalier.passes.training.options import FinetuneOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session

PASS = "finetune"
NO_DATA = "Name the data to train on: a demo, a data set of the hub, a file or a folder."


class TrainingPanel(Owing):
    """`wanted` tells the options when Train is pressed; the rest it finds by the jobs of the session."""

    wanted = Signal(object)
    refused = Signal()  # what went wrong stands here, where it is seen

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._job: ReplayJob | None = None
        self._rate = 0.0  # the learning rate that was suggested last
        self.form = GroupedForm(FinetuneOptions, GROUPS, without=("freeze",))
        self.what = WhatTrains(session)
        self.run = TrainingRun(session)
        self.foot, self.hint = TrainingFoot(self.run), muted("")
        self.estimate = TrainingEstimate(session, self.options, lambda: self._job is not None)
        self._previews = Previews(self)
        self._build()
        self._connect()
        self._opened()

    # -- building

    def _build(self) -> None:
        inner = QWidget()
        inner.setProperty("surface", "panel")
        column = QVBoxLayout(inner)
        column.setContentsMargins(12, 4, 12, 8)
        column.setSpacing(8)
        column.addWidget(self.form)
        self.form.column.insertWidget(2, self._what_row())
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
        box.addWidget(self.foot)

    def _what_row(self) -> QWidget:
        row = QWidget()
        line = QHBoxLayout(row)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(12)
        title = QLabel("what trains")
        title.setFixedHeight(23)
        line.addWidget(title, 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(self.what, 1)
        return row

    def _connect(self) -> None:
        self.form.changed.connect(self._edited)
        self.what.edited.connect(self._edited)
        self.foot.begun.connect(self.begin)
        self.foot.restarted.connect(self._restart)
        self.foot.time_wanted.connect(lambda: self.estimate.ask(unasked=False))
        for key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            short = QShortcut(QKeySequence(key), self.form)
            short.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            short.activated.connect(self.begin)
        self.estimate.told.connect(lambda words: self.foot.tell_estimate(words, self._job is not None))
        self.estimate.failed.connect(self._fail)
        self._previews.ready.connect(lambda slot, key, found: self._found(found))
        session = self._session
        session.opened.connect(self._opened)
        session.data_known.connect(self._measured)
        session.changed.connect(self._changed)
        session.job_event.connect(self._hear)
        session.problem.connect(self._refused)

    # -- options

    def options(self) -> FinetuneOptions:
        """What the form says; raises OptionsError."""
        self.settle()
        made = replace(self.form.value(), freeze=self.what.get())
        if not made.data:
            raise OptionsError(NO_DATA, "")
        return made

    def offer(self, options: FinetuneOptions) -> None:
        """Show these options."""
        document = self._session.document
        self.form.put(options, document.graph if document else None)
        self.what.put(options.freeze)
        self._edited()

    def _opened(self) -> None:
        """Defaults for the model, or the options of a training of it that was broken off."""
        self.estimate.drop()
        self.what.forget_graph()
        self.foot.ended.hide()
        document = self._session.document
        options = FinetuneOptions()
        if document:
            self._rate, _ = begins_with(document.graph)
            options = replace(options, **self._session.measured_on.which, learning_rate=self._rate)
            held = recall(document.project.source.spec)
            if held and unfinished(document.graph, held, 0, document.project.base):
                options = held
        self.offer(options)
        self._suggest()

    def _measured(self) -> None:
        """The model was measured: offer to train on that data, where none is named."""
        if not self._session.document or not self._session.measured_on.data:
            return
        try:
            made = self.form.value()
        except EspalierError:  # the form tells it
            return
        if not made.data:
            self.offer(replace(made, **self._session.measured_on.which, freeze=self.what.get()))

    def _suggest(self) -> None:
        """The learning rate that suits the graph, unless another has been written."""
        document, field = self._session.document, self.form.editor("learning_rate")
        self.hint.setVisible(document is not None)
        if document is None:
            return
        rate, why = begins_with(document.graph)
        self.hint.setText(f"Learning rate {rate:g}: {why}.")
        if field._value == self._rate != rate:
            field.put(rate)
        self._rate = rate

    def _edited(self) -> None:
        """Forget the estimate of other options, and look whether such a training was broken off."""
        self.estimate.drop()
        self.foot.error.hide()
        document = self._session.document
        words = through(document.graph) if document else "Open a model to train it."
        self.foot.offer(document is not None, words, self._job is not None)
        try:
            self._look(self.options())
        except EspalierError as error:
            self._found(None)
            self._previews.forget("unfinished")
            if document:
                self.foot.words.setText(error.message)
            return
        self.estimate.forget()

    def look_on(self, on: bool) -> None:
        """Whether the panel is in front, where somebody sees it."""
        self.estimate.look_on(on)

    def _look(self, options: FinetuneOptions) -> None:
        document = self._session.document
        if document is None:
            self._found(None)
            return
        graph, base = document.graph, document.project.base
        self._previews.forget("unfinished")
        self._previews.ask("unfinished", object(), lambda stop: unfinished(graph, options, 0, base) or ())

    def _found(self, found: Unfinished | tuple[()] | None) -> None:
        """Offer to go on with what was broken off."""
        self.foot.offer_unfinished(found if isinstance(found, Unfinished) and self._job is None else None)

    def _fail(self, error: Any) -> None:
        """Say it once: what the field of the data says already need not stand here again."""
        self.foot.words.setText("")
        data = self.form.editor("data")
        if isinstance(data, DataField) and data.tells(error):
            self.foot.error.hide()
            return
        self.foot.error.setText(f"{error.message} {error.hint}".strip())
        self.foot.error.show()

    # -- the run

    def begin(self) -> None:
        """Train; what was broken off goes on."""
        document = self._session.document
        if document is None or self._job is not None:
            return
        try:
            wish = self.options()
        except EspalierError as error:
            self._fail(error)
            return
        self.foot.error.hide()
        self.foot.ended.hide()
        self.estimate.drop()
        remember(document.project.source.spec, wish)
        self.wanted.emit(wish)

    def _restart(self) -> None:
        document = self._session.document
        try:
            wish = self.options()
        except EspalierError as error:
            self._fail(error)
            return
        if document:
            discard(document.graph, wish, 0, document.project.base)
        self.begin()

    def _hear(self, heard: JobEvent) -> None:
        work = heard.job.job
        if not isinstance(work, ReplayJob) or not trains(work):
            return
        if heard.job in self._session.jobs and self.run.job is not heard.job and heard.job.state != "waiting":
            self._job = work
            self.run.follow(heard.job)
            self._found(None)
            self.foot.ended.hide()
        busy = heard.job in self._session.jobs
        self.foot.rest(not busy)
        if not busy and self._job is work:
            self._job = None
            self._edited()

    def _changed(self) -> None:
        """The graph is another: say how its training ended, where there was one just now."""
        reports = [r for r in self._session.step_reports() if r is not None and r.pass_name == PASS]
        if self._job is not None and reports:
            self.foot.ended.setText(f"{did(reports[-1])} Undo (Ctrl+Z) takes it back.")
            self.foot.ended.show()
        elif self._job is None:
            self.foot.ended.hide()
            self.when_seen(self._follow)

    def _follow(self) -> None:
        """What the present graph asks for, where no training runs."""
        if self._job is None:
            self._suggest()
            self._edited()

    def _refused(self, error: EspalierError) -> None:
        if self._job is not None:
            self._fail(error)
            if not self.visibleRegion().isEmpty():
                self.refused.emit()
