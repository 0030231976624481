"""Base class of the tabs Compile, Profile and Memory: form and buttons at the left, results at the right."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut, QStandardItemModel
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QTabBar, QVBoxLayout, QWidget

from espalier.app.features.kernels.state.measurement import MeasurementResult, measurement_of
from espalier.app.features.kernels.state.runs import kernel_runs_of
from espalier.app.jobs.status import activity
from espalier.app.translation import error_text, message, tr
from espalier.app.widgets.form_panel import CurrentPageStack, FormPanel, empty_page
from espalier.app.widgets.forms.fields import OPTION, Choice, Recolouring, apply_field_style
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.forms.form import Form
from espalier.app.widgets.heading import empty_state, link, muted, warning
from espalier.app.widgets.start_stop import show_running
from espalier.model.errors import EspalierError
from espalier.passes.running.timed_inputs import batch_symbols

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.model.graph.graph import Graph

WORDS = 520
OLD = tr("of an earlier state: run again")


class MeasurementTab(FormPanel):
    """Page of one analysis; the panel forwards `*_wanted` and `overlay_changed` to the window."""

    begun = Signal()
    node_wanted = Signal(str)
    mode_wanted = Signal(str)
    pass_wanted = Signal(str)
    overlay_changed = Signal(str, object)
    save_wanted = Signal(object, str, str)

    NAME: ClassVar[str] = ""
    TITLE: ClassVar[str] = ""
    OPTIONS: ClassVar[type]
    FIELDS: ClassVar[tuple[str, ...]] = ()
    VERB: ClassVar[str] = tr("Run")
    NO_MODEL: ClassVar[str] = ""
    FIRST: ClassVar[str] = ""
    BUSY: ClassVar[str] = tr("Measuring …")

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.state = measurement_of(session, self.NAME, self.TITLE, self.OPTIONS)
        self.form = Form(self.OPTIONS, only=self.FIELDS, brief=True)
        self.form.editors["data"].narrow()
        self.summary_label, self.status, self.error = QLabel(wordWrap=True), muted(""), warning()
        self.show_node = link(tr("Show node"), lambda: self.node_wanted.emit(self._error_node))
        self.run_button, self.stop_button = QPushButton(self.VERB), QPushButton(tr("Stop"))
        self.run_button.setProperty("primary", True)
        self.run_button.setToolTip(tr("{} with these settings (Ctrl+Return)", self.VERB))
        self.run_button.clicked.connect(lambda: self.run())
        self.stop_button.clicked.connect(self.state.stop)
        self._results, self._empty = CurrentPageStack(), empty_state(self.FIRST)
        self._build()
        self._connect()
        self._opened()
        Recolouring(self, lambda _: self.refresh())

    # -- building

    def body(self) -> QWidget:
        """Build the widget that shows a result."""
        raise NotImplementedError

    def extra(self) -> tuple[QWidget, ...]:
        """Widgets above the form."""
        return ()

    def _build(self) -> None:
        inside, box = QWidget(), QVBoxLayout()
        box.setContentsMargins(12, 8, 12, 8)
        box.setSpacing(8)
        for part in (*self.extra(), self.form):
            box.addWidget(part)
        box.addStretch(1)
        inside.setLayout(box)
        foot, row = QWidget(), QHBoxLayout()
        row.setContentsMargins(12, 4, 12, 8)
        row.setSpacing(6)
        row.addWidget(self.run_button, 1)
        row.addWidget(self.stop_button)
        foot.setLayout(row)
        self._lay_out(empty_page(WORDS, muted(self.NO_MODEL)), inside, foot, self._right(), [270, 900])

    def _right(self) -> QWidget:
        widget = QWidget()
        self.summary_label.setTextFormat(Qt.TextFormat.RichText)
        self.summary_label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.error.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        lines = QVBoxLayout()
        lines.setSpacing(2)
        for part in (self.summary_label, self.status, self.error):
            part.setMinimumWidth(1)
            lines.addWidget(part)
        head = QHBoxLayout()
        head.setContentsMargins(12, 6, 12, 4)
        head.addLayout(lines, 1)
        head.addWidget(self.show_node, 0, Qt.AlignmentFlag.AlignTop)
        for page in (self._empty, self.body()):
            self._results.addWidget(page)
        box = QVBoxLayout(widget)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(head)
        box.addWidget(self._results, 1)
        return widget

    def _connect(self) -> None:
        self.state.changed.connect(self.refresh)
        self.state.result_ready.connect(self._on_result)
        self._session.opened.connect(self._opened)
        lab = kernel_runs_of(self._session)
        lab.lab_changed.connect(self._offer_devices)
        key = QShortcut(QKeySequence("Ctrl+Return"), self)
        key.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        key.activated.connect(self.run)
        lab.want_lab()

    # -- settings

    def _offer_devices(self) -> None:
        """Disable unavailable devices with the reason."""
        lab, choice = kernel_runs_of(self._session).lab, self.form.editors["device"]
        if lab is not None:
            for at, name in enumerate(choice.values):
                disable_item(choice, at, lab.missing.get(name, ""))

    def _offer_sizes(self, graph: Graph | None) -> None:
        """Offer the variable sizes, with those of the trace as placeholder."""
        line = self.form.editors["sizes"]
        free = {s: v for s, v in graph.symbols.items() if s not in batch_symbols(graph)} if graph else {}
        line.setEnabled(bool(free))
        line.setPlaceholderText(", ".join(f"{s}={v}" for s, v in free.items()) or tr("all are fixed"))
        about = tr("Sizes of random inputs if no data is given; empty: those of the trace.")
        line.setToolTip(about if free else tr("Only the batch size of this model varies."))

    def options(self) -> Any:
        """The chosen options; raises EspalierError."""
        return self.form.value()

    # -- running

    def run(self) -> None:
        """Start a run with the settings of the form; show errors."""
        if self.state.job is not None or self._session.document is None:
            return
        try:
            self.state.start(self.options())
        except EspalierError as error:
            self._session.problem.emit(error)
            return
        self.begun.emit()

    @property
    def _error_node(self) -> str:
        return (self.state.error.node if self.state.error else None) or ""

    # -- display

    def show_result(self, result: MeasurementResult | None) -> None:
        """Show a result; None: clear."""

    def summary(self, result: MeasurementResult) -> str:
        """Summary of a result as rich text."""
        raise NotImplementedError

    def _opened(self) -> None:
        """Fill the form with the settings of the document's last run."""
        document, result = self._session.document, self.state.result
        self.form.put(without_trace(result.options) if result else None)
        self._offer_sizes(document.graph if document else None)
        self.refresh()

    def _on_result(self) -> None:
        self.show_result(self.state.result)

    def refresh(self) -> None:
        """Show the state of the run."""
        state = self.state
        self._pages.setCurrentIndex(1 if self._session.document else 0)
        running = state.job is not None
        show_running(self.run_button, self.stop_button, running, lambda: self.run_button.setEnabled(not running))
        self._empty.setText(self.BUSY if running else self.FIRST)
        self.summary_label.setText(self.summary(state.result) if state.result else "")
        self.summary_label.setVisible(state.result is not None)
        self.status.setText(activity(state.job, state.stopped))
        self.status.setVisible(bool(self.status.text()))
        error = state.error
        self.error.setText(error_text(error) if error else "")
        self.error.setVisible(error is not None)
        self.show_node.setVisible(bool(self._error_node))
        self._results.setCurrentIndex(1 if state.result else 0)


