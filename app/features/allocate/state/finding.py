"""What a cost has to know before it can be a budget, such as the times of layers: found in the worker when asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from espalier.model.errors import EspalierError, JobError
from espalier.passes.costs.base import cost
from espalier.passes.costs.measured import finding
from espalier.passes.jobs.kinds import TERMINAL, JobEvent, JobInfo

if TYPE_CHECKING:
    from espalier.app.features.allocate.state.allocation import Allocations
    from espalier.app.session.session import Session


class Finding(QObject):
    """One at a time; `changed` tells of its start and its end, `words` how it stands."""

    changed = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._job: JobInfo | None = None
        self._for: Allocations | None = None
        self.words = ""
        session.job_event.connect(self._hear)

    def can(self, held: Allocations) -> bool:
        """Whether what stands in the way can be found."""
        return bool(held.error) and bool(cost(held.figure).finder) and self._job is None

    def begin(self, held: Allocations) -> None:
        """Ask the worker; what is wrong is told."""
        ground, finder = held.ground, cost(held.figure).finder
        if ground is None or not finder or self._job is not None:
            return
        data = self._session.measured_on
        formats = tuple(c.format for r in held.known.table for c in r.candidates if c.format is not None)
        self._for, self.words = held, f"Measuring: {cost(held.figure).title.lower()} …"
        try:
            self._job = self._session.analyse(
                cost(held.figure).title, finding(finder, data, formats), lambda _: None, ground.graph, self._failed
            )
        except EspalierError as error:
            self._session.problem.emit(error)
        held.error = ""
        self.changed.emit()

    def _failed(self, error: JobError) -> None:
        self._session.problem.emit(error)

    def _hear(self, heard: JobEvent) -> None:
        if heard.job is self._job and isinstance(heard.event, TERMINAL):
            self._job, self.words = None, ""
            if self._for is not None:
                self._for.recount()
            self.changed.emit()
