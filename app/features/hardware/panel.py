"""Hardware: the model as SystemVerilog, checked, scheduled and simulated; its modules beside their text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from espalier.app.canvas.colouring import Overlay
from espalier.app.features.hardware.links import Links
from espalier.app.features.hardware.state.hardware import Hardware
from espalier.app.features.hardware.views import MODULES, SUMMED, Views
from espalier.app.features.hardware.words import ABOUT, FIRST, NO_FORMATS, NO_MODEL, told
from espalier.app.jobs.status import doing
from espalier.app.widgets.bench import Bench, invitation
from espalier.app.widgets.forms.fields import Recolouring, tokens
from espalier.app.widgets.forms.form import Form
from espalier.app.widgets.heading import link, muted, warning
from espalier.model.errors import EspalierError
from espalier.passes.analysis.balance_front import BalanceFrontOptions
from espalier.passes.analysis.hardware import HardwareOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session

FIELDS = (
    "samples", "data", "split", "simulator", "stalls", "waves", "synthesize", "route", "cocotb", "engine", "adders",
    "sizes", "name",
)  # fmt: skip
WORDS = 520


class HardwarePanel(Bench):
    """`*_wanted` ask the window for what needs a dialog; `overlay_changed`: the colours of the graph are others."""

    begun = Signal()
    folder_wanted = Signal()
    pass_wanted = Signal(str)
    node_wanted = Signal(str)
    overlay_changed = Signal()
    mode_wanted = Signal(str)
    save_wanted = Signal(object)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.held = Hardware(session)
        self.form = Form(HardwareOptions, only=FIELDS, brief=True)
        self.form.editors["data"].narrow()
        self.views = Views(session, self.held)
        self.links = Links(session, self.held, self.views)
        self._about, self._words = muted(NO_MODEL), QLabel(wordWrap=True)
        self._quantise = link("Quantise…", lambda: self.pass_wanted.emit("quantize"))
        self._doing, self._wrong = muted("", wrap=True), warning()
        self._show_node = link("Show node", lambda: self.node_wanted.emit(self._wrong_node))
        self.buttons = {
            "check": _button("Check", lambda: self.run("check"), "Lint the design and estimate its cycles"),
            "simulate": _button(
                "Simulate", lambda: self.run("simulate"), "Compare every stream with the integer model"
            ),
            "emit": _button("Emit…", self.folder_wanted.emit, "Write the design into a folder"),
            "stop": _button("Stop", self.held.stop, "End the run"),
        }
        self._build()
        self._connect()
        self._opened()
        Recolouring(self, lambda _: self.refresh())

    # -- building

    def _build(self) -> None:
        page = invitation(WORDS, self._about, self._quantise)
        inside = QWidget()
        box = QVBoxLayout(inside)
        box.setContentsMargins(12, 8, 12, 8)
        box.addWidget(self.form)
        self._lay_out(page, inside, self._foot(), self._shown(), [270, 900])

    def _foot(self) -> QWidget:
        foot, row = QWidget(), QHBoxLayout()
        self.buttons["simulate"].setProperty("primary", True)
        row.setSpacing(6)
        for button in self.buttons.values():
            row.addWidget(button)
        row.addStretch(1)
        links = QHBoxLayout()
        links.setSpacing(2)
        for title, name in (("Balance…", "balance_parallelism"), ("Parallelism…", "parallelize")):
            links.addWidget(link(title, lambda n=name: self.pass_wanted.emit(n)))
        links.addStretch(1)
        links.addWidget(self.views.colours)
        box = QVBoxLayout(foot)
        box.setContentsMargins(12, 4, 12, 6)
        box.setSpacing(2)
        box.addLayout(row)
        box.addLayout(links)
        return foot

    def _shown(self) -> QWidget:
        held = QWidget()
        self._words.setTextFormat(Qt.TextFormat.RichText)
        self._words.setMinimumWidth(1)
        self._wrong.setMinimumWidth(1)
        self._wrong.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        line = QHBoxLayout()
        line.setContentsMargins(12, 6, 12, 4)
        words = QVBoxLayout()
        words.setSpacing(2)
        for part in (self._words, self._doing, self._wrong):
            words.addWidget(part)
        words.addStretch(1)
        line.addLayout(words, 1)
        line.addWidget(self._show_node, 0, Qt.AlignmentFlag.AlignTop)
        box = QVBoxLayout(held)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(line)
        box.addWidget(self.views, 1)
        return held

    def _connect(self) -> None:
        session, views = self._session, self.views
        self.held.changed.connect(self.refresh)
        self.held.arrived.connect(self._arrived)
        session.opened.connect(self._opened)
        views.colour.connect(self.mode_wanted)
        views.save_wanted.connect(self.save_wanted)
        views.front.wanted.connect(self.find_front)
        for table in (*views.tables.values(), views.waves):
            table.node_chosen.connect(lambda node: session.select((node,)))
            table.node_wanted.connect(self.node_wanted)

    # -- running

    def run(self, verb: str, folder: str = "") -> None:
        """Check, simulate or emit with the settings of the form; what is wrong with them is told."""
        try:
            options = self.form.value()
            self.held.start(verb, replace(options, folder=folder))
        except EspalierError as error:
            self._session.problem.emit(error)
            return
        self.begun.emit()

    def find_front(self) -> None:
        """Compute the area against the interval, for the sizes of the form."""
        try:
            self.held.find_front(BalanceFrontOptions(sizes=self.form.value().sizes))
        except EspalierError as error:
            self._session.problem.emit(error)

    @property
    def _wrong_node(self) -> str:
        return (self.held.error.node if self.held.error else None) or ""

    # -- what is shown

    def _opened(self) -> None:
        """Another document: its data, or the settings of its last run."""
        document, made = self._session.document, self.held.made
        plain = HardwareOptions(data=(document.project.source.data or "") if document else "")
        self.form.put(replace(made.options, folder="", modules={}) if made else plain)
        self.refresh()

    def refresh(self) -> None:
        """Show how the run stands."""
        held, document = self.held, self._session.document
        self._pages.setCurrentIndex(1 if held.quantised or held.made or held.job else 0)
        self._about.setText(f"{ABOUT}\n\n{NO_FORMATS}" if document else NO_MODEL)
        self._about.setMinimumHeight(self._about.heightForWidth(WORDS))
        self._quantise.setVisible(document is not None)
        running = held.job is not None
        for name, button in self.buttons.items():
            button.setVisible(running == (name == "stop") or name != "stop")
            button.setEnabled(running == (name == "stop"))
        self._words.setText(told(held.made, tokens(self), held.stale) if held.made else FIRST)
        self._doing.setText(doing(held.job, held.stopped))
        self._doing.setVisible(bool(self._doing.text()))
        self.views.front.refresh(rows=False)
        error = held.error
        self._wrong.setText(f"{error.message} {error.hint}".strip() if error else "")
        self._wrong.setVisible(error is not None)
        self._show_node.setVisible(bool(self._wrong_node))

    def _arrived(self) -> None:
        self.views.show_design(self.held.made)
        self.overlay_changed.emit()
        self.links.show_selected(self._session.selection)

    def overlay(self, column: str) -> Overlay:
        """Values of the nodes for the colours of the graph."""
        return overlay(self.held, column)


def _button(title: str, act: Any, words: str) -> QPushButton:
    button = QPushButton(title)
    button.setToolTip(words)
    button.clicked.connect(lambda: act())
    return button


def overlay(held: Hardware, column: str) -> Overlay:
    """Values of the nodes for the colours of the graph: the most, or the sum, of a node's instances."""
    title, unit = MODULES[column]
    found: dict[str, float] = {}
    unknown: set[str] = set()
    for row in held.made.rows if held.made else ():
        value = row.get(column)
        if value is None and column in SUMMED:
            unknown.add(row["node"])
        if isinstance(value, int | float) and (value or column in SUMMED):
            before = found.get(row["node"], 0.0)
            found[row["node"]] = before + value if column in SUMMED else max(before, float(value))
    note = "" if found and not held.stale else "of an earlier state" if found else "check the hardware first"
    return Overlay(title, {n: v for n, v in found.items() if n not in unknown}, unit, note)
