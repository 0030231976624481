"""What is known of a document's sensitivities: asked of the worker, heard row by row, kept in the project."""

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
FEW = 5  # measured cells below which nothing is said of the error
PAUSE = 120  # milliseconds between two tellings of rows that stream in
NO_DATA = "It needs data: name a file, a folder, hub:NAME or demo:NAME."


@dataclass(slots=True)
class Held:
    """What one run found: `foundation` is the fingerprint of the weights that it is of."""

    foundation: str
    options: Any
    rows: dict[tuple[str, str], Sensitivity] = field(default_factory=dict)  # type: ignore[assignment]
    summary: Mapping[str, Any] = field(default_factory=dict)  # type: ignore[assignment]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for the project."""
        return {"version": VERSION, "foundation": self.foundation, "options": encode(self.options),
                "rows": encode(tuple(self.rows.values())), "summary": dict(self.summary)}  # fmt: skip

    @staticmethod
    def from_json(data: dict[str, Any]) -> Held:
        """What `to_json` gave; raises OptionsError where it cannot be read."""
        if data.get("version") != VERSION:
            raise OptionsError(f"The sensitivities are of version {data.get('version')}.", "Run them again.")
        options = decode(PASSES.get(PASS).options, data["options"], "options")
        rows = decode(tuple[Sensitivity, ...], data["rows"], "rows")
        return Held(str(data["foundation"]), options, {(r.node, r.port): r for r in rows}, dict(data["summary"]))


def sensitivities_of(session: Session) -> Sensitivities:
    """The sensitivities of a session: one object for all that read them."""
    return session.findChild(Sensitivities) or Sensitivities(session)


