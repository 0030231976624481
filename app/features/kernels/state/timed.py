"""An analysis that times or measures the open model: run as a job, kept with the project, told when it is outdated."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from espalier.app.session.circuits import alike, mark_of
from espalier.model.borders import parse_json, reading
from espalier.model.document.codec import decode, encode
from espalier.model.document.recipe import Step
from espalier.model.errors import EspalierError, JobError, OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import TERMINAL, Found, JobEvent, JobInfo, Stopped

if TYPE_CHECKING:
    from espalier.app.session.session import Session

VERSION = 1
Row = dict[str, Any]
RENAMED = {"ratio": "speedup"}  # of compile, in projects of before
# What the summary and each row of an analysis must tell to be shown; a project may come from anywhere.
NEEDED: dict[str, tuple[str, str]] = {
    "compile": ("speedup break_even_calls compile_seconds max_error graphs backend mode device why operations "
                "products_share", "version first seconds spread least calls speedup"),
    "profile": ("plain batch device seconds peak_bytes weights_bytes",
                "node op seconds share rounding device_seconds allocated_bytes gflop_s largest"),
    "memory": ("float_bytes file_bytes saving", "line kind elements float_bytes ideal bytes saving"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run gave. `more`: what it told besides its rows. `graph` is None where it came with a project; `mark`
    tells then what it is of.
    """

    graph: Graph | None
    options: Any
    rows: tuple[Row, ...]
    summary: Row
    more: Row = field(default_factory=dict)  # type: ignore[assignment]
    mark: str = ""


class Timed(QObject):
    """One run at a time; `changed` tells of its start, its progress and its end, and of edits that outdate it.

    `arrived`: what a run gave; `kept`: the project has something to save. `before`: what was measured of another state
    of the model.
    """

    changed = Signal()
    arrived = Signal()
    kept = Signal()

    def __init__(self, session: Session, name: str, title: str, options: type) -> None:
        super().__init__(session)
        self._session, self._name, self._title, self._options = session, name, title, options
        self.made: Measured | None = None
        self.before: Measured | None = None
        self.job: JobInfo | None = None
        self.error: EspalierError | None = None
        self.stopped = False
        self._more: Row = {}
        self._compared: tuple[Graph, Graph, bool] | None = None
        session.job_event.connect(self._hear)
        session.opened.connect(self.read)
        session.changed.connect(lambda _: self.changed.emit())
        self.read()

    # -- what is known

    @property
    def stale(self) -> bool:
        """Whether the model has changed since."""
        made, document = self.made, self._session.document
        if made is None or document is None:
            return False
        return made.graph is None or not self._alike(document.graph, made.graph)

    def _alike(self, now: Graph, then: Graph) -> bool:
        """Whether two graphs are one model; the last answer is kept."""
        held = self._compared
        if held is None or held[0] is not now or held[1] is not then:
            held = self._compared = now, then, alike(now, then, parallel=False)
        return held[2]

    @property
    def member(self) -> str:
        """Of the project's file."""
        return f"{self._name}.json"

    # -- running

    def start(self, options: Any) -> None:
        """Run on the graph as it is; raises ProjectError without a document."""
        graph = self._session.open_document.graph
        self.error, self.stopped, self._more = None, False, {}
        step = Step(self._name, options)
        self.job = self._session.analyse(
            self._title, step, lambda r: self._take(graph, options, r), graph, self._failed
        )
        self.changed.emit()

    def stop(self) -> None:
        """End the run."""
        if self.job:
            self._session.cancel(self.job.id)

    # -- what comes

    def _take(self, graph: Graph, options: Any, report: Report) -> None:
        if self.made and not (self.made.graph and self._alike(graph, self.made.graph)):
            self.before = self.made
        self.made = Measured(graph, options, report.rows, dict(report.summary), self._more)
        self._keep()
        self.arrived.emit()

    def _failed(self, error: JobError) -> None:
        self.error = error

    def _hear(self, heard: JobEvent) -> None:
        if self.job is None or heard.job.id != self.job.id:
            return
        if isinstance(heard.event, Found) and isinstance(heard.event.part, dict):
            self._more = {**self._more, **heard.event.part}
        if isinstance(heard.event, TERMINAL):
            self.job, self.stopped = None, isinstance(heard.event, Stopped)
        self.changed.emit()

    # -- the project

    def _keep(self) -> None:
        """Put the result into the project, so that saving keeps it."""
        document, made = self._session.document, self.made
        if document and made and made.graph:
            data = {"version": VERSION, "options": encode(made.options), "rows": list(made.rows),
                    "summary": made.summary, "more": made.more,
                    "mark": mark_of(made.graph, parallel=False)}  # fmt: skip
            document.keep(self.member, json.dumps(data, separators=(",", ":"), default=str).encode())
            self.kept.emit()

    def read(self) -> None:
        """Take what the project of another document holds."""
        self.made = self.before = self.job = self.error = None
        self.stopped = False
        document = self._session.document
        raw = document.project.extras.get(self.member) if document else None
        if document and raw is not None:
            try:
                made = from_bytes(raw, self._options, self._name)
            except OptionsError as error:
                self.error = error
            else:
                same = made.mark == mark_of(document.graph, parallel=False)
                self.made = replace(made, graph=document.graph) if same else made
        self.changed.emit()
        self.arrived.emit()


def timed_of(session: Session, name: str, title: str, options: type) -> Timed:
    """The runs of an analysis in a session: one object for all that show them."""
    found = next((t for t in session.findChildren(Timed) if t.member == f"{name}.json"), None)
    return found or Timed(session, name, title, options)


def _renamed(told: dict[str, Any]) -> Row:
    """As it is called now: a ratio was shown as a share."""
    return {RENAMED.get(k, k): v for k, v in told.items()}


def from_bytes(raw: bytes, options: type, name: str) -> Measured:
    """What a project holds; raises OptionsError where it cannot be read."""
    with reading("What was measured", OptionsError, "cannot be read from the project", "Measure it again."):
        data: Any = parse_json(raw)
        if data["version"] != VERSION:
            raise ValueError("another version")
        rows, summary = tuple(map(_renamed, data["rows"])), _renamed(data["summary"])
        of_summary, of_rows = (set(keys.split()) for keys in NEEDED[name])
        if not (of_summary <= summary.keys() and all(of_rows <= r.keys() for r in rows)):
            raise ValueError("something is missing")
        made = decode(options, data["options"], "options")
        return Measured(None, made, rows, summary, dict(data["more"]), str(data["mark"]))
