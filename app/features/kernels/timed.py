"""What the tabs Compile, Profile and Memory share: a form and a run at the left, what came of it at the right."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut, QStandardItemModel
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QTabBar, QVBoxLayout, QWidget

from espalier.app.features.kernels.state.runs import kernel_runs_of
from espalier.app.features.kernels.state.timed import Measured, timed_of
from espalier.app.jobs.status import doing
from espalier.app.widgets.bench import Bench, Front, invitation
from espalier.app.widgets.forms.fields import OPTION, Choice, Recolouring, wear_field_style
from espalier.app.widgets.forms.flow import Flow
from espalier.app.widgets.forms.form import Form
from espalier.app.widgets.heading import empty_state, link, muted, warning
from espalier.app.widgets.pressed import hand_over
from espalier.model.errors import EspalierError
from espalier.passes.running.timed_inputs import batch_symbols

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.model.graph.graph import Graph

WORDS = 520
OLD = "of an earlier state: run it again"


class TimedPage(Bench):
    """A page of one analysis. `*_wanted` and `overlay_changed` are what the panel passes on to the window."""

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
    VERB: ClassVar[str] = "Run"
    NO_MODEL: ClassVar[str] = ""
    FIRST: ClassVar[str] = ""
    BUSY: ClassVar[str] = "It is being measured."

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.held = timed_of(session, self.NAME, self.TITLE, self.OPTIONS)
        self.form = Form(self.OPTIONS, only=self.FIELDS, brief=True)
        self.form.editors["data"].narrow()
        self.words, self.doing, self.wrong = QLabel(wordWrap=True), muted(""), warning()
        self.show_node = link("Show node", lambda: self.node_wanted.emit(self._wrong_node))
        self.run_button, self.stop_button = QPushButton(self.VERB), QPushButton("Stop")
        self.run_button.setProperty("primary", True)
        self.run_button.setToolTip(f"{self.VERB} with these settings (Ctrl+Return)")
        self.run_button.clicked.connect(lambda: self.run())
        self.stop_button.clicked.connect(self.held.stop)
        self._results, self._empty = Front(), empty_state(self.FIRST)
        self._build()
        self._connect()
        self._opened()
        Recolouring(self, lambda _: self.refresh())

    # -- building

    def body(self) -> QWidget:
        """What shows a result; made once."""
        raise NotImplementedError

    def extra(self) -> tuple[QWidget, ...]:
        """What stands above the form."""
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
        self._lay_out(invitation(WORDS, muted(self.NO_MODEL)), inside, foot, self._shown(), [270, 900])

    def _shown(self) -> QWidget:
        held = QWidget()
        self.words.setTextFormat(Qt.TextFormat.RichText)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.wrong.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        lines = QVBoxLayout()
        lines.setSpacing(2)
        for part in (self.words, self.doing, self.wrong):
            part.setMinimumWidth(1)
            lines.addWidget(part)
        head = QHBoxLayout()
        head.setContentsMargins(12, 6, 12, 4)
        head.addLayout(lines, 1)
        head.addWidget(self.show_node, 0, Qt.AlignmentFlag.AlignTop)
        for page in (self._empty, self.body()):
            self._results.addWidget(page)
        box = QVBoxLayout(held)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(head)
        box.addWidget(self._results, 1)
        return held

    def _connect(self) -> None:
        self.held.changed.connect(self.refresh)
        self.held.arrived.connect(self._arrived)
        self._session.opened.connect(self._opened)
        lab = kernel_runs_of(self._session)
        lab.known.connect(self._offer_devices)
        key = QShortcut(QKeySequence("Ctrl+Return"), self)
        key.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        key.activated.connect(self.run)
        lab.want_lab()

    # -- settings

    def _offer_devices(self) -> None:
        """A device that is not here cannot be chosen, and says why."""
        lab, choice = kernel_runs_of(self._session).lab, self.form.editors["device"]
        if lab is not None:
            for at, name in enumerate(choice.values):
                forbid(choice, at, lab.missing.get(name, ""))

    def _offer_sizes(self, graph: Graph | None) -> None:
        """The sizes that can be written, and those of the trace."""
        line = self.form.editors["sizes"]
        free = {s: v for s, v in graph.symbols.items() if s not in batch_symbols(graph)} if graph else {}
        line.setEnabled(bool(free))
        line.setPlaceholderText(", ".join(f"{s}={v}" for s, v in free.items()) or "all are fixed")
        about = "Sizes of made inputs, where no data is named; empty: those of the trace."
        line.setToolTip(about if free else "No size of this model varies, but for the batch.")

    def options(self) -> Any:
        """What was chosen; raises EspalierError."""
        return self.form.value()

    # -- running

    def run(self) -> None:
        """Run with the settings of the form; what is wrong with them is told."""
        if self.held.job is not None or self._session.document is None:
            return
        try:
            self.held.start(self.options())
        except EspalierError as error:
            self._session.problem.emit(error)
            return
        self.begun.emit()

    @property
    def _wrong_node(self) -> str:
        return (self.held.error.node if self.held.error else None) or ""

    # -- what is shown

    def show_made(self, made: Measured | None) -> None:
        """Show a result, or nothing."""

    def told(self, made: Measured) -> str:
        """A result in a line of rich text."""
        raise NotImplementedError

    def _opened(self) -> None:
        """Another document: the settings of its last run."""
        document, made = self._session.document, self.held.made
        self.form.put(cleared(made.options) if made else None)
        self._offer_sizes(document.graph if document else None)
        self.refresh()

    def _arrived(self) -> None:
        self.show_made(self.held.made)

    def refresh(self) -> None:
        """Show how the run stands."""
        held = self.held
        self._pages.setCurrentIndex(1 if self._session.document else 0)
        running = held.job is not None
        hand_over(self.run_button, self.stop_button, running, lambda: self.run_button.setEnabled(not running))
        self._empty.setText(self.BUSY if running else self.FIRST)
        self.words.setText(self.told(held.made) if held.made else "")
        self.words.setVisible(held.made is not None)
        self.doing.setText(doing(held.job, held.stopped))
        self.doing.setVisible(bool(self.doing.text()))
        error = held.error
        self.wrong.setText(f"{error.message} {error.hint}".strip() if error else "")
        self.wrong.setVisible(error is not None)
        self.show_node.setVisible(bool(self._wrong_node))
        self._results.setCurrentIndex(1 if held.made else 0)


class Pages(QWidget):
    """Views under a row of small tabs, with tools at its right that some of them have."""

    shown = Signal(int)

    def __init__(self, views: dict[str, QWidget], tools: tuple[QWidget, ...] = ()) -> None:
        super().__init__()
        self.tabs, self.pages = QTabBar(), Front()
        for title, view in views.items():
            self.tabs.addTab(title)
            self.pages.addWidget(view)
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setElideMode(Qt.TextElideMode.ElideNone)
        bar = Flow(spacing=6)
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
        if inside and self.pages.isAncestorOf(inside):  # a table that gets the focus by itself would choose a row
            self.tabs.setFocus()
        self.pages.setCurrentIndex(at)
        self.shown.emit(at)


def forbid(choice: Choice, at: int, why: str) -> None:
    """Let an item not be chosen, for a reason that its tool tip tells; without one it can be."""
    model = choice.model()
    assert isinstance(model, QStandardItemModel)
    model.item(at).setEnabled(not why)
    choice.setItemData(at, why or None, Qt.ItemDataRole.ToolTipRole)
    if why and choice.currentIndex() == at:
        other = next((k for k in range(choice.count()) if model.item(k).isEnabled()), at)
        choice.setCurrentIndex(other)


def titled(title: str, editor: QWidget, form: Form) -> QWidget:
    """An editor with its title, in the columns of a form."""
    held, row, label = QWidget(), QHBoxLayout(), QLabel(title)
    label.setFixedHeight(23)
    names = [w for w in form.findChildren(QLabel) if w.property(OPTION)]
    label.setMinimumWidth(max(w.sizeHint().width() for w in names))
    label.setProperty(OPTION, title)
    editor.setAccessibleName(title)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(12)
    row.addWidget(label)
    row.addWidget(editor, 1)
    held.setLayout(row)
    wear_field_style(held)
    return held


def cleared(options: Any) -> Any:
    """Options without the file that a run wrote."""
    return replace(options, trace="") if "trace" in {f.name for f in fields(options)} else options
