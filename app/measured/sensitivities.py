"""Sensitivities of the open document: computed by the worker row by row, stored in the project."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from PySide6.QtCore import QObject, QTimer, Signal

from espalier.app.jobs.queue import Rest
from espalier.app.words import plural
from espalier.model.borders import parse_json, tried
from espalier.model.document.codec import decode, encode, hints
from espalier.model.document.recipe import Step
from espalier.model.errors import EspalierError, JobError, OptionsError
from espalier.model.graph.graph import Graph
from espalier.model.registry import PASSES
from espalier.passes.analysis.divergence import Cell, DivergenceOptions, Truth
from espalier.passes.analysis.sensitivity import UNFINISHED
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import TERMINAL, Event, Found, JobEvent, JobInfo
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.sensitivity.combined import Wholes, correction_of
from espalier.passes.sensitivity.table import Candidate, Predictions, Sensitivity

if TYPE_CHECKING:
    from espalier.app.session.session import Session

PASS = "sensitivity"
MEMBER = "sensitivity.json"  # of the project file
VERSION = 1
FEW = 5  # minimum of measured cells for an error estimate
PAUSE = 120  # milliseconds between two updates while rows stream in
NO_DATA = "This needs data: set a file, a folder, hub:NAME or demo:NAME."


@dataclass(slots=True)
class SensitivityRun:
    """Result of one run; `foundation`: fingerprint of the weights."""

    foundation: str
    options: Any
    rows: dict[tuple[str, str], Sensitivity] = field(default_factory=dict)  # type: ignore[assignment]
    summary: Mapping[str, Any] = field(default_factory=dict)  # type: ignore[assignment]

    def to_json(self) -> dict[str, Any]:
        """JSON data for the project."""
        return {"version": VERSION, "foundation": self.foundation, "options": encode(self.options),
                "rows": encode(tuple(self.rows.values())), "summary": dict(self.summary)}  # fmt: skip

    @staticmethod
    def from_json(data: dict[str, Any]) -> SensitivityRun:
        """Inverse of `to_json`; raises OptionsError for another version."""
        if data.get("version") != VERSION:
            raise OptionsError(f"The sensitivities are of version {data.get('version')}.", "Run them again.")
        options = decode(PASSES.get(PASS).options, data["options"], "options")
        rows = decode(tuple[Sensitivity, ...], data["rows"], "rows")
        return SensitivityRun(
            str(data["foundation"]), options, {(r.node, r.port): r for r in rows}, dict(data["summary"])
        )


def sensitivities_of(session: Session) -> Sensitivities:
    """The session's Sensitivities, created once."""
    return session.findChild(Sensitivities) or Sensitivities(session)


