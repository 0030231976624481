"""Tables panel: reports of analyses as tables that can be filtered, sorted, copied and saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QSizePolicy, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.features.tables.state import document_reports_of
from espalier.app.number_text import column_title, plural, shown
from espalier.app.translation import message, tr
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.heading import Elided, empty_state, link
from espalier.app.widgets.table import Table
from espalier.model.registry import PASSES
from espalier.passes.base import NoOptions, PassSpec, Report
from espalier.passes.jobs.kinds import AnalyseJob, Failed, JobEvent, JobInfo, Started, Stopped

if TYPE_CHECKING:
    from espalier.app.session.session import Session

EMPTY = tr("No report yet. Choose one above: each runs in the background and appears here as a table.")
# Shown in the score, the Training panel, the Data panel and the Sensitivity panel.
HIDDEN = ("evaluate", "finetune_estimate", "data_rows", "divergence")
LOWEST_FIRST = {"quantization": "sqnr_db", "calibrate": "sqnr_db"}  # sorted by this column, worst first


LONGEST = 80  # characters of a value in the summary's line


def reports() -> list[PassSpec]:
    """The analyses that report a table, sorted by title."""
    specs = [spec for _, spec in PASSES.items() if spec.kind == "analysis" and spec.name not in HIDDEN]
    return sorted(specs, key=lambda s: s.title)


def summary_text(report: Report) -> str:
    """The summary figures of a report in one line."""
    figures = {k: v for k, v in report.summary.items() if v not in (None, [], (), {})}
    return " · ".join(f"{column_title(k)} {_brief(shown(k, v))}" for k, v in figures.items())


def _brief(text: str) -> str:
    """The beginning of a long value."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def is_number(value: object) -> bool:
    """Whether a value can colour a node: a number, not NaN."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


class TablesPanel(QWidget):
    """Shows one report at a time, the newest unless another is chosen."""

    wanted = Signal(str)
    options_wanted = Signal(str)
    save_wanted = Signal()
    overlay_wanted = Signal(str, dict)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._state = document_reports_of(session)
        self.table = Table()
        self._choice, self._filter = Choice(), QLineEdit()
        self._filter.setPlaceholderText(tr("Filter rows"))
        self._filter.setClearButtonEnabled(True)
        self._summary, self._counts = Elided("", "muted"), QLabel()
        self._summary.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._summary.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._counts.setProperty("role", "muted")
        self._rerun = link(tr("Run again"), lambda: self.wanted.emit(self.current))
        self._pages = QStackedWidget()
        self._message = empty_state(EMPTY)
        self._pages.addWidget(self._message)
        self._pages.addWidget(self.table)
        self._build()
        self._filter.textChanged.connect(self._refilter)
        self._choice.edited.connect(self._on_report_chosen)
        self.table.node_chosen.connect(lambda node: session.select((node,)))
        self.table.selectionModel().currentRowChanged.connect(lambda: self._show_node.setEnabled(bool(self.table.node)))
        self._state.taken.connect(self.show_report)
        self._state.outdated.connect(self._count)
        self._state.cleared.connect(self.clear)
        session.job_event.connect(self._on_job_event)
        session.problem.connect(self._on_problem)
        self.clear()
        if self._state.last is not None:
            self.show_report(self._state.last)

    @property
    def current(self) -> str:
        """The name of the chosen report."""
        return self._choice.get() if self._choice.currentIndex() >= 0 else ""

    def _build(self) -> None:
        self._choice.setMinimumWidth(200)
        self._choice.setFixedHeight(25)
        self._filter.setFixedHeight(25)
        self._choice.setAccessibleName(tr("Report"))
        self._filter.setMaximumWidth(220)
        bar = QHBoxLayout()
        bar.setContentsMargins(12, 6, 12, 4)
        bar.setSpacing(8)
        for widget in (self._choice, self._filter, self._counts):
            bar.addWidget(widget)
        bar.addStretch(1)
        self._colour = link(tr("Colour the graph"), self._overlay)
        self._show_node = link(tr("Show node"), self.table.want_node)
        self._options = link(tr("Options…"), lambda: self.options_wanted.emit(self.current))
        self._tools = [
            self._show_node,
            self._colour,
            self._options,
            self._rerun,
            link(tr("Copy as TSV"), self.table.copy),
            link(tr("Save as CSV…"), self.save_wanted.emit),
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
        """Show that there is no report."""
        self.offer()
        self._choice.put(None)
        self._choice.setPlaceholderText(tr("Choose a report"))
        self._choice.setEnabled(self._session.document is not None)
        self._message.setText(EMPTY)
        self._show(None)

    def offer(self) -> None:
        """List the available reports, including those of plug-ins and steps; the choice is kept."""
        steps = [s for n in self._state.reports if (s := PASSES.get(n)).kind == "transform"]
        specs, chosen = [*reports(), *steps], self.current
        self._choice.offer(
            tuple(s.name for s in specs),
            tuple(tr("Step: {}", tr(s.title)) if s in steps else tr(s.title) for s in specs),
        )
        self._choice.put(chosen if chosen in {s.name for s in specs} else None)

    def wait_for(self, name: str) -> None:
        """Show that a report is being computed; an earlier one stays visible."""
        self._choice.put(name)
        if name not in self._state.reports:
            self._show_waiting(name)
            self._show(None)

    def _show_waiting(self, name: str) -> None:
        """Show whether the job of a report is running or waiting for others."""
        running = any(j.state != "waiting" for j in self._jobs(name))
        suffix = "" if running else tr(", after the jobs queued before it")
        self._message.setText(tr("{}: being computed{}.", self._choice.currentText(), suffix))

    def _jobs(self, name: str) -> list[JobInfo]:
        """The unfinished jobs of a report."""
        return [j for j in self._session.jobs if isinstance(j.job, AnalyseJob) and j.job.step.pass_name == name]

    def _on_job_event(self, job_event: JobEvent) -> None:
        job, event = job_event.job.job, job_event.event
        if not isinstance(job, AnalyseJob) or job.step.pass_name != self.current or self.current in self._state.reports:
            return
        if isinstance(event, Started):
            self._show_waiting(self.current)
        elif isinstance(event, Failed):
            self._message.setText(tr("There is no table. {} {}", message(event.message), message(event.hint)).strip())
        elif isinstance(event, Stopped):
            self._message.setText(tr("There is no table, as the job was stopped. Choose the report again."))

    def _on_problem(self) -> None:
        """An error occurred: stop waiting for a report that has no job."""
        if self.current and self.current not in self._state.reports and not self._jobs(self.current):
            self._message.setText(tr("There is no table yet. Choose the report again."))

    def show_report(self, report: Report) -> None:
        """Show a report."""
        self.offer()
        self._choice.put(report.pass_name)
        self._show(report)

    def _on_report_chosen(self) -> None:
        report = self._state.reports.get(self.current)
        if report and (self.current not in self._state.stale or self._is_step(self.current)):
            self._show(report)
        elif self.current:
            self.wanted.emit(self.current)

    @staticmethod
    def _is_step(name: str) -> bool:
        return PASSES.get(name).kind == "transform"

    def _show(self, report: Report | None) -> None:
        rows = report.rows if report else ()
        if report and not rows and report.summary:
            rows = tuple({"figure": column_title(k), "value": v} for k, v in report.summary.items())
        self.table.show_rows(rows, LOWEST_FIRST.get(report.pass_name, "") if report else "")
        self.table.setAccessibleName(self._choice.currentText() or tr("Report"))
        self._pages.setCurrentIndex(1 if rows else 0)
        self._summary.show_text(summary_text(report) if report and report.rows else "")
        for widget in (*self._tools, self._filter):
            widget.setVisible(bool(rows))
        nodes = any("node" in r for r in rows)
        self._colour.setVisible(nodes and any(is_number(v) for r in rows for v in r.values()))
        self._show_node.setVisible(nodes)
        self._show_node.setEnabled(bool(self.table.node))
        is_analysis = report is not None and not self._is_step(report.pass_name)
        self._rerun.setVisible(is_analysis and bool(rows))
        has_options = report is not None and PASSES.get(report.pass_name).options is not NoOptions
        self._options.setVisible(is_analysis and has_options)
        self._count()

    def _refilter(self, text: str) -> None:
        self.table.rows.set_filter(text)
        self._count()

    def _count(self) -> None:
        shown, text = len(self.table.rows.shown), self._filter.text()
        note = tr(" · of an earlier state") if self.current in self._state.stale else ""
        counted = tr("No row contains “{}”", text) if text and not shown else plural(shown, "row")
        self._counts.setText(counted + note if self._pages.currentIndex() else "")

    def _overlay(self) -> None:
        """Colour the nodes by the sorted column, or by the first numeric one."""
        rows, columns = self.table.rows.shown, self.table.rows.columns
        numbers = [c for c in columns if any(is_number(r.get(c)) for r in rows)]
        at = self.table.horizontalHeader().sortIndicatorSection()
        name = columns[at] if 0 <= at < len(columns) and columns[at] in numbers else numbers[0]
        values = {str(r["node"]): float(r[name]) for r in rows if is_number(r.get(name))}
        self.overlay_wanted.emit(column_title(name), values)
