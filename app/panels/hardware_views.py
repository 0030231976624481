"""What stands beside the modules of a design: its text, the rows of the report, what differs and what lint found."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSplitter, QStackedWidget, QTabBar, QVBoxLayout, QWidget

from app.canvas.colouring import MEASURED
from app.flow import Flow
from app.hardware import Made
from app.panels.hardware_source import SourceView
from app.panels.hardware_tree import ModuleTree
from app.panels.hardware_words import lint_rows, mismatch_rows
from app.panels.heading import empty_state, link
from app.panels.table import Table

TABS = ("Source", "Table", "Mismatches", "Lint")
SOURCE, TABLE, MISMATCHES, LINT = range(4)
MODULES = {name: MEASURED[name] for name in ("cycles", "busy")}  # columns that colour the graph
NOT_MADE = "Nothing has been written yet."
NOT_RUN = "Not simulated yet."
ALIKE = "Every beat of every stream is as the integer model has it."
CLEAN = "Lint found nothing."


class Views(QWidget):
    """The tree at the left, tabs at the right. `colour`: a column that the graph is to be coloured by."""

    colour = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.tree, self.source = ModuleTree(), SourceView()
        self.table, self.mismatches, self.lint = Table(), Table(), Table()
        self.tabs, self._pages = QTabBar(), QStackedWidget()
        self._words = empty_state(NOT_MADE)
        self._made: Made | None = None
        self._build()
        self.tabs.currentChanged.connect(lambda _: self._show_tab())
        self.lint.selectionModel().currentRowChanged.connect(lambda now, _: self._go_to_finding(now.row()))

    def _build(self) -> None:
        for title in TABS:
            self.tabs.addTab(title)
        self.tabs.setAccessibleName("View of the hardware")
        for page in (self.source, self.table, self.mismatches, self.lint, self._words):
            self._pages.addWidget(page)
        bar = Flow(spacing=6)  # links go on below where the tabs take the whole width
        bar.setContentsMargins(4, 0, 12, 0)
        bar.addWidget(self.tabs)
        for column in MODULES:
            bar.addWidget(link(f"Colour by {column}", lambda c=column: self.colour.emit(c)))
        right = QWidget()
        box = QVBoxLayout(right)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self._pages, 1)
        split = QSplitter(Qt.Orientation.Horizontal)
        split.setHandleWidth(1)
        for part in (self.tree, right):
            split.addWidget(part)
        split.setStretchFactor(0, 2)
        split.setStretchFactor(1, 3)
        split.setSizes([456, 604])
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(split)

    def show_design(self, made: Made | None) -> None:
        """Show what a run gave; what is wrong comes to the front."""
        self._made = made
        self.setVisible(made is not None)
        if made is None:
            self.tree.clear()
            self.source.show_files({}, {})
            return
        self.tree.show_design(made.name, made.rows)
        marks: dict[str, dict[int, str]] = {}
        found = lint_rows(made)
        for row in found:
            marks.setdefault(row["file"], {})[row["line"]] = row["finding"]
        self.source.show_files(made.sources, marks)
        self.table.show_rows(made.rows)
        wrong = mismatch_rows(made)
        self.mismatches.show_rows(wrong)
        self.lint.show_rows(found)
        for at, rows in ((MISMATCHES, wrong), (LINT, found)):
            self.tabs.setTabText(at, f"{TABS[at]} {len(rows)}" if rows else TABS[at])
        if wrong and made.verb == "simulate":
            self.tabs.setCurrentIndex(MISMATCHES)
        self._show_tab()

    def _show_tab(self) -> None:
        at, made = self.tabs.currentIndex(), self._made
        empty = ""
        if made is None:
            empty = NOT_MADE
        elif at == MISMATCHES and not self.mismatches.rows.shown:
            empty = ALIKE if "simulator" in made.summary else NOT_RUN
        elif at == LINT and not self.lint.rows.shown:
            empty = CLEAN if made.summary["lint"]["tools"] else "No tool that lints is here."
        self._words.setText(empty)
        self._pages.setCurrentIndex(len(TABS) if empty else at)

    def _go_to_finding(self, at: int) -> None:
        if 0 <= at < len(self.lint.rows.shown):
            row = self.lint.rows.shown[at]
            self.source.show_file(row["file"])
            self.tabs.setCurrentIndex(SOURCE)
            self.source.text.go_to(row["line"])