class Sensitivities(QObject):
    """Emits `changed` at new rows, start, end or error of a run, and when the model's weights change."""

    changed = Signal()
    stored = Signal()  # the project was modified

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._result: SensitivityRun | None = None
        self._next: SensitivityRun | None = None  # filled by the running job
        self.job: JobInfo | None = None
        self.cell_job: JobInfo | None = None  # job that measures single cells
        self.refining = False  # rows are predicted, measurements are correcting them
        self.error, self._old = cast("EspalierError | None", None), False
        self._fingerprint: tuple[Graph, str] | None = None
        self._table: tuple[Sensitivity, ...] | None = None  # sorted rows, until one changes
        self._wholes: tuple[tuple[Sensitivity, ...], Wholes] | None = None
        self.changed.connect(self._drop_table)
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._wait.timeout.connect(self.changed)
        session.opened.connect(self._read)
        session.changed.connect(lambda _: self._check_stale())
        session.job_event.connect(self._on_event)
        session.queued.connect(self._yield_to_jobs)
        self._read()

    # -- results

    @property
    def table(self) -> tuple[Sensitivity, ...]:
        """All rows in the model's order; during a run those computed so far."""
        run = self._next if self._next and self._next.rows else self._result
        document = self._session.document
        if run is None or document is None:
            return ()
        if self._table is None:
            order = {name: i for i, name in enumerate(document.graph.nodes)}
            self._table = tuple(sorted(run.rows.values(), key=lambda r: order.get(r.node, len(order))))
        return self._table

    @property
    def wholes(self) -> Wholes:
        """Predictor of whole configurations, with the run's correction."""
        if self._wholes is None or self._wholes[0] is not self.table:
            self._wholes = self.table, Wholes(self.table, correction_of(self.summary))
        return self._wholes[1]

    def _drop_table(self) -> None:
        self._table = None

    def _check_stale(self) -> None:
        """Emit `changed` if an edit or undo changes whether the rows are stale."""
        if self._result and self.stale != self._old:
            self._old = self.stale
            self.changed.emit()

    @property
    def options(self) -> Any:
        """Options of the last run, or None."""
        run = self._next or self._result
        return run.options if run else None

    @property
    def summary(self) -> Mapping[str, Any]:
        """Summary of the run."""
        run = self._next if self._next and self._next.summary else self._result
        return run.summary if run else {}

    @property
    def evidence(self) -> Path | None:
        """File of the gradient statistics that predict any format; None if missing."""
        place = self.summary.get("evidence")
        path = Path(str(place)) if place else None
        return path if path and path.is_file() else None

    @property
    def left_out_factor(self) -> float:
        """Error factor on measurements left out of the correction, as reported by the run; else 0."""
        factor = self.summary.get("error_factor")
        return float(factor) if isinstance(factor, int | float) and math.isfinite(factor) else 0.0

    @property
    def error_factor(self) -> float:
        """Median factor between predictions and measurements; 0 if unknown."""
        if self.left_out_factor:
            return self.left_out_factor
        pairs = ((p, m) for r in self.table for p, m in zip(r.predicted, r.measured, strict=True) if m is not None)
        factors = sorted(math.exp(abs(math.log(m / p))) for p, m in pairs if 0 < p < math.inf and 0 < m < math.inf)
        return factors[len(factors) // 2] if len(factors) >= FEW else 0.0

    @property
    def running(self) -> bool:
        """Whether a run is queued or running."""
        return self.job is not None

    @property
    def uncorrected(self) -> bool:
        """Whether the rows are predictions not yet corrected by measurements."""
        return bool(self.summary) and "correction" not in self.summary

    @property
    def measuring(self) -> bool:
        """Whether single cells are being measured."""
        return self.cell_job is not None

    @property
    def stale(self) -> bool:
        """Whether the model's weights have changed since the run."""
        document = self._session.document
        return bool(self._result and document and self._result.foundation != self._foundation(document.graph))

    @property
    def status(self) -> str:
        """Status text: error, progress or staleness; empty if the rows are current."""
        if self.error:
            return f"{self.error.message} {self.error.hint}"
        if self.refining:
            return "first predictions: measurements correct them"
        if self.uncorrected and not self.running and not self.measuring and not self.stale:
            return "first predictions: no measurement has corrected them"
        if self.running:
            return "computing"
        if self._result is None:
            return "not measured yet"
        activity = "measuring cells" if self.measuring else ""
        return "of the model before its weights changed: run again" if self.stale else activity

    def _foundation(self, graph: Graph) -> str:
        """Fingerprint of the weights, independent of formats and masks."""
        if self._fingerprint is None or self._fingerprint[0] is not graph:
            self._fingerprint = graph, foundation(graph)
        return self._fingerprint[1]

    # -- running

    def default_options(self) -> Any:
        """Options of the last run, else the data of the score."""
        if self.options is not None:
            return self.options
        kind, measured = PASSES.get(PASS).options, self._session.measured_on
        # Includes the split: searches use gradients of the same samples, cached once.
        values = {n: getattr(measured, n) for n in ("data", "split", "text", "label", "tokenizer", "max_length")
                 if n in hints(kind)}  # fmt: skip
        return kind(**values)

    def run(self, options: Any = None) -> None:
        """Start a run and stop a previous one; raises OptionsError without data."""
        document, options_ = self._session.open_document, options or self.default_options()
        if not options_.data:
            raise OptionsError("Sensitivities need data.", NO_DATA)
        self.stop()
        self.error = None
        self._next = SensitivityRun(self._foundation(document.graph), options_)
        self.job = self._session.analyse("Sensitivity", Step(PASS, options_), self._done, failed=self._failed)
        self.changed.emit()

    def measure(self, cells: Sequence[tuple[Sensitivity, Candidate]]) -> None:
        """Measure candidates one at a time in the background; raises OptionsError if there are none."""
        if not cells or self._result is None:
            raise OptionsError("No cell is selected.", "Click one in the heat map; Shift and Ctrl add more.")
        options = self._result.options
        values = {n: getattr(options, n) for n in hints(EvaluateOptions) if hasattr(options, n)}
        options_ = DivergenceOptions(**values, cells=tuple(Cell(row.node, row.port, c) for row, c in cells))
        self.error = None
        title = f"Measure {plural(len(cells), 'cell')}"
        self.cell_job = self._session.analyse(title, Step("divergence", options_), lambda _: None, failed=self._failed)
        self.changed.emit()

    def stop(self) -> None:
        """Cancel a run (its rows are dropped) and a measurement (its results are kept)."""
        for job in (self.job, self.cell_job):
            if job:
                self._session.cancel(job.id)

    def _yield_to_jobs(self) -> None:
        run = self.job  # yields to queued jobs and continues with its partial results
        if run and run.state == "running" and any(j.state == "waiting" for j in self._session.jobs if j is not run):
            self._session.give_way(run.id, lambda r: Rest(run.job) if r.summary.get(UNFINISHED) else None)

    def _done(self, report: Report) -> None:
        if self._next and not report.summary.get(UNFINISHED):
            self._result = replace(self._next, summary=dict(report.summary))
            self._next = self._table = None
            self._store()

    def _store(self) -> None:
        """Write the result into the project."""
        if self._result and (document := self._session.document):
            document.keep(MEMBER, json.dumps(self._result.to_json(), separators=(",", ":")).encode())
            self.stored.emit()

    def _failed(self, error: JobError) -> None:
        self.error = error

    def _on_event(self, job_event: JobEvent) -> None:
        event, cell_job = job_event.event, self.cell_job
        if cell_job is not None and job_event.job.id == cell_job.id:
            self._on_cell_event(event)
        if self.job is None or job_event.job.id != self.job.id:
            return
        if isinstance(event, Found) and isinstance(event.part, Sensitivity) and self._next:
            self._next.rows[event.part.node, event.part.port] = event.part
            self._notify_soon()
        elif isinstance(event, Found) and isinstance(event.part, Predictions) and self._next:
            self._next.summary, self.refining = {"evidence": event.part.evidence}, True
            self._wait.stop()
            self.changed.emit()
        elif isinstance(event, TERMINAL):
            if self.refining and self._next:  # cancelled or failed: keep the first predictions
                self._result = self._next
                self._store()
            self.job = self._next = None
            self.refining = False
            self._wait.stop()
            self.changed.emit()

    def _on_cell_event(self, event: Event) -> None:
        """Store the measurement of a cell."""
        if isinstance(event, Found) and isinstance(event.part, Truth) and self._result:
            cell = event.part.cell
            row = self._result.rows.get((cell.node, cell.port))
            if row is not None:
                self._result.rows[cell.node, cell.port] = with_measured(row, cell.candidate, event.part.kl)
                self._notify_soon()
        elif isinstance(event, TERMINAL):
            self.cell_job = None
            self._wait.stop()
            self._store()
            self.changed.emit()

    def _notify_soon(self) -> None:
        self._table = None
        if not self._wait.isActive():
            self._wait.start()

    def _read(self) -> None:
        """Read the sensitivities stored in another document."""
        self._wait.stop()
        self._result = self._next = self.job = self.cell_job = self.error = self._fingerprint = self._table = None
        self.refining = self._old = False
        document = self._session.document
        raw = document.project.extras.get(MEMBER) if document else None
        if raw is not None:
            self._result = tried(lambda: SensitivityRun.from_json(parse_json(raw)), None)
            if self._result is None:
                self.error = OptionsError("The sensitivities in the project cannot be read.", "Run them again.")
        self.changed.emit()


def with_measured(row: Sensitivity, candidate: Candidate, kl: float) -> Sensitivity:
    """The row with a candidate's measured divergence."""
    pairs = zip(row.candidates, row.measured, strict=True)
    return replace(row, measured=tuple(kl if c == candidate else m for c, m in pairs))


def foundation(graph: Graph) -> str:
    """Fingerprint of a graph's weights, independent of formats and their scales, masks, and the decomposition of
    attention."""
    scales = {c.scale for n in graph if n.precision for c in n.precision.values()}
    digest = hashlib.blake2b(digest_size=16)
    for name, weight in sorted(graph.weights.items()):
        if name in scales:
            continue
        digest.update(f"{name} {weight.key} {weight.shape}\n".encode())
    return digest.hexdigest()
