"""Tabs of the panel Hardware: source, report, mismatches, lint, host, handshakes, and area."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QStackedWidget, QTabBar, QVBoxLayout, QWidget

from espalier.app.features.hardware.elided_table import ElidedTable
from espalier.app.features.hardware.front import FrontView
from espalier.app.features.hardware.run_text import host_rows, lint_rows, mismatch_rows
from espalier.app.features.hardware.source import SourceView, module_of
from espalier.app.features.hardware.state.overlays import MODULES
from espalier.app.features.hardware.state.project_tables import RunResult
from espalier.app.features.hardware.tree import ModuleTree
from espalier.app.features.hardware.waves import WavesView
from espalier.app.translation import tr, translated
from espalier.app.widgets.adaptive_splitter import AdaptiveSplitter
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import empty_state, link
from espalier.app.widgets.table import Table

if TYPE_CHECKING:
    from espalier.app.features.hardware.state.hardware import Hardware
    from espalier.app.session.session import Session

WIDE = 900  # pixels from which the tree of modules is beside the tabs
TABS = translated(("Source", "Table", "Mismatches", "Lint", "Host", "Handshakes", "Area"))
SOURCE, TABLE, MISMATCHES, LINT, HOST, WAVES, FRONT = range(7)
COLOUR = tr("Colour by …")
NOT_MADE = tr("Nothing has been written yet.")
NOT_RUN = tr("Not simulated yet.")
ALIKE = tr("Every beat of every stream equals the integer model.")
CLEAN = tr("Lint has no findings.")
NO_LINT = tr("No lint tool is installed: pip install espalier[rtl], or apt install verilator.")
NO_TEXT = tr("The top module is not stored in the project. Check writes it again.")


class Views(QWidget):
    """Module tree and tabs. Emits `colour` with the column to colour the graph by.

    Emits `save_wanted` with a table to save (None: the chart).
    """

    colour = Signal(str)
    save_wanted = Signal(object)

    def __init__(self, session: Session, hardware: Hardware) -> None:
        super().__init__()
        self.tree, self.source = ModuleTree(), SourceView(hardware.copies)
        self.table, self.mismatches, self.lint, self.host = (ElidedTable() for _ in range(4))
        self.waves, self.front = WavesView(), FrontView(session, hardware)
        self.tables = {TABLE: self.table, MISMATCHES: self.mismatches, LINT: self.lint, HOST: self.host}
        for tab, table in self.tables.items():
            table.setAccessibleName(TABS[tab])
        self.tabs, self._pages = QTabBar(), QStackedWidget()
        self._words = empty_state(NOT_MADE)
        self._hardware, self._result = hardware, hardware.result
        self.colours = Choice((None, *MODULES), (COLOUR, *(tr("by {}", title) for title, _ in MODULES.values())))
        self._tools = (
            link(tr("Show node"), self._want_node), link(tr("Copy"), lambda: self._now().copy()),
            link(tr("Save as CSV…"), lambda: self.save_wanted.emit(self._now())),
        )  # fmt: skip
        self._build()
        self.tabs.currentChanged.connect(lambda _: self._show_tab())
        self.colours.edited.connect(lambda: self.colour.emit(self.colours.get() or "kind"))
        self.lint.selectionModel().currentRowChanged.connect(lambda now, _: self._go_to_finding(now.row()))
        self.front.save_wanted.connect(lambda: self.save_wanted.emit(None))

    def _build(self) -> None:
        for title in TABS:
            self.tabs.addTab(title)
        self.tabs.setAccessibleName(tr("View of the hardware"))
        self.tabs.setExpanding(False)
        self.tabs.setUsesScrollButtons(True)
        self.tabs.setElideMode(Qt.TextElideMode.ElideNone)
        self.colours.setAccessibleName(tr("Colour the graph by"))
        whole = QVBoxLayout(self)  # outermost first: a reparented widget is styled again
        whole.setContentsMargins(0, 0, 0, 0)
        split, right = AdaptiveSplitter(WIDE, (2, 3)), QWidget()
        whole.addWidget(split)
        split.add(self.tree, right)
        bar = FlowLayout(spacing=6)  # wraps
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

    def show_design(self, result: RunResult | None) -> None:
        """Show a result; mismatches are brought to the front."""
        self._result = result
        mismatches, findings = (mismatch_rows(result), lint_rows(result)) if result else ([], [])
        self.tree.show_design(result.name, result.rows, texts_of(result)) if result else self.tree.clear()
        marks: dict[str, dict[int, str]] = {}
        for row in findings:
            marks.setdefault(row["file"], {})[row["line"]] = row["finding"]
        self.source.show_files(result.sources if result else {}, marks)
        self.table.show_rows(result.rows if result else ())
        self.mismatches.show_rows(mismatches)
        self.lint.show_rows(findings)
        self.host.show_rows(host_rows(result) if result else ())
        self.waves.show_folder(self._hardware.waves, bool(result and "simulator" in result.summary))
        for at, rows in ((MISMATCHES, mismatches), (LINT, findings)):
            self.tabs.setTabText(at, f"{TABS[at]} {len(rows)}" if rows else TABS[at])
        if mismatches and result and result.graph is not None and result.verb == "simulate":
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
        if inside and self._pages.isAncestorOf(inside):  # focus moving on to a table would select a node
            self.tabs.setFocus()
        self._words.setText(empty)
        self._pages.setCurrentIndex(len(TABS) if empty else at)
        for tool in self._tools:
            tool.setVisible(at in self.tables and not empty)
        self._tools[0].setVisible(at in (TABLE, MISMATCHES, HOST) and not empty)

    def _empty(self, at: int) -> str:
        """Text shown instead of an empty tab."""
        result = self._result
        if at == FRONT:
            return ""
        if result is None:
            return NOT_MADE
        if at == SOURCE and not result.sources:
            return NO_TEXT
        if at == MISMATCHES and not self.mismatches.rows.shown:
            return ALIKE if "simulator" in result.summary else NOT_RUN
        if at == LINT and not self.lint.rows.shown:
            return CLEAN if result.summary["lint"]["tools"] else NO_LINT
        return ""

    def select_nodes(self, nodes: tuple[str, ...]) -> None:
        """Mark the rows of these nodes in all tables and in the handshakes."""
        for table in self.tables.values():
            table.mark_nodes(nodes)
        self.waves.select_nodes(nodes)

    def _go_to_finding(self, at: int) -> None:
        if 0 <= at < len(self.lint.rows.shown):
            row = self.lint.rows.shown[at]
            self.tabs.setCurrentIndex(SOURCE)
            self.source.go_to(row["file"], row["line"])


def texts_of(result: RunResult) -> dict[str, str]:
    """Module → text, without the top module, whose instances come from the report."""
    return {module_of(f): text for f, text in result.sources.items() if f.startswith("rtl/")}
