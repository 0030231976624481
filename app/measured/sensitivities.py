"""Runs the sensitivity analysis of the open document row by row, and stores its results in the project."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QTimer, Signal

from espalier.app.jobs.queue import Rest
from espalier.app.measured.sensitivity_results import PASS, SensitivityResults, SensitivityRun
from espalier.app.number_text import plural
from espalier.app.translation import error_text, tr
from espalier.model.borders import parse_json, tried
from espalier.model.document.codec import hints
from espalier.model.document.recipe import Step
from espalier.model.errors import EspalierError, JobError, OptionsError
from espalier.model.registry import PASSES
from espalier.passes.analysis.divergence import Cell, DivergenceOptions, Truth
from espalier.passes.analysis.sensitivity import UNFINISHED
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import TERMINAL, Event, JobEvent, JobInfo, PartialResult
from espalier.passes.running.splits import WHICH, EvaluateOptions
from espalier.passes.sensitivity.table import Candidate, Predictions, Sensitivity

if TYPE_CHECKING:
    from espalier.app.session.session import Session

MEMBER = "sensitivity.json"  # of the project file
PAUSE = 120  # milliseconds between two updates while rows stream in
NO_DATA = tr("This needs data: set a file, a folder, hub:NAME or demo:NAME.")


def sensitivities_of(session: Session) -> Sensitivities:
    """The session's Sensitivities, created once."""
    return session.findChild(Sensitivities) or Sensitivities(session)


class Sensitivities(SensitivityResults):
    """Runs the analysis and measures single cells. Emits `changed` at new rows and at the start and end of a run."""

    stored = Signal()  # the project was modified

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.job: JobInfo | None = None
        self.cell_job: JobInfo | None = None  # measures single cells
        self.refining = False  # whether measurements are correcting the predicted rows
        self.error: EspalierError | None = None
        self._update_timer = QTimer(self, singleShot=True, interval=PAUSE)
        self._update_timer.timeout.connect(self.changed)
        session.opened.connect(self._read)
        session.job_event.connect(self._on_event)
        session.queued.connect(self._yield_to_jobs)
        self._read()

    @property
    def running(self) -> bool:
        """Whether a run is queued or running."""
        return self.job is not None

    @property
    def measuring(self) -> bool:
        """Whether single cells are being measured."""
        return self.cell_job is not None

    @property
    def status(self) -> str:
        """Status text: error, progress or staleness; empty if the rows are current."""
        if self.error:
            return error_text(self.error)
        if self.refining:
            return tr("first predictions: measurements correct them")
        if self.uncorrected and not self.running and not self.measuring and not self.stale:
            return tr("first predictions: no measurement has corrected them")
        if self.running:
            return tr("computing")
        if self._result is None:
            return tr("not measured yet")
        activity = tr("measuring cells") if self.measuring else ""
        return tr("of the model before its weights changed: run again") if self.stale else activity

    def default_options(self) -> Any:
        """Options of the last run, else the data of the score."""
        if self.options is not None:
            return self.options
        kind, measured = PASSES.get(PASS).options, self._session.measured_on
        # Includes the split: searches use gradients of the same samples, cached once.
        values = {n: getattr(measured, n) for n in ("split", *WHICH)
                 if n in hints(kind)}  # fmt: skip
        return kind(**values)

    def run(self, options: Any = None) -> None:
        """Start a run, after stopping a previous one. Raises OptionsError without data."""
        document, options_ = self._session.open_document, options or self.default_options()
        if not options_.data:
            raise OptionsError("Sensitivities need data.", NO_DATA)
        self.stop()
        self.error = None
        self._next = SensitivityRun(self._weights_fingerprint(document.graph), options_)
        self.job = self._session.analyse(tr("Sensitivity"), Step(PASS, options_), self._done, failed=self._failed)
        self._session.repeats.note(self.job, lambda: self.run(options_), document.recipe)
        self.changed.emit()

    def measure(self, cells: Sequence[tuple[Sensitivity, Candidate]]) -> None:
        """Measure candidates one at a time in the background. Raises OptionsError if there are none."""
        if not cells or self._result is None:
            raise OptionsError("No cell is selected.", "Click one in the heat map; Shift and Ctrl add more.")
        options = self._result.options
        values = {n: getattr(options, n) for n in hints(EvaluateOptions) if hasattr(options, n)}
        options_ = DivergenceOptions(**values, cells=tuple(Cell(row.node, row.port, c) for row, c in cells))
        self.error = None
        title = tr("Measure {}", plural(len(cells), "cell"))
        self.cell_job = self._session.analyse(title, Step("divergence", options_), lambda _: None, failed=self._failed)
        self.changed.emit()

    def stop(self) -> None:
        """Cancel a run (its rows are dropped) and a measurement (its results are kept)."""
        for job in (self.job, self.cell_job):
            if job:
                self._session.cancel(job.id)

    def _yield_to_jobs(self) -> None:
        run = self.job  # yields to queued jobs and continues with its partial results
        if run and run.state == "running" and self._session.blocks(run.id):
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
        if isinstance(event, PartialResult) and isinstance(event.part, Sensitivity) and self._next:
            self._next.rows[event.part.node, event.part.port] = event.part
            self._notify_soon()
        elif isinstance(event, PartialResult) and isinstance(event.part, Predictions) and self._next:
            self._next.summary, self.refining = {"evidence": event.part.evidence}, True
            self._update_timer.stop()
            self.changed.emit()
        elif isinstance(event, TERMINAL):
            if self.refining and self._next:  # cancelled or failed: keep the first predictions
                self._result = self._next
                self._store()
            self.job = self._next = None
            self.refining = False
            self._update_timer.stop()
            self.changed.emit()

    def _on_cell_event(self, event: Event) -> None:
        """Store the measurement of a cell."""
        if isinstance(event, PartialResult) and isinstance(event.part, Truth) and self._result:
            cell = event.part.cell
            row = self._result.rows.get((cell.node, cell.port))
            if row is not None:
                self._result.rows[cell.node, cell.port] = with_measured(row, cell.candidate, event.part.kl)
                self._notify_soon()
        elif isinstance(event, TERMINAL):
            self.cell_job = None
            self._update_timer.stop()
            self._store()
            self.changed.emit()

    def _notify_soon(self) -> None:
        self._table = None
        if not self._update_timer.isActive():
            self._update_timer.start()

    def _read(self) -> None:
        """Read the sensitivities stored in another document."""
        self._update_timer.stop()
        self._result = self._next = self.job = self.cell_job = self.error = self._fingerprint = self._table = None
        self.refining = self._was_stale = False
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
