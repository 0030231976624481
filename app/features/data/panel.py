"""Data panel: size, class balance, text lengths and samples of a data set, and the model's errors on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QScrollArea, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.features.data.browser import DataBrowser
from espalier.app.features.data.charts.confusion import ConfusionView
from espalier.app.features.data.charts.data_charts import ClassChart, LengthChart
from espalier.app.number_text import count, percent, plural
from espalier.app.session.analysis_requests import AnalysisRequests
from espalier.app.session.opened_state import opened_state_of
from espalier.app.translation import error_text, message, tr
from espalier.app.widgets.forms.form import Form
from espalier.app.widgets.heading import empty_state, link, muted, warning
from espalier.model.data.summary import DataSummary, balance
from espalier.model.errors import EspalierError
from espalier.passes.analysis.data_rows import DataRowsOptions
from espalier.passes.jobs.kinds import JobInfo
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session

PAUSE = 500  # milliseconds after the last key before other data are loaded
WIDE = 1300
SOURCE, COLUMNS = ("data",), ("text", "label", "tokenizer", "max_length", "task")
LOADING = tr("The data are being loaded.")
EMPTY = tr("No data yet. Name a demo, a data set of the hub, a file or a folder above.")


class DataPanel(QWidget):
    """Loads the data set named in its form, in the worker, once the panel is visible."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._opened_state = session, opened_state_of(session)
        self._summary: DataSummary | None = None
        self._loaded: EvaluateOptions | None = None
        self._start, self._looked_at = 0, False
        self.loader = AnalysisRequests(session)
        self.source = Form(EvaluateOptions, only=SOURCE, brief=True)
        self.columns = Form(EvaluateOptions, only=COLUMNS, brief=True)
        self.browser = DataBrowser()
        self.facts, self.misfit, self._empty = muted(""), warning(), empty_state(EMPTY)
        self.classes, self.lengths, self.confusion = ClassChart(), LengthChart(), ConfusionView()
        self._unfold = link(tr("Columns…"), self._toggle_columns)
        self._pages = QStackedWidget()
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._build()
        self._connect()
        self._on_opened()

    # -- building

    def _build(self) -> None:
        box = QVBoxLayout(self)  # outermost first: a reparented widget is styled again
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        bar = QHBoxLayout()
        box.addLayout(bar)
        box.addWidget(self._pages, 1)
        bar.setContentsMargins(12, 6, 12, 4)
        bar.setSpacing(8)
        bar.addWidget(self.source, 2)
        bar.addWidget(self._unfold, 0, Qt.AlignmentFlag.AlignTop)
        bar.addWidget(self.columns, 1)
        bar.addStretch(1)
        self.source.setMaximumWidth(640)
        self.columns.hide()
        self.setFocusProxy(self.source.editors["data"])
        split = QSplitter(Qt.Orientation.Horizontal)
        self._pages.addWidget(self._empty)
        self._pages.addWidget(split)
        split.setHandleWidth(1)
        split.addWidget(self._overview())
        split.addWidget(self.browser)
        split.setStretchFactor(0, 1)
        split.setStretchFactor(1, 1)
        split.setSizes([600, 800])
        split.setContentsMargins(12, 0, 12, 4)

    def _overview(self) -> QWidget:
        """Figures and charts, side by side; the confusion matrix replaces the length chart once it is computed."""
        figures = QWidget()
        column = QVBoxLayout(figures)
        column.setContentsMargins(0, 2, 8, 2)
        column.setSpacing(4)
        self.facts.setTextFormat(Qt.TextFormat.RichText)
        column.addWidget(self.misfit)
        column.addWidget(self.facts)
        column.addStretch(1)
        area = QScrollArea(widgetResizable=True)
        area.setWidget(figures)
        area.setMinimumWidth(150)
        area.setMaximumWidth(280)
        figures.setProperty("surface", "panel")
        charts = QWidget()
        row = QHBoxLayout(charts)
        row.setContentsMargins(0, 0, 10, 0)
        for chart in (self.classes, self.lengths, self.confusion):
            row.addWidget(chart, 1)
        self.confusion.hide()
        overview = QWidget()
        both = QHBoxLayout(overview)
        both.setContentsMargins(0, 0, 0, 0)
        both.addWidget(area, 2)
        both.addWidget(charts, 5)
        return overview

    def _connect(self) -> None:
        self._wait.timeout.connect(lambda: self.load() if self._looked_at else None)
        for form in (self.source, self.columns):
            form.changed.connect(lambda: self._wait.start(PAUSE))
        data, names = self.source.editors["data"], (self.columns.editors[n] for n in ("text", "label"))
        for name in names:
            data.previewed.connect(name.show_names)
        data.line.returnPressed.connect(self.load)
        self.browser.rows_wanted.connect(self._request_page)
        self.browser.predictions_wanted.connect(self._predict)
        self.confusion.chosen.connect(self.browser.show_cell)
        self.loader.answered.connect(self._answered)
        self.loader.failed.connect(self._failed)
        self.loader.state_changed.connect(self._on_progress)
        self._session.opened.connect(self._on_opened)
        self._session.data_changed.connect(self._on_measured)
        self._session.changed.connect(self._on_changed)

    # -- what to load

    def _toggle_columns(self) -> None:
        self.columns.setVisible(self.columns.isHidden())
        self._unfold.setText(tr("Columns…") if self.columns.isHidden() else tr("Fewer"))

    def _on_opened(self) -> None:
        self.loader.drop()
        self._loaded = None
        self._put(EvaluateOptions(**self._opened_state.data.which))
        self._show(None)
        self._wait.start(0)

    def _on_measured(self) -> None:
        """The model has been measured: show the data set it was measured on, unless the form names one."""
        if self._session.measured_on.data and not self.source.editors["data"].get():
            self._put(EvaluateOptions(**self._session.measured_on.which))
            self._wait.start(0)

    def _put(self, options: EvaluateOptions) -> None:
        self.source.put(options)
        self.columns.put(options)

    def look_at(self, options: EvaluateOptions) -> None:
        """Show another data set, such as that of a step."""
        self._put(options)
        self.load()

    def look_on(self, on: bool) -> None:
        """Set whether the panel is visible; when it is, data that are not loaded yet are loaded."""
        self._looked_at = on
        if on and self._loaded is None:
            self._wait.start(0)

    def options(self) -> EvaluateOptions:
        """The options set in the form; raises OptionsError."""
        return replace(EvaluateOptions(), **self.source.parts(), **self.columns.parts())

    def load(self) -> None:
        """Load the data set named in the form, unless it is already shown."""
        self._wait.stop()
        try:
            options = self.options()
        except EspalierError as error:
            self._show_message(error_text(error))
            return
        if self._session.document is None or options == self._loaded:
            return
        self._loaded = options
        self._show(None)
        if not options.data:
            self._show_message(EMPTY)
            return
        self._show_message(LOADING)
        self.loader.ask("data", options)

    def _on_changed(self) -> None:
        """The model has changed: drop its predictions."""
        self.loader.drop("predictions")
        self.browser.forget_predictions()
        self._show_confusion()

    def _request_page(self, request: DataRowsOptions) -> None:
        self._start = request.start
        self.loader.ask("data_rows", request)

    def _predict(self, split: str) -> None:
        if self._loaded:
            self.browser.predict.setEnabled(False)
            self.loader.ask("predictions", replace(self._loaded, split=split))

    # -- what arrives

    def _answered(self, name: str, report: Any, part: Any) -> None:
        if name == "data":
            self._session.store_data_columns(self._loaded or EvaluateOptions())
            self._show(part)
        elif name == "data_rows":
            self.browser.show_rows(report, part or {}, self._start)
        else:
            self.browser.predict.setEnabled(True)
            self.browser.show_predictions(part)
            self._show_confusion()

    def _failed(self, name: str, error: EspalierError) -> None:
        text = error_text(error)
        field = self.source.editors["data"]
        if name == "data" and field.shows(error):  # the field shows the message, so only the hint goes here
            self._show_message(message(error.hint))
        elif name == "data":
            self._show_message(text, bad=True)
        elif name == "data_rows":
            self.browser.fail(text)
        else:
            self.browser.predict.setEnabled(True)
            self._show_misfit(text)

    def _on_progress(self, name: str) -> None:
        job = self.loader.job(name)
        if name == "predictions":
            self.browser.predict.setEnabled(job is None)
            self.browser.predict.setText(_prediction_status(job))
        elif name == "data" and job and self._summary is None:
            blocking = next((j.title for j in self._session.jobs if j.state == "running" and j is not job), "")
            self._show_message(tr("The data are loaded after {}.", blocking) if blocking else LOADING)
        elif name == "data" and job is None and self._summary is None:
            self._loaded = None  # stopped by the user: Enter loads the data again

    def _show(self, part: tuple[DataSummary, tuple[str, str]] | None) -> None:
        self._summary = part[0] if part else None
        self.browser.predictions = None
        if part is None or self._loaded is None:
            self.browser.table.samples.clear()
            self._pages.setCurrentIndex(0)
            return
        summary, (message, hint) = part
        self._show_misfit(f"{message} {hint}".strip())
        self.facts.setText(_facts(summary))
        self.classes.set_summary(summary)
        self.lengths.set_summary(summary)
        self._show_confusion()
        self._pages.setCurrentIndex(1)
        shared = {n: getattr(self._loaded, n) for n in ("data", "text", "label", "tokenizer", "max_length", "task")}
        self.browser.show_data(summary, DataRowsOptions(**shared))

    def _show_confusion(self) -> None:
        predictions, summary = self.browser.predictions, self._summary
        if predictions is not None:
            self.confusion.show_matrix(predictions.confusion(), predictions.classes)
        self.confusion.setVisible(predictions is not None)
        self._update_class_chart()
        self.lengths.setVisible(predictions is None and summary is not None and bool(summary.edges))

    def _update_class_chart(self) -> None:
        """Show the class chart next to a confusion matrix only where the panel is wide."""
        has_room = self.browser.predictions is None or self.width() >= WIDE
        self.classes.setVisible(bool(self.classes.shown) and has_room)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._update_class_chart()

    def _show_misfit(self, text: str) -> None:
        self.misfit.setText(text)
        self.misfit.setVisible(bool(text))

    def _show_message(self, text: str, bad: bool = False) -> None:
        self._empty.setText(text)
        self._empty.setWordWrap(True)
        self._empty.setProperty("role", "bad" if bad else "muted")
        self._empty.style().unpolish(self._empty)
        self._empty.style().polish(self._empty)
        self._pages.setCurrentIndex(0)


