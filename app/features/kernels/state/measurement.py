"""State of an analysis that measures the open model: run as a job, stored in the project, marked when outdated."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from espalier.app.session.circuit_identity import circuit_fingerprint, is_same_circuit
from espalier.model.borders import parse_json, reading
from espalier.model.document.codec import decode, encode
from espalier.model.document.recipe import Step
from espalier.model.errors import EspalierError, JobError, OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import TERMINAL, JobEvent, JobInfo, PartialResult, Stopped

if TYPE_CHECKING:
    from espalier.app.session.session import Session

VERSION = 1
Row = dict[str, Any]
RENAMED = {"ratio": "speedup"}  # of compile, in older projects
# Required keys of summary and rows: a project file may be damaged or foreign.
NEEDED: dict[str, tuple[str, str]] = {
    "compile": ("speedup break_even_calls compile_seconds max_error graphs backend mode device why operations "
                "products_share", "version first seconds spread least calls speedup"),
    "profile": ("plain batch device seconds peak_bytes weights_bytes",
                "node op seconds share rounding device_seconds allocated_bytes gflop_s largest"),
    "memory": ("float_bytes file_bytes saving", "line kind elements float_bytes ideal bytes saving"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MeasurementResult:
    """Result of a run. `more`: further parts besides the rows. `graph` is None if it was read from a project; `mark`
    then identifies the model.
    """

    graph: Graph | None
    options: Any
    rows: tuple[Row, ...]
    summary: Row
    more: Row = field(default_factory=dict)  # type: ignore[assignment]
    mark: str = ""


class Measurement(QObject):
    """Runs one job at a time; emits `changed` at its start, progress and end, and at edits that outdate the result.

    Emits `result_ready` at a result and `stored` when the project is modified. `before`: result of the previous state
    of the model.
    """

    changed = Signal()
    result_ready = Signal()
    stored = Signal()

    def __init__(self, session: Session, name: str, title: str, options: type) -> None:
        super().__init__(session)
        self._session, self._name, self._title, self._options = session, name, title, options
        self.result: MeasurementResult | None = None
        self.before: MeasurementResult | None = None
        self.job: JobInfo | None = None
        self.error: EspalierError | None = None
        self.stopped = False
        self._more: Row = {}
        self._compared: tuple[Graph, Graph, bool] | None = None
        session.job_event.connect(self._on_event)
        session.opened.connect(self.read)
        session.changed.connect(lambda _: self.changed.emit())
        self.read()

    # -- results

    @property
    def stale(self) -> bool:
        """Whether the model has changed since the run."""
        result, document = self.result, self._session.document
        if result is None or document is None:
            return False
        return result.graph is None or not self._alike(document.graph, result.graph)

    def _alike(self, current: Graph, previous: Graph) -> bool:
        """Whether two graphs are the same model, parallelism aside; the last answer is cached."""
        cached = self._compared
        if cached is None or cached[0] is not current or cached[1] is not previous:
            cached = self._compared = current, previous, is_same_circuit(current, previous, parallel=False)
        return cached[2]

    @property
    def member(self) -> str:
        """Name of the project member."""
        return f"{self._name}.json"

    # -- running

    def start(self, options: Any) -> None:
        """Start a run on the present graph; raises ProjectError without a document."""
        graph = self._session.open_document.graph
        self.error, self.stopped, self._more = None, False, {}
        step = Step(self._name, options)
        self.job = self._session.analyse(
            self._title, step, lambda r: self._take(graph, options, r), graph, self._failed
        )
        self.changed.emit()

    def stop(self) -> None:
        """Stop the run."""
        if self.job:
            self._session.cancel(self.job.id)

    # -- job events

    def _take(self, graph: Graph, options: Any, report: Report) -> None:
        if self.result and not (self.result.graph and self._alike(graph, self.result.graph)):
            self.before = self.result
        self.result = MeasurementResult(graph, options, report.rows, dict(report.summary), self._more)
        self._store()
        self.result_ready.emit()

    def _failed(self, error: JobError) -> None:
        self.error = error

    def _on_event(self, job_event: JobEvent) -> None:
        if self.job is None or job_event.job.id != self.job.id:
            return
        if isinstance(job_event.event, PartialResult) and isinstance(job_event.event.part, dict):
            self._more = {**self._more, **job_event.event.part}
        if isinstance(job_event.event, TERMINAL):
            self.job, self.stopped = None, isinstance(job_event.event, Stopped)
        self.changed.emit()

    # -- the project

    def _store(self) -> None:
        """Write the result into the project."""
        document, result = self._session.document, self.result
        if document and result and result.graph:
            data = {"version": VERSION, "options": encode(result.options), "rows": list(result.rows),
                    "summary": result.summary, "more": result.more,
                    "mark": circuit_fingerprint(result.graph, parallel=False)}  # fmt: skip
            document.keep(self.member, json.dumps(data, separators=(",", ":"), default=str).encode())
            self.stored.emit()

    def read(self) -> None:
        """Read the result stored in another document."""
        self.result = self.before = self.job = self.error = None
        self.stopped = False
        document = self._session.document
        raw = document.project.extras.get(self.member) if document else None
        if document and raw is not None:
            try:
                result = from_bytes(raw, self._options, self._name)
            except OptionsError as error:
                self.error = error
            else:
                same = result.mark == circuit_fingerprint(document.graph, parallel=False)
                self.result = replace(result, graph=document.graph) if same else result
        self.changed.emit()
        self.result_ready.emit()


def measurement_of(session: Session, name: str, title: str, options: type) -> Measurement:
    """The session's Measurement of an analysis, created once."""
    existing = next((t for t in session.findChildren(Measurement) if t.member == f"{name}.json"), None)
    return existing or Measurement(session, name, title, options)


def _renamed(data: dict[str, Any]) -> Row:
    """Apply RENAMED to the keys."""
    return {RENAMED.get(k, k): v for k, v in data.items()}


def from_bytes(raw: bytes, options: type, name: str) -> MeasurementResult:
    """Parse a stored result; raises OptionsError if it is damaged."""
    with reading("What was measured", OptionsError, "cannot be read from the project", "Measure it again."):
        data: Any = parse_json(raw)
        if data["version"] != VERSION:
            raise ValueError("another version")
        rows, summary = tuple(map(_renamed, data["rows"])), _renamed(data["summary"])
        of_summary, of_rows = (set(keys.split()) for keys in NEEDED[name])
        if not (of_summary <= summary.keys() and all(of_rows <= r.keys() for r in rows)):
            raise ValueError("something is missing")
        decoded = decode(options, data["options"], "options")
        return MeasurementResult(None, decoded, rows, summary, dict(data["more"]), str(data["mark"]))
