"""What stands beside the modules of a design: text, report, mismatches, lint, host, handshakes, and area."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSplitter, QStackedWidget, QTabBar, QVBoxLayout, QWidget

from espalier.app.canvas.colouring import MEASURED
from espalier.app.features.hardware.fitting import FittedTable
from espalier.app.features.hardware.front import FrontView
from espalier.app.features.hardware.source import SourceView, module_of
from espalier.app.features.hardware.state.kept import Made
from espalier.app.features.hardware.tree import ModuleTree
from espalier.app.features.hardware.waves import WavesView
from espalier.app.features.hardware.words import host_rows, lint_rows, mismatch_rows
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.forms.flow import Flow
from espalier.app.widgets.heading import empty_state, link
from espalier.app.widgets.table import Table

if TYPE_CHECKING:
    from espalier.app.features.hardware.state.hardware import Hardware
    from espalier.app.session.session import Session

TABS = ("Source", "Table", "Mismatches", "Lint", "Host", "Handshakes", "Area")
SOURCE, TABLE, MISMATCHES, LINT, HOST, WAVES, FRONT = range(7)
# Columns that colour the graph: the most of a node's instances, or their sum.
MODULES = {name: MEASURED[name] for name in ("cycles", "busy", "lut", "dsp", "bram")}
SUMMED = ("lut", "dsp", "bram")
COLOUR = "Colour by …"
NOT_MADE = "Nothing has been written yet."
NOT_RUN = "Not simulated yet."
ALIKE = "Every beat of every stream is as the integer model has it."
CLEAN = "Lint has no findings."
NO_LINT = "No tool that lints is here: pip install espalier[rtl], or apt install verilator."
NO_TEXT = "The top module is not kept with the project. Check writes it again."


class Views(QWidget):
    """The tree at the left, tabs at the right. `colour`: a column that the graph is to be coloured by.

    `save_wanted`: a table (or None: the chart) is to be saved.
    """

    colour = Signal(str)
    save_wanted = Signal(object)

    def __init__(self, session: Session, held: Hardware) -> None:
        super().__init__()
        self.tree, self.source = ModuleTree(), SourceView(held.copies)
        self.table, self.mismatches, self.lint, self.host = (FittedTable() for _ in range(4))
        self.waves, self.front = WavesView(), FrontView(session, held)
        self.tables = {TABLE: self.table, MISMATCHES: self.mismatches, LINT: self.lint, HOST: self.host}
        self.tabs, self._pages = QTabBar(), QStackedWidget()
        self._words = empty_state(NOT_MADE)
        self._held, self._made = held, held.made
        self.colours = Choice((None, *MODULES), (COLOUR, *(f"by {title}" for title, _ in MODULES.values())))
        self._tools = (
            link("Show node", self._want_node), link("Copy", lambda: self._now().copy()),
            link("Save as CSV…", lambda: self.save_wanted.emit(self._now())),
        )  # fmt: skip
        self._build()
        self.tabs.currentChanged.connect(lambda _: self._show_tab())
        self.colours.edited.connect(lambda: self.colour.emit(self.colours.get() or "kind"))
        self.lint.selectionModel().currentRowChanged.connect(lambda now, _: self._go_to_finding(now.row()))
        self.front.save_wanted.connect(lambda: self.save_wanted.emit(None))

    def _build(self) -> None:
        for title in TABS:
            self.tabs.addTab(title)
        self.tabs.setAccessibleName("View of the hardware")
        self.tabs.setExpanding(False)
        self.tabs.setUsesScrollButtons(True)
        self.tabs.setElideMode(Qt.TextElideMode.ElideNone)
        self.colours.setAccessibleName("Colour the graph by")
        whole = QVBoxLayout(self)  # from the outside in: what comes into another takes its style anew
        whole.setContentsMargins(0, 0, 0, 0)
        split, right = QSplitter(Qt.Orientation.Horizontal), QWidget()
        whole.addWidget(split)
        split.setHandleWidth(1)
        for part in (self.tree, right):
            split.addWidget(part)
        bar = Flow(spacing=6)  # what does not fit goes on below
        bar.setContentsMargins(4, 0, 12, 2)
        for part in (self.tabs, *self._tools):
            bar.addWidget(part)
        box = QVBoxLayout(right)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self._pages, 1)
        for page in (self.source, *self.tables.values(), self.waves, self.front, self._words):
            self._pages.addWidget(page)
        split.setStretchFactor(0, 2)
        split.setStretchFactor(1, 3)
        split.setSizes([400, 660])

    def show_design(self, made: Made | None) -> None:
        """Show what a run gave; what is wrong comes to the front."""
        self._made = made
        wrong, found = (mismatch_rows(made), lint_rows(made)) if made else ([], [])
        self.tree.show_design(made.name, made.rows, texts_of(made)) if made else self.tree.clear()
        marks: dict[str, dict[int, str]] = {}
        for row in found:
            marks.setdefault(row["file"], {})[row["line"]] = row["finding"]
        self.source.show_files(made.sources if made else {}, marks)
        self.table.show_rows(made.rows if made else ())
        self.mismatches.show_rows(wrong)
        self.lint.show_rows(found)
        self.host.show_rows(host_rows(made) if made else ())
        self.waves.show_folder(self._held.waves, bool(made and "simulator" in made.summary))
        for at, rows in ((MISMATCHES, wrong), (LINT, found)):
            self.tabs.setTabText(at, f"{TABS[at]} {len(rows)}" if rows else TABS[at])
        if wrong and made and made.graph is not None and made.verb == "simulate":
            self.tabs.setCurrentIndex(MISMATCHES)
        self._show_tab()

    def _now(self) -> Table:
        return self.tables.get(self.tabs.currentIndex(), self.table)

    def _want_node(self) -> None:
        self._now().want_node()

    def _show_tab(self) -> None:
        at = self.tabs.currentIndex()
        empty = self._empty(at)
        inside = self.focusWidget()
        if inside and self._pages.isAncestorOf(inside):  # a table that gets the focus by itself would choose a node
            self.tabs.setFocus()
        self._words.setText(empty)
        self._pages.setCurrentIndex(len(TABS) if empty else at)
        for tool in self._tools:
            tool.setVisible(at in self.tables and not empty)
        self._tools[0].setVisible(at in (TABLE, MISMATCHES, HOST) and not empty)

    def _empty(self, at: int) -> str:
        """What is said in the place of a tab that has nothing."""
        made = self._made
        if at == FRONT:
            return ""
        if made is None:
            return NOT_MADE
        if at == SOURCE and not made.sources:
            return NO_TEXT
        if at == MISMATCHES and not self.mismatches.rows.shown:
            return ALIKE if "simulator" in made.summary else NOT_RUN
        if at == LINT and not self.lint.rows.shown:
            return CLEAN if made.summary["lint"]["tools"] else NO_LINT
        return ""

    def select_nodes(self, nodes: tuple[str, ...]) -> None:
        """Mark what belongs to these nodes in every table and in the handshakes."""
        for table in self.tables.values():
            table.mark_nodes(nodes)
        self.waves.select_nodes(nodes)

    def _go_to_finding(self, at: int) -> None:
        if 0 <= at < len(self.lint.rows.shown):
            row = self.lint.rows.shown[at]
            self.tabs.setCurrentIndex(SOURCE)
            self.source.go_to(row["file"], row["line"])


def texts_of(made: Made) -> dict[str, str]:
    """Module → its text, without the top's, whose instances the report tells."""
    return {module_of(f): text for f, text in made.sources.items() if f.startswith("rtl/")}