def _prediction_status(job: JobInfo | None) -> str:
    if job is None:
        return tr("Find what the model gets wrong")
    done = job.progress
    if job.state == "waiting" or done is None or not done.total:
        return tr("Predictions are being computed")
    return tr("Predicted {} of {}", count(done.done), count(done.total))


def _facts(summary: DataSummary) -> str:
    """The figures of a data set in a few lines of rich text."""
    sizes = " · ".join(f"{s.name} {count(s.samples)}" for s in summary.splits)
    if summary.window:
        return _paragraphs(_window_facts(summary, sizes))
    kind = _kind(summary)
    if summary.guessing:
        return _paragraphs(_task_facts(summary, sizes))
    classes = (
        f"{plural(len(summary.classes), 'class', 'classes')}; {message(balance(summary.counts, summary.classes))}."
    )
    accuracy = tr("Majority-class accuracy: {}", percent(summary.evaluated.majority))
    majority = tr("{} on {}; a model must beat it.", accuracy, summary.evaluated.name)
    lines = [f"<b>{count(sum(summary.counts))} {escape(kind)}</b>", *map(escape, (sizes, classes, majority))]
    if summary.kind == "text":
        lines.append(
            tr(
                "Half of the texts have up to {}, the longest {}.",
                plural(summary.median, "token"),
                count(summary.longest),
            )
        )
    return _paragraphs(lines)