class Pages(QWidget):
    """Views under a row of tabs, by title, with tools at the right."""

    shown = Signal(int)

    def __init__(self, views: dict[str, QWidget], tools: tuple[QWidget, ...] = ()) -> None:
        super().__init__()
        self.tabs, self.pages = QTabBar(), CurrentPageStack()
        for title, view in views.items():
            self.tabs.addTab(tr(title))
            self.pages.addWidget(view)
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setElideMode(Qt.TextElideMode.ElideNone)
        bar = FlowLayout(spacing=6)
        bar.setContentsMargins(4, 0, 12, 2)
        for part in (self.tabs, *tools):
            bar.addWidget(part)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self.pages, 1)
        self.tabs.currentChanged.connect(self._show)

    def _show(self, at: int) -> None:
        inside = self.focusWidget()
        if inside and self.pages.isAncestorOf(inside):  # focus moving on to a table would select a row
            self.tabs.setFocus()
        self.pages.setCurrentIndex(at)
        self.shown.emit(at)


def disable_item(choice: Choice, at: int, reason: str) -> None:
    """Disable an item of a choice with the reason as its tooltip; an empty reason enables it."""
    model = choice.model()
    assert isinstance(model, QStandardItemModel)
    model.item(at).setEnabled(not reason)
    choice.setItemData(at, message(reason) or None, Qt.ItemDataRole.ToolTipRole)
    if reason and choice.currentIndex() == at:
        other = next((k for k in range(choice.count()) if model.item(k).isEnabled()), at)
        choice.setCurrentIndex(other)


def titled(title: str, editor: QWidget, form: Form) -> QWidget:
    """An editor with its title, aligned with the columns of a form."""
    widget, row, label = QWidget(), QHBoxLayout(), QLabel(tr(title))
    apply_field_style(widget)
    label.setFixedHeight(23)
    names = [w for w in form.findChildren(QLabel) if w.property(OPTION)]
    label.setMinimumWidth(max(w.sizeHint().width() for w in names))
    label.setProperty(OPTION, title)
    editor.setAccessibleName(tr(title))
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(12)
    row.addWidget(label)
    row.addWidget(editor, 1)
    widget.setLayout(row)
    return widget


def without_trace(options: Any) -> Any:
    """Options without the trace file of a run."""
    return replace(options, trace="") if "trace" in {f.name for f in fields(options)} else options
