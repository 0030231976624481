"""The data of the project, or others: how many, how even, how long, what they say, and what the model gets wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QHBoxLayout, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.features.data.browser import DataBrowser
from espalier.app.features.data.overview import DataOverview
from espalier.app.session.asker import Asker
from espalier.app.widgets.forms.form import Form
from espalier.app.widgets.heading import empty_state, link
from espalier.app.words import count
from espalier.model.data.summary import DataLook
from espalier.model.errors import EspalierError
from espalier.passes.analysis.data_rows import DataRowsOptions
from espalier.passes.jobs.kinds import JobInfo
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session

PAUSE = 500  # milliseconds after the last key before other data are loaded
WIDE = 1300
SOURCE, COLUMNS = ("data",), ("text", "label", "tokenizer", "max_length")
EMPTY = "No data yet. Name a demo, a data set of the hub, a file or a folder above."


class DataPanel(QWidget):
    """Loads what its form names, in the worker, as soon as the panel is seen."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._seen: DataLook | None = None
        self._loaded: EvaluateOptions | None = None
        self._start, self._looked_at = 0, False
        self.loader = Asker(session)
        self.source = Form(EvaluateOptions, only=SOURCE, brief=True)
        self.columns = Form(EvaluateOptions, only=COLUMNS, brief=True)
        self.browser = DataBrowser()
        self.overview, self._empty = DataOverview(), empty_state(EMPTY)
        self._unfold = link("Columns…", self._toggle_columns)
        self._pages = QStackedWidget()
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._build()
        self._connect()

    # -- building

    def _build(self) -> None:
        bar = QHBoxLayout()
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
        split.setHandleWidth(1)
        split.addWidget(self.overview)
        split.addWidget(self.browser)
        split.setStretchFactor(0, 1)
        split.setStretchFactor(1, 1)
        split.setSizes([600, 800])
        split.setContentsMargins(12, 0, 12, 4)
        self._pages.addWidget(self._empty)
        self._pages.addWidget(split)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self._pages, 1)

    def _connect(self) -> None:
        self._wait.timeout.connect(lambda: self.load() if self._looked_at else None)
        for form in (self.source, self.columns):
            form.changed.connect(lambda: self._wait.start(PAUSE))
        data, names = self.source.editors["data"], (self.columns.editors[n] for n in ("text", "label"))
        for name in names:
            data.looked.connect(name.show_names)
        data.line.returnPressed.connect(self.load)
        self.browser.rows_wanted.connect(self._page)
        self.browser.predictions_wanted.connect(self._predict)
        self.overview.confusion.chosen.connect(self.browser.show_cell)
        self.loader.answered.connect(self._answered)
        self.loader.failed.connect(self._failed)
        self.loader.stood.connect(self._stands)
        self._session.opened.connect(self._opened)
        self._session.data_known.connect(self._measured)
        self._session.changed.connect(self._changed)
        self._show(None)

    # -- what to load

    def _toggle_columns(self) -> None:
        self.columns.setVisible(self.columns.isHidden())
        self._unfold.setText("Columns…" if self.columns.isHidden() else "Fewer")

    def _opened(self) -> None:
        self.loader.drop()
        self._loaded = None
        self._put(EvaluateOptions(**self._session.measured_on.which))
        self._show(None)
        self._wait.start(0)

    def _measured(self) -> None:
        """The model was measured: show that data, where none is named."""
        if self._session.measured_on.data and not self.source.editors["data"].get():
            self._put(EvaluateOptions(**self._session.measured_on.which))
            self._wait.start(0)

    def _put(self, options: EvaluateOptions) -> None:
        self.source.put(options)
        self.columns.put(options)

    def look_at(self, options: EvaluateOptions) -> None:
        """Look at other data, such as those of a step."""
        self._put(options)
        self.load()

    def look_on(self, on: bool) -> None:
        """Whether the panel is in front, where somebody sees it; then it loads what it has not yet."""
        self._looked_at = on
        if on and self._loaded is None:
            self._wait.start(0)

    def options(self) -> EvaluateOptions:
        """What the form names; raises OptionsError."""
        return replace(EvaluateOptions(), **self.source.parts(), **self.columns.parts())

    def load(self) -> None:
        """Load what the form names, unless that is what is shown."""
        self._wait.stop()
        try:
            wish = self.options()
        except EspalierError as error:
            self._say(str(error))
            return
        if self._session.document is None or wish == self._loaded:
            return
        self._loaded = wish
        self._show(None)
        if not wish.data:
            self._say(EMPTY)
            return
        self._say("The data are being loaded.")
        self.loader.ask("data", wish)

    def _changed(self) -> None:
        """What the model says has changed with it."""
        self.loader.drop("predictions")
        self.browser.forget_predictions()
        self.overview.show_confusion(self.browser.told)

    def _page(self, wish: DataRowsOptions) -> None:
        self._start = wish.start
        self.loader.ask("data_rows", wish)

    def _predict(self, split: str) -> None:
        if self._loaded:
            self.browser.predict.setEnabled(False)
            self.loader.ask("predictions", replace(self._loaded, split=split))

    # -- what arrives

    def _answered(self, name: str, report: Any, part: Any) -> None:
        if name == "data":
            self._session.read_as(self._loaded or EvaluateOptions())
            self._show(part)
        elif name == "data_rows":
            self.browser.show_rows(report, part or {}, self._start)
        else:
            self.browser.predict.setEnabled(True)
            self.browser.show_predictions(part)
            self.overview.show_confusion(self.browser.told)

    def _failed(self, name: str, error: EspalierError) -> None:
        words = f"{error.message} {error.hint}".strip()
        field = self.source.editors["data"]
        if name == "data" and field.tells(error):  # what is wrong stands there, what to do stands here
            self._say(error.hint)
        elif name == "data":
            self._say(words, bad=True)
        elif name == "data_rows":
            self.browser.fail(words)
        else:
            self.browser.predict.setEnabled(True)
            self.overview.tell_misfit(words)

    def _stands(self, name: str) -> None:
        job = self.loader.job(name)
        if name == "predictions":
            self.browser.predict.setEnabled(job is None)
            self.browser.predict.setText(_predicting(job))
        elif name == "data" and job and self._seen is None:
            waits = next((j.title for j in self._session.jobs if j.state == "running" and j is not job), "")
            self._say(f"The data are loaded after {waits}." if waits else "The data are being loaded.")
        elif name == "data" and job is None and self._seen is None:
            self._loaded = None  # stopped by hand: Enter loads them

    def _show(self, part: tuple[DataLook, tuple[str, str]] | None) -> None:
        self._seen = part[0] if part else None
        self.browser.told = None
        if part is None or self._loaded is None:
            self._pages.setCurrentIndex(0)
            return
        seen, (message, hint) = part
        self.overview.look_at(seen, f"{message} {hint}".strip())
        self._pages.setCurrentIndex(1)
        wish = self._loaded
        shared = {n: getattr(wish, n) for n in ("data", "text", "label", "tokenizer", "max_length")}
        self.browser.show_data(seen, DataRowsOptions(**shared))

    def _say(self, words: str, bad: bool = False) -> None:
        self._empty.setText(words)
        self._empty.setWordWrap(True)
        self._empty.setProperty("role", "bad" if bad else "muted")
        self._empty.style().unpolish(self._empty)
        self._empty.style().polish(self._empty)
        self._pages.setCurrentIndex(0)


def _predicting(job: JobInfo | None) -> str:
    if job is None:
        return "Find what the model gets wrong"
    done = job.progress
    if job.state == "waiting" or done is None or not done.total:
        return "The model is being asked"
    return f"Asked {count(done.done)} of {count(done.total)}"