def _kind(summary: DataSummary) -> str:
    """The kind of the samples in the plural, with the shape of those that are no texts."""
    if summary.kind == "text":
        return tr("texts")
    kind = {"image": tr("images"), "audio": tr("sounds")}.get(summary.kind, "arrays")
    return f"{kind}, {' × '.join(map(str, summary.shape))}"


def _task_facts(summary: DataSummary, sizes: str) -> list[str]:
    """The figures of data whose samples have not one class each."""
    kind = _kind(summary)
    lines = [tr("<b>{} {}, task {}</b>", count(summary.samples), escape(kind), escape(summary.task)), escape(sizes)]
    if summary.classes:
        lines.append(plural(len(summary.classes), "label", "labels"))
    return [*lines, escape(summary.guessing)]


def _window_facts(summary: DataSummary, sizes: str) -> list[str]:
    """The figures of a text in windows."""
    tokens, size = sum(s.tokens for s in summary.splits), sum(s.text_bytes for s in summary.splits)
    windows = tr("<b>{} windows of {}</b>", count(sum(summary.counts)), plural(summary.window, "token"))
    amount = tr("{} tokens to predict, {:.2f} bytes each on average.", count(tokens), size / max(tokens, 1))
    frequent = tr("The most frequent token is {} of {}", percent(summary.evaluated.majority), summary.evaluated.name)
    return [windows, *map(escape, (sizes, amount, tr("{}; a model must predict more than that.", frequent)))]


def _paragraphs(lines: Sequence[str]) -> str:
    return "<p style='margin:0 0 5px 0'>" + "</p><p style='margin:0 0 5px 0'>".join(lines) + "</p>"
