"""Measures in the worker what a cost depends on, such as layer latencies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from espalier.app.translation import tr
from espalier.model.errors import EspalierError, JobError
from espalier.passes.costs.base import cost
from espalier.passes.costs.measured import finding
from espalier.passes.jobs.kinds import TERMINAL, JobEvent, JobInfo

if TYPE_CHECKING:
    from espalier.app.features.allocate.state.allocation import Allocations
    from espalier.app.session.session import Session


class CostInputs(QObject):
    """Runs one measurement at a time. Emits `changed` at its start and end; `words` is the status text."""

    changed = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._job: JobInfo | None = None
        self._for: Allocations | None = None
        self.words = ""
        session.job_event.connect(self._on_event)

    def can(self, allocations: Allocations) -> bool:
        """Whether the missing inputs of the cost can be measured now."""
        return bool(allocations.error) and bool(cost(allocations.figure).finder) and self._job is None

    def begin(self, allocations: Allocations) -> None:
        """Start the measurement; errors are shown."""
        base, finder = allocations.base, cost(allocations.figure).finder
        if base is None or not finder or self._job is not None:
            return
        data = self._session.measured_on
        formats = tuple(c.format for r in allocations.sensitivities.table for c in r.candidates if c.format is not None)
        self._for, self.words = allocations, tr("Measuring: {} …", tr(cost(allocations.figure).title).lower())
        try:
            self._job = self._session.analyse(
                tr(cost(allocations.figure).title),
                finding(finder, data, formats),
                lambda _: None,
                base.graph,
                self._failed,
            )
        except EspalierError as error:
            self._session.problem.emit(error)
        allocations.error = ""
        self.changed.emit()

    def _failed(self, error: JobError) -> None:
        self._session.problem.emit(error)

    def _on_event(self, job_event: JobEvent) -> None:
        if job_event.job is self._job and isinstance(job_event.event, TERMINAL):
            self._job, self.words = None, ""
            if self._for is not None:
                self._for.recount()
            self.changed.emit()