class Sensitivities(QObject):
    """`changed` tells of rows, of a start, an end, an error, and of a model that has become another."""

    changed = Signal()
    kept = Signal()  # the project has something to save

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._held: Held | None = None
        self._next: Held | None = None  # what the running job fills
        self.job: JobInfo | None = None
        self.truths: JobInfo | None = None  # the job that measures single cells
        self.refining = False  # all rows of the running job are predicted, and measurements correct them
        self.error, self._old = cast("EspalierError | None", None), False
        self._known: tuple[Graph, str] | None = None
        self._table: tuple[Sensitivity, ...] | None = None  # the rows in order, until one changes
        self._wholes: tuple[tuple[Sensitivity, ...], Wholes] | None = None
        self.changed.connect(self._sort_again)
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._wait.timeout.connect(self.changed)
        session.opened.connect(self._read)
        session.changed.connect(lambda _: self._check_age())
        session.job_event.connect(self._hear)
        session.queued.connect(self._make_room)
        self._read()

    # -- what is known

    @property
    def table(self) -> tuple[Sensitivity, ...]:
        """All rows that are known, in the model's order; while a run goes on, those that it has found."""
        held = self._next if self._next and self._next.rows else self._held
        document = self._session.document
        if held is None or document is None:
            return ()
        if self._table is None:
            order = {name: i for i, name in enumerate(document.graph.nodes)}
            self._table = tuple(sorted(held.rows.values(), key=lambda r: order.get(r.node, len(order))))
        return self._table

    @property
    def wholes(self) -> Wholes:
        """The table asked for whole configurations, corrected as the run says."""
        if self._wholes is None or self._wholes[0] is not self.table:
            self._wholes = self.table, Wholes(self.table, correction_of(self.summary))
        return self._wholes[1]

    def _sort_again(self) -> None:
        self._table = None

    def _check_age(self) -> None:
        """Tell where an edit has made the rows old, or an undo made them good again; most edits do neither."""
        if self._held and self.stale != self._old:
            self._old = self.stale
            self.changed.emit()

    @property
    def options(self) -> Any:
        """The options of what is known; None before the first run."""
        held = self._next or self._held
        return held.options if held else None

    @property
    def summary(self) -> Mapping[str, Any]:
        """The figures of the run beside its rows."""
        held = self._next if self._next and self._next.summary else self._held
        return held.summary if held else {}

    @property
    def evidence(self) -> Path | None:
        """Where the evidence lies from which any format can be predicted; None where there is none here."""
        place = self.summary.get("evidence")
        path = Path(str(place)) if place else None
        return path if path and path.is_file() else None

    @property
    def left_out_factor(self) -> float:
        """The same as the run told it, of measurements that the correction did not see; 0 where it did not."""
        told = self.summary.get("error_factor")
        return float(told) if isinstance(told, int | float) and math.isfinite(told) else 0.0

    @property
    def error_factor(self) -> float:
        """The factor by which predictions are off in the median of what was measured; 0 where that is not known."""
        if self.left_out_factor:
            return self.left_out_factor
        pairs = ((p, m) for r in self.table for p, m in zip(r.predicted, r.measured, strict=True) if m is not None)
        off = sorted(math.exp(abs(math.log(m / p))) for p, m in pairs if 0 < p < math.inf and 0 < m < math.inf)
        return off[len(off) // 2] if len(off) >= FEW else 0.0

    @property
    def running(self) -> bool:
        """Whether a run waits or is under way."""
        return self.job is not None

    @property
    def uncorrected(self) -> bool:
        """Whether the rows are first predictions, which no measurement has corrected yet."""
        return bool(self.summary) and "correction" not in self.summary

    @property
    def measuring(self) -> bool:
        """Whether single cells are being measured."""
        return self.truths is not None

    @property
    def stale(self) -> bool:
        """Whether the model has other weights than the one that the rows are of."""
        document = self._session.document
        return bool(self._held and document and self._held.foundation != self._foundation(document.graph))

    @property
    def words(self) -> str:
        """In a few words, what stands in the way of the rows or how old they are; empty where all is well."""
        if self.error:
            return f"{self.error.message} {self.error.hint}"
        if self.refining:
            return "first predictions: measurements correct them"
        if self.uncorrected and not self.running and not self.measuring and not self.stale:
            return "first predictions: no measurement has corrected them"
        if self.running:
            return "being found"
        if self._held is None:
            return "not measured yet"
        doing = "cells are being measured" if self.measuring else ""
        return "of the model before its weights changed: run it again" if self.stale else doing

    def _foundation(self, graph: Graph) -> str:
        """The fingerprint of the weights, which no format and no mask changes."""
        if self._known is None or self._known[0] is not graph:
            self._known = graph, foundation(graph)
        return self._known[1]

    # -- running

    def default_options(self) -> Any:
        """Options of a run: those of the last one, else the data that the score is measured on."""
        if self.options is not None:
            return self.options
        kind, measured = PASSES.get(PASS).options, self._session.measured_on
        # The split too: gradients of the same samples are those that a search takes, and are kept in one place.
        known = {n: getattr(measured, n) for n in ("data", "split", "text", "label", "tokenizer", "max_length")
                 if n in hints(kind)}  # fmt: skip
        return kind(**known)

    def run(self, options: Any = None) -> None:
        """Measure afresh; a run of before is stopped. Raises OptionsError where there is no data."""
        document, wish = self._session.open_document, options or self.default_options()
        if not wish.data:
            raise OptionsError("Sensitivities need data.", NO_DATA)
        self.stop()
        self.error = None
        self._next = Held(self._foundation(document.graph), wish)
        self.job = self._session.analyse("Sensitivity", Step(PASS, wish), self._done, failed=self._failed)
        self.changed.emit()

    def measure(self, cells: Sequence[tuple[Sensitivity, Candidate]]) -> None:
        """Measure candidates truly, one at a time, in the background; raises OptionsError where none is named."""
        if not cells or self._held is None:
            raise OptionsError("No cell is selected.", "Click one in the heat map; Shift and Ctrl add more.")
        options = self._held.options
        known = {n: getattr(options, n) for n in hints(EvaluateOptions) if hasattr(options, n)}
        wish = DivergenceOptions(**known, cells=tuple(Cell(row.node, row.port, c) for row, c in cells))
        self.error = None
        title = f"Measure {plural(len(cells), 'cell')}"
        self.truths = self._session.analyse(title, Step("divergence", wish), lambda _: None, failed=self._failed)
        self.changed.emit()

    def stop(self) -> None:
        """End a run, whose rows go, and a measurement, whose figures stay."""
        for job in (self.job, self.truths):
            if job:
                self._session.cancel(job.id)

    def _make_room(self) -> None:
        run = self.job  # goes on behind what an edit asks for, with what it has gathered
        if run and run.state == "running" and any(j.state == "waiting" for j in self._session.jobs if j is not run):
            self._session.give_way(run.id, lambda r: Rest(run.job) if r.summary.get(UNFINISHED) else None)

    def _done(self, report: Report) -> None:
        if self._next and not report.summary.get(UNFINISHED):
            self._held = replace(self._next, summary=dict(report.summary))
            self._next = self._table = None
            self._keep()

    def _keep(self) -> None:
        """Put what is held into the project, so that saving keeps it."""
        if self._held and (document := self._session.document):
            document.keep(MEMBER, json.dumps(self._held.to_json(), separators=(",", ":")).encode())
            self.kept.emit()

    def _failed(self, error: JobError) -> None:
        self.error = error

    def _hear(self, heard: JobEvent) -> None:
        event, truths = heard.event, self.truths
        if truths is not None and heard.job.id == truths.id:
            self._hear_truth(event)
        if self.job is None or heard.job.id != self.job.id:
            return
        if isinstance(event, Found) and isinstance(event.part, Sensitivity) and self._next:
            self._next.rows[event.part.node, event.part.port] = event.part
            self._tell_soon()
        elif isinstance(event, Found) and isinstance(event.part, Predictions) and self._next:
            self._next.summary, self.refining = {"evidence": event.part.evidence}, True
            self._wait.stop()
            self.changed.emit()
        elif isinstance(event, TERMINAL):
            if self.refining and self._next:  # it was cancelled or failed: the first predictions stay
                self._held = self._next
                self._keep()
            self.job = self._next = None
            self.refining = False
            self._wait.stop()
            self.changed.emit()

    def _hear_truth(self, event: Event) -> None:
        """Take what was measured of a cell."""
        if isinstance(event, Found) and isinstance(event.part, Truth) and self._held:
            cell = event.part.cell
            row = self._held.rows.get((cell.node, cell.port))
            if row is not None:
                self._held.rows[cell.node, cell.port] = with_measured(row, cell.candidate, event.part.kl)
                self._tell_soon()
        elif isinstance(event, TERMINAL):
            self.truths = None
            self._wait.stop()
            self._keep()
            self.changed.emit()

    def _tell_soon(self) -> None:
        self._table = None
        if not self._wait.isActive():
            self._wait.start()

    def _read(self) -> None:
        """Take what the project of another document holds."""
        self._wait.stop()
        self._held = self._next = self.job = self.truths = self.error = self._known = self._table = None
        self.refining = self._old = False
        document = self._session.document
        raw = document.project.extras.get(MEMBER) if document else None
        if raw is not None:
            self._held = tried(lambda: Held.from_json(parse_json(raw)), None)
            if self._held is None:
                self.error = OptionsError("The sensitivities in the project cannot be read.", "Run them again.")
        self.changed.emit()


def with_measured(row: Sensitivity, candidate: Candidate, kl: float) -> Sensitivity:
    """The row with what was measured of a candidate."""
    pairs = zip(row.candidates, row.measured, strict=True)
    return replace(row, measured=tuple(kl if c == candidate else m for c, m in pairs))


def foundation(graph: Graph) -> str:
    """Equal for graphs of equal weights: formats and their scales, masks, and how an attention is written do not
    count."""
    scales = {c.scale for n in graph if n.precision for c in n.precision.values()}
    digest = hashlib.blake2b(digest_size=16)
    for name, weight in sorted(graph.weights.items()):
        if name in scales:
            continue
        digest.update(f"{name} {weight.key} {weight.shape}\n".encode())
    return digest.hexdigest()
