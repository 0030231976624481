"""The reports of the open document: they follow the session from its beginning, whether or not the panel exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.passes.base import Report


def document_reports_of(session: Session) -> DocumentReports:
    """The session's DocumentReports, created once."""
    return session.findChild(DocumentReports) or DocumentReports(session)


class DocumentReports(QObject):
    """Keeps all reports until the document closes.

    After `expect` it takes the report of a step once the step has run; `step_shown` then carries the pass. `taken`:
    a report to show; `outdated`: the reports are of an earlier state; `cleared`: another document is open.
    """

    taken = Signal(object)
    step_shown = Signal(str)
    outdated = Signal()
    cleared = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self.reports: dict[str, Report] = {}  # by the name of their pass
        self.last: Report | None = None  # the one taken last
        self.used: dict[str, Any] = {}  # options of the last run of each report
        self.stale: set[str] = set()
        self._expected = ""
        session.report_ready.connect(self.take)
        session.changed.connect(self._on_changed)
        session.opened.connect(self._clear)

    def expect(self, name: str) -> None:
        """Take the report of the next run of this pass as a step."""
        self._expected = name

    def take(self, report: Report) -> None:
        """Take over a report."""
        self.reports[report.pass_name] = self.last = report
        self.stale.discard(report.pass_name)
        self.taken.emit(report)

    def _on_changed(self) -> None:
        self.stale |= set(self.reports)
        self.outdated.emit()
        report = next(reversed(self._session.step_reports()), None)
        if report and report.pass_name == self._expected and report.rows:
            self._expected = ""
            self.take(report)
            self.step_shown.emit(report.pass_name)

    def _clear(self) -> None:
        self.reports.clear()
        self.used.clear()
        self.stale.clear()
        self.last, self._expected = None, ""
        self.cleared.emit()
