"""Panel Hardware: the model as SystemVerilog, linted, scheduled and simulated; module tree and source text."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from espalier.app.features.hardware.run_text import ABOUT, FIRST, NO_FORMATS, NO_MODEL, summary_html
from espalier.app.features.hardware.state.hardware import hardware_of
from espalier.app.features.hardware.views import SOURCE, Views
from espalier.app.jobs.status import activity
from espalier.app.translation import error_text, tr
from espalier.app.widgets.form_panel import FormPanel, empty_page
from espalier.app.widgets.forms.fields import Recolouring, tokens
from espalier.app.widgets.forms.form import Form
from espalier.app.widgets.heading import button, link, muted, warning
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
FIFOS = ("fifo", "fifo_ram")
_INSTANCE = re.compile(r"\) u_(\w+) \(")


class HardwarePanel(FormPanel):
    """Emits `*_wanted` for actions of the window, and `begun` when a run has been started here."""

    begun = Signal()
    folder_wanted = Signal()
    pass_wanted = Signal(str)
    node_wanted = Signal(str)
    mode_wanted = Signal(str)
    save_wanted = Signal(object)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.hardware = hardware_of(session)
        self.form = Form(HardwareOptions, only=FIELDS, brief=True)
        self.form.editors["data"].narrow()
        self.views = Views(session, self.hardware)
        self._following = False
        self._about, self._summary = muted(NO_MODEL), QLabel(wordWrap=True)
        self._quantise = link(tr("Quantise…"), lambda: self.pass_wanted.emit("quantize"))
        self._status, self._error = muted("", wrap=True), warning()
        self._show_node = link(tr("Show node"), lambda: self.node_wanted.emit(self._error_node))
        self.buttons = {
            "check": button(tr("Check"), lambda: self.run("check"), tr("Lint the design and estimate its cycles")),
            "simulate": button(
                tr("Simulate"), lambda: self.run("simulate"), tr("Compare every stream with the integer model")
            ),
            "emit": button(tr("Emit…"), self.folder_wanted.emit, tr("Write the design into a folder")),
            "stop": button(tr("Stop"), self.hardware.stop, tr("Stop the run")),
        }
        self._build()
        self._connect()
        self._opened()
        self.views.front.refresh()
        self._on_result()
        Recolouring(self, lambda _: self.refresh())

    # -- building

    def _build(self) -> None:
        page = empty_page(WORDS, self._about, self._quantise)
        inside = QWidget()
        box = QVBoxLayout(inside)
        box.setContentsMargins(12, 8, 12, 8)
        box.addWidget(self.form)
        results = QWidget()  # filled in its place: a reparented widget is styled again
        self._lay_out(page, inside, self._foot(), results, [270, 900])
        self._fill(results)

    def _foot(self) -> QWidget:
        foot, row = QWidget(), QHBoxLayout()
        self.buttons["simulate"].setProperty("primary", True)
        row.setSpacing(6)
        for each in self.buttons.values():
            row.addWidget(each)
        row.addStretch(1)
        links = QHBoxLayout()
        links.setSpacing(2)
        for title, name in ((tr("Balance…"), "balance_parallelism"), (tr("Parallelism…"), "parallelize")):
            links.addWidget(link(title, lambda n=name: self.pass_wanted.emit(n)))
        links.addStretch(1)
        links.addWidget(self.views.colours)
        box = QVBoxLayout(foot)
        box.setContentsMargins(12, 4, 12, 6)
        box.setSpacing(2)
        box.addLayout(row)
        box.addLayout(links)
        return foot

    def _fill(self, results: QWidget) -> None:
        self._summary.setTextFormat(Qt.TextFormat.RichText)
        self._summary.setMinimumWidth(1)
        self._error.setMinimumWidth(1)
        self._error.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        line = QHBoxLayout()
        line.setContentsMargins(12, 6, 12, 4)
        labels = QVBoxLayout()
        labels.setSpacing(2)
        for part in (self._summary, self._status, self._error):
            labels.addWidget(part)
        labels.addStretch(1)
        line.addLayout(labels, 1)
        line.addWidget(self._show_node, 0, Qt.AlignmentFlag.AlignTop)
        box = QVBoxLayout(results)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(line)
        box.addWidget(self.views, 1)

    def _connect(self) -> None:
        session, views = self._session, self.views
        self.hardware.changed.connect(self.refresh)
        self.hardware.result_ready.connect(self._on_result)
        session.opened.connect(self._opened)
        session.selection_changed.connect(self._selected)
        views.tree.picked.connect(self._picked)
        views.tree.opened.connect(self._find_instance)
        views.tree.line_wanted.connect(self._show_line)
        views.source.text.clicked.connect(self._clicked)
        views.source.choice.edited.connect(self._file_chosen)
        views.colour.connect(self.mode_wanted)
        views.save_wanted.connect(self.save_wanted)
        views.front.wanted.connect(self.find_front)
        for table in (*views.tables.values(), views.waves):
            table.node_chosen.connect(lambda node: session.select((node,)))
            table.node_wanted.connect(self.node_wanted)

    # -- running

    def run(self, verb: str, folder: str = "") -> None:
        """Check, simulate or emit with the settings of the form; show errors."""
        try:
            options = self.form.value()
            self.hardware.start(verb, replace(options, folder=folder))
        except EspalierError as error:
            self._session.problem.emit(error)
            return
        self.begun.emit()

    def find_front(self) -> None:
        """Compute area against interval with the sizes of the form."""
        try:
            self.hardware.find_front(BalanceFrontOptions(sizes=self.form.value().sizes))
        except EspalierError as error:
            self._session.problem.emit(error)

    @property
    def _error_node(self) -> str:
        return (self.hardware.error.node if self.hardware.error else None) or ""

    # -- display

    def _opened(self) -> None:
        """Fill the form for a new document: its data, or the settings of the run that it holds."""
        document, options = self._session.document, self.hardware.opened_options
        defaults = HardwareOptions(data=(document.project.source.data or "") if document else "")
        self.form.put(replace(options, folder="", modules={}) if options else defaults)
        self.refresh()

    def refresh(self) -> None:
        """Show the state of the run."""
        hardware, document = self.hardware, self._session.document
        self._pages.setCurrentIndex(1 if hardware.quantised or hardware.result or hardware.job else 0)
        self._about.setText(f"{ABOUT}\n\n{NO_FORMATS}" if document else NO_MODEL)
        self._about.setMinimumHeight(self._about.heightForWidth(WORDS))
        self._quantise.setVisible(document is not None)
        running = hardware.job is not None
        for name, each in self.buttons.items():
            each.setVisible(running == (name == "stop") or name != "stop")
            each.setEnabled(running == (name == "stop"))
        self._summary.setText(summary_html(hardware.result, tokens(self), hardware.stale) if hardware.result else FIRST)
        self._status.setText(activity(hardware.job, hardware.stopped))
        self._status.setVisible(bool(self._status.text()))
        self.views.front.refresh(rows=False)
        error = hardware.error
        self._error.setText(error_text(error) if error else "")
        self._error.setVisible(error is not None)
        self._show_node.setVisible(bool(self._error_node))

    def _on_result(self) -> None:
        self.views.show_design(self.hardware.result)
        self._selected(self._session.selection)

    # -- node ↔ instance ↔ text

    def _selected(self, ids: tuple[str, ...]) -> None:
        """Mark the graph's selection in all tables and show the module of a single node."""
        if self.hardware.result is None:
            return
        self.views.select_nodes(ids)
        if self._following:
            return
        rows = self.views.tree.select_where("node", ids)
        if len(ids) == 1 and rows:
            self._show_module(next((r for r in reversed(rows) if r["module"] not in FIFOS), rows[-1]))

    def _picked(self, rows: list[dict[str, Any]]) -> None:
        """Select the nodes of the instances chosen in the tree."""
        if rows:
            self._show_module(rows[-1])
            self._select(r["node"] for r in rows)
        elif self.hardware.result:
            self.views.source.show_file(self.hardware.result.file_of(self.hardware.result.name))

    def _show_module(self, row: dict[str, Any]) -> None:
        if result := self.hardware.result:
            self.views.source.show_file(result.file_of(row["module"]))

    def _find_instance(self, name: str) -> None:
        """Show an instance in the top module's text."""
        if result := self.hardware.result:
            self.views.tabs.setCurrentIndex(SOURCE)
            self.views.source.show_file(result.file_of(result.name), f") u_{name} (")

    def _show_line(self, module: str, line: int) -> None:
        """Show a line of a module's text."""
        if result := self.hardware.result:
            self.views.tabs.setCurrentIndex(SOURCE)
            self.views.source.go_to(result.file_of(module), line)

    def _clicked(self, paragraph: str, line: int) -> None:
        """Select the instance at a clicked line of the text."""
        source, tree = self.views.source, self.views.tree
        if source.comparing:  # line numbers of a diff are not those of the module
            return
        if source.file.startswith("rtl/"):
            rows = [] if source.text.editable else tree.select_inside(source.module, line)
        else:
            match = _INSTANCE.search(paragraph)
            rows = tree.select_where("instance", [match[1]]) if match else []
        if rows:
            self._select(r["node"] for r in rows)

    def _file_chosen(self) -> None:
        """Select the instances of the chosen file's module."""
        module = self.views.source.file.rpartition("/")[2].removesuffix(".sv")
        self._select(r["node"] for r in self.views.tree.select_where("module", [module]))

    def _select(self, nodes: Any) -> None:
        self._following = True
        self._session.select(dict.fromkeys(nodes))
        self._following = False
