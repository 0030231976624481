"""Tab How it works of the panel Kernels: list of questions, answer text with metrics, picture."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QLabel, QListWidget, QPushButton, QSplitter, QVBoxLayout, QWidget

from espalier.app.features.kernels.answer import AnswerView, formulas_html, lines_html, links_html, text_html
from espalier.app.features.kernels.measurement_tab import disable_item
from espalier.app.features.kernels.state.answers import kernel_answers_of
from espalier.app.theme import ROW
from espalier.app.translation import error_text, tr
from espalier.app.widgets.form_panel import CurrentPageStack, FormArea
from espalier.app.widgets.forms.fields import Choice, Recolouring
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import link, muted, warning
from espalier.app.widgets.plain_text_style import rich_label
from espalier.app.widgets.progress import Bar
from espalier.app.widgets.start_stop import show_running
from espalier.kernels.bench.answers.lines import lines_of
from espalier.kernels.bench.answers.questions import QUESTIONS, Question
from espalier.kernels.bench.spec import DEVICES
from espalier.model.errors import EspalierError

if TYPE_CHECKING:
    from espalier.app.session.session import Session

LIST, WORDS = 190, 400
AHEAD = 120  # milliseconds between building pictures in advance
TITLES = {"cpu": "CPU", "cuda": "CUDA"}


class KernelExplanations(QWidget):
    """Emits `save_wanted` for the window's file dialog, and `begun` when a measurement starts."""

    begun = Signal()
    save_wanted = Signal(object, str, str)

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.state = kernel_answers_of(session)
        self.list, self.split = QListWidget(), QSplitter(Qt.Orientation.Horizontal)
        self.title, self.text, self.formulas = QLabel(), rich_label(), rich_label()
        self.figures, self.links, self.error = rich_label(), rich_label(), warning()
        self.device = Choice(DEVICES, tuple(TITLES[d] for d in DEVICES))
        self.measure_button, self.stop_button = QPushButton(tr("Measure")), QPushButton(tr("Stop"))
        self.status, self.bar = muted(""), Bar()
        self.shown: dict[str, AnswerView] = {}
        self._views = CurrentPageStack()
        self._ahead = QTimer(self, interval=AHEAD)
        self._build()
        self._connect()
        self.state.runs.want_lab()
        self.list.setCurrentRow(0)

    # -- building

    def _build(self) -> None:
        self.list.addItems([tr(q.name) for q in QUESTIONS])
        self.list.setStyleSheet(f"QListWidget::item {{ min-height: {ROW}px; padding-left: 8px; }}")
        self.list.setUniformItemSizes(True)
        self.list.setAccessibleName(tr("Questions about kernels"))
        self.list.setMinimumWidth(120)
        left = QWidget()
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(FormArea(self._text_column()), 1)
        column.addWidget(self._foot())
        self.split.setHandleWidth(1)
        for part in (self.list, left, self._views):
            self.split.addWidget(part)
        self.split.setStretchFactor(2, 1)
        self.split.setSizes([LIST, WORDS, 900])
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(self.split)
        Recolouring(self, lambda _: self.refresh())

    def _text_column(self) -> QWidget:
        inside, box = QWidget(), QVBoxLayout()
        box.setContentsMargins(12, 8, 12, 8)
        box.setSpacing(8)
        self.title.setProperty("role", "strong")
        for label in (self.title, self.text, self.formulas, self.figures, self.links):
            label.setWordWrap(True)
            label.setMinimumWidth(1)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextBrowserInteraction)
            box.addWidget(label)
        self.links.setOpenExternalLinks(True)
        self.figures.setAccessibleName(tr("Metrics of the answer"))
        box.addStretch(1)
        inside.setLayout(box)
        return inside

    def _foot(self) -> QWidget:
        foot, box, row = QWidget(), QVBoxLayout(), FlowLayout(spacing=6)
        box.setContentsMargins(12, 4, 12, 8)
        box.setSpacing(4)
        self.measure_button.setProperty("primary", True)
        self.device.setAccessibleName(tr("Device"))
        for part in (self.measure_button, self.stop_button, self.device, link(tr("Copy metrics"), self.copy)):
            row.addWidget(part)
        for label in (self.status, self.error):
            label.setMinimumWidth(1)
            box.addWidget(label)
        box.addWidget(self.bar)
        box.addLayout(row)
        foot.setLayout(box)
        return foot

    def _connect(self) -> None:
        self.list.currentRowChanged.connect(lambda _: self.refresh())
        self.measure_button.clicked.connect(self.measure)
        self.stop_button.clicked.connect(self.state.stop)
        self.device.edited.connect(self.refresh)
        self.state.changed.connect(self._changed)
        self._ahead.timeout.connect(self._make_one)
        key = QShortcut(QKeySequence("Ctrl+Return"), self)
        key.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        key.activated.connect(self.measure)

    # -- display

    @property
    def question(self) -> Question:
        """The chosen question."""
        return QUESTIONS[max(self.list.currentRow(), 0)]

    def choose(self, key: str) -> None:
        """Select a question by key."""
        self.list.setCurrentRow([q.key for q in QUESTIONS].index(key))

    def _changed(self) -> None:
        lab = self.state.runs.lab
        for at, name in enumerate(DEVICES if lab else ()):
            disable_item(self.device, at, lab.missing.get(name, "") if lab else "")
        self.refresh()

    def refresh(self) -> None:
        """Show the chosen question with the measured facts, if visible."""
        if not self.isVisible():
            return
        question, measured = self.question, self.state.measured(str(self.device.get()))
        palette, lines = self.palette(), lines_of(question.key, measured)
        grey = palette.placeholderText().color().name()
        self._put(self.title, tr(question.title))
        self._put(self.text, text_html(question))
        self._put(self.formulas, formulas_html(question))
        self._put(self.figures, lines_html(lines, grey))
        self._put(self.links, links_html(question, palette.link().color().name()))
        view = self._view(question)
        view.show_measured(measured, lines)
        self._views.setCurrentWidget(view)
        self._show_state()

    @staticmethod
    def _put(label: QLabel, text: str) -> None:
        """Set a label's text only if it changes, to keep its selection and layout."""
        if label.text() != text:
            label.setText(text)

    def _view(self, question: Question) -> AnswerView:
        if question.key not in self.shown:
            view = self.shown[question.key] = AnswerView(question)
            view.save_wanted.connect(partial(self.save_wanted.emit))
            self._views.addWidget(view)
        return self.shown[question.key]

    def _make_one(self) -> None:
        """Build the next picture in advance, so that choosing a question is fast."""
        missing = next((q for q in QUESTIONS if q.key not in self.shown), None)
        if missing is None:
            self._ahead.stop()
        else:
            self._view(missing)

    def _show_state(self) -> None:
        state, job = self.state, self.state.job
        ledger = state.ledger.error if state.last_question == "memory" and self.question.key == "memory" else None
        error = state.error or ledger
        show_running(self.measure_button, self.stop_button, job is not None,
                  lambda: self.measure_button.setEnabled(job is None))  # fmt: skip
        what = tr(self.question.measures)
        text = tr("{}{} (Ctrl+Return)", what[:1].upper(), what[1:])
        self.measure_button.setToolTip(text if job is None else tr("A measurement is running"))
        self._put(self.status, state.status)
        self.status.setVisible(bool(state.status))
        self.error.setText(error_text(error) if error else "")
        self.error.setVisible(error is not None)
        progress = job.progress if job else None
        self.bar.setVisible(job is not None)
        self.bar.show_done(progress.done if progress else 0, progress.total if progress else 0)

    # -- actions

    def measure(self) -> None:
        """Measure the facts of the chosen question."""
        if self.state.busy:
            return
        try:
            self.state.start(self.question.key, str(self.device.get()))
        except EspalierError as error:
            self._session.problem.emit(error)
            return
        self.begun.emit()

    def copy(self) -> None:
        """Copy the metrics to the clipboard."""
        self._view(self.question).figures.copy()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._changed()
        self._ahead.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._ahead.stop()
