"""Reports of analyses as tables: chosen by name, filtered, sorted, copied, saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QStackedWidget, QVBoxLayout, QWidget

from app.fields import Choice
from app.panels.heading import empty_state, link
from app.panels.table import Table
from app.words import cell, column_title, plural
from model.registry import PASSES
from passes.base import PassSpec, Report

if TYPE_CHECKING:
    from app.session import Session

EMPTY = "No report yet. Choose one above: each runs in the background and appears here as a table."
HIDDEN = ("evaluate",)  # its result is the score


def reports() -> list[PassSpec]:
    """The analyses that make a table, by title."""
    specs = [spec for _, spec in PASSES.items() if spec.kind == "analysis" and spec.name not in HIDDEN]
    return sorted(specs, key=lambda s: s.title)


def summary_text(report: Report) -> str:
    """The report's figures in one line."""
    return " · ".join(f"{column_title(k)} {cell(v)}" for k, v in report.summary.items() if v not in (None, {}))


def is_number(value: object) -> bool:
    """Whether a cell can colour a node."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


class TablesPanel(QWidget):
    """One table at a time; the reports that were made stay until the graph's document closes."""

    wanted = Signal(str)
    save_wanted = Signal()
    overlay_wanted = Signal(str, dict)

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._reports: dict[str, Report] = {}
        self._stale: set[str] = set()
        self.table = Table()
        self._choice, self._filter = Choice(), QLineEdit()
        self._filter.setPlaceholderText("Filter rows")
        self._filter.setClearButtonEnabled(True)
        self._summary, self._counts = QLabel(), QLabel()
        self._summary.setProperty("role", "muted")
        self._summary.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._counts.setProperty("role", "muted")
        self._again = link("Run again", lambda: self.wanted.emit(self.current))
        self._pages = QStackedWidget()
        self._words = empty_state(EMPTY)
        self._pages.addWidget(self._words)
        self._pages.addWidget(self.table)
        self._build()
        self._filter.textChanged.connect(self._refilter)
        self._choice.edited.connect(self._pick)
        self.table.node_chosen.connect(lambda node: session.select((node,)))
        session.report_ready.connect(self.show_report)
        session.changed.connect(self._outdate)
        session.problem.connect(self._give_up)
        session.opened.connect(self.clear)
        self.clear()

    @property
    def current(self) -> str:
        """The name of the report that is chosen."""
        return self._choice.get() if self._choice.currentIndex() >= 0 else ""

    def _build(self) -> None:
        self._choice.setMinimumWidth(150)
        self._choice.setFixedHeight(25)
        self._filter.setFixedHeight(25)
        self._choice.setAccessibleName("Report")
        self._filter.setMaximumWidth(220)
        bar = QHBoxLayout()
        bar.setContentsMargins(12, 6, 12, 4)
        bar.setSpacing(8)
        for widget in (self._choice, self._filter, self._counts):
            bar.addWidget(widget)
        bar.addStretch(1)
        self._colour = link("Colour the graph", self._overlay)
        self._tools = [
            self._colour,
            self._again,
            link("Copy as TSV", self.table.copy),
            link("Save as CSV…", self.save_wanted.emit),
        ]
        for button in self._tools:
            bar.addWidget(button)
        foot = QHBoxLayout()
        foot.setContentsMargins(12, 2, 12, 4)
        foot.addWidget(self._summary, 1)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self._pages, 1)
        box.addLayout(foot)

    def clear(self) -> None:
        """Forget all reports."""
        self._reports.clear()
        self._stale.clear()
        specs = reports()
        self._choice.offer(tuple(s.name for s in specs), tuple(s.title for s in specs))
        self._choice.put(None)
        self._choice.setPlaceholderText("Choose a report")
        self._choice.setEnabled(self._session.document is not None)
        self._words.setText(EMPTY)
        self._show(None)

    def wait_for(self, name: str) -> None:
        """Say that a report is being made; what is shown of an earlier one stays."""
        self._choice.put(name)
        if name not in self._reports:
            self._words.setText(f"{self._choice.currentText()}: being made, after the jobs before it.")
            self._show(None)

    def _give_up(self) -> None:
        if self.current and self.current not in self._reports:
            self._words.setText("There is no table, because something went wrong. Problems and the log say what.")

    def show_report(self, report: Report) -> None:
        """Show a report that arrived."""
        self._reports[report.pass_name] = report
        self._stale.discard(report.pass_name)
        self._choice.put(report.pass_name)
        self._show(report)

    def _pick(self) -> None:
        held = self._reports.get(self.current)
        if held and self.current not in self._stale:
            self._show(held)
        elif self.current:
            self.wanted.emit(self.current)

    def _show(self, report: Report | None) -> None:
        rows = report.rows if report else ()
        if report and not rows and report.summary:
            rows = tuple({"figure": column_title(k), "value": v} for k, v in report.summary.items())
        self.table.show_rows(rows)
        self._pages.setCurrentIndex(1 if rows else 0)
        self._summary.setText(summary_text(report) if report and report.rows else "")
        for widget in (*self._tools, self._filter):
            widget.setVisible(bool(rows))
        by_node = any("node" in r for r in rows) and any(is_number(v) for r in rows for v in r.values())
        self._colour.setVisible(by_node and bool(rows))
        self._count()

    def _refilter(self, text: str) -> None:
        self.table.rows.set_filter(text)
        self._count()

    def _count(self) -> None:
        shown, wish = len(self.table.rows.shown), self._filter.text()
        note = " · of an earlier state" if self.current in self._stale else ""
        found = f"No row holds “{wish}”" if wish and not shown else plural(shown, "row")
        self._counts.setText(found + note if self._pages.currentIndex() else "")

    def _overlay(self) -> None:
        """Colour the nodes by the column that is sorted by, or the first with numbers."""
        rows, columns = self.table.rows.shown, self.table.rows.columns
        numbers = [c for c in columns if any(is_number(r.get(c)) for r in rows)]
        at = self.table.horizontalHeader().sortIndicatorSection()
        name = columns[at] if 0 <= at < len(columns) and columns[at] in numbers else numbers[0]
        found = {str(r["node"]): float(r[name]) for r in rows if is_number(r.get(name))}
        self.overlay_wanted.emit(column_title(name), found)

    def _outdate(self) -> None:
        self._stale |= set(self._reports)
        self._count()
