"""What the rows of a comparison cost alone: measured by a job, row by row, and kept for the last pairs of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from espalier.app.figures.difference import RowCosts, StateComparison
from espalier.app.translation import tr
from espalier.model.document.project import keys_of
from espalier.model.document.recipe import Step
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.passes.analysis.change_divergence import ChangeDivergenceOptions, RowDivergence
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import TERMINAL, AnalyseJob, JobEvent, PartialResult
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session

MAX_PAIRS = 3


@dataclass(slots=True)
class _Pair:
    """The rows measured of two graphs on some data; `total`: n, what and together, once all are."""

    a: Graph
    b: Graph
    data: EvaluateOptions
    rows: dict[int, RowDivergence] = field(default_factory=dict[int, RowDivergence])
    total: Report | None = None


class ChangeCosts(QObject):
    """`changed`: a row was measured, or a job has begun or ended."""

    changed = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._pairs: list[_Pair] = []
        self._running: tuple[int, _Pair] | None = None  # number of the job
        session.job_event.connect(self._job_event)
        session.opened.connect(self._forget)

    @property
    def busy(self) -> bool:
        """Whether rows are being measured."""
        return self._running is not None

    def of(self, comparison: StateComparison) -> RowCosts | None:
        """What is measured of a comparison on the data in use; None where nothing is."""
        pair = self._pair(comparison)
        if pair is None or not (pair.rows or (self._running is not None and self._running[1] is pair)):
            return None
        if pair.total is None:
            return RowCosts(dict(pair.rows))
        figures = pair.total.summary
        return RowCosts(dict(pair.rows), figures["n"], figures["what"], figures["together"])

    def is_complete(self, comparison: StateComparison) -> bool:
        """Whether all rows are measured."""
        return (pair := self._pair(comparison)) is not None and pair.total is not None

    def _pair(self, comparison: StateComparison) -> _Pair | None:
        data = self._session.measured_on
        return next((p for p in self._pairs if p.a is comparison.a and p.b is comparison.b and p.data == data), None)

    def ask(self, comparison: StateComparison, stores: Sequence[WeightStore]) -> None:
        """Measure all rows on the data in use, after stopping what is measured now. `stores`: of A and of B."""
        self.stop()
        document, data = self._session.open_document, self._session.measured_on
        pair = self._pair(comparison)
        if pair is None:
            self._pairs = [*self._pairs[-MAX_PAIRS + 1 :], pair := _Pair(comparison.a, comparison.b, data)]
        keys = keys_of(comparison.a, comparison.b)
        locations = {k: place for store in stores for k, place in store.locate(keys).items()}
        options = ChangeDivergenceOptions(**_plain(data), baseline=comparison.name_a)
        step = Step("change_divergence", options)
        job = AnalyseJob(comparison.b, step, locations, document.store.folder, document.project.source, comparison.a)
        title = tr("Divergence by change: {} against {}", comparison.name_b, comparison.name_a)
        info = self._session.submit(title, job, lambda report: self._done(pair, report))
        self._running = info.id, pair
        self.changed.emit()

    def stop(self) -> None:
        """Stop measuring; measured rows stay."""
        if self._running is not None:
            self._session.cancel(self._running[0])

    def _done(self, pair: _Pair, report: Report) -> None:
        pair.total = report

    def _job_event(self, event: JobEvent) -> None:
        if self._running is None or event.job.id != self._running[0]:
            return
        match event.event:
            case PartialResult(part=RowDivergence() as row):
                self._running[1].rows[row.index] = row
                self.changed.emit()
            case ended if isinstance(ended, TERMINAL):
                self._running = None
                self.changed.emit()
            case _:
                pass

    def _forget(self) -> None:
        self._pairs, self._running = [], None


def _plain(data: EvaluateOptions) -> dict[str, Any]:
    return {n: v for n, v in asdict(data).items() if n in EvaluateOptions.__dataclass_fields__}
