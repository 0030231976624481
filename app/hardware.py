"""The hardware of the open document: emitted, checked and simulated in the worker, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from model.errors import JobError
from model.graph import Graph
from model.recipe import Step
from passes.analysis.hardware import HardwareOptions
from passes.base import Report
from passes.jobs import TERMINAL, JobEvent, JobInfo, Stopped

if TYPE_CHECKING:
    from app.session import Session

PASS = "hardware"
TITLES = {"check": "Check the hardware", "simulate": "Simulate the hardware", "emit": "Emit the hardware"}


@dataclass(frozen=True, slots=True)
class Made:
    """What a run gave. `sources`: file name → text of the SystemVerilog; `verb`: a key of TITLES."""

    verb: str
    graph: Graph
    options: HardwareOptions
    rows: tuple[dict[str, Any], ...]
    summary: dict[str, Any]
    sources: dict[str, str] = field(default_factory=dict)  # type: ignore[assignment]

    @property
    def name(self) -> str:
        """The name of the top module."""
        return self.options.name

    def file_of(self, module: str) -> str:
        """The file that a module is written in."""
        return f"{module}.sv" if module == self.name else f"rtl/{module}.sv"


class Hardware(QObject):
    """One run at a time; `changed` tells of its start, its progress and its end, and of edits that outdate it."""

    changed = Signal()
    arrived = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self.made: Made | None = None
        self.job: JobInfo | None = None
        self.error: JobError | None = None
        self.stopped = False
        session.job_event.connect(self._hear)
        session.opened.connect(self._forget)
        session.changed.connect(lambda _: self.changed.emit())

    @property
    def stale(self) -> bool:
        """Whether the graph has changed since."""
        document = self._session.document
        return self.made is not None and (document is None or document.graph is not self.made.graph)

    @property
    def quantised(self) -> bool:
        """Whether anything has a format; hardware computes in fixed point only."""
        document = self._session.document
        return document is not None and any(n.precision for n in document.graph)

    def start(self, verb: str, options: HardwareOptions) -> None:
        """Run; where no folder is named the text is written beside the document's weights, to be read. May raise."""
        document = self._session.open_document
        graph = document.graph
        folder = options.folder or str(document.store.folder / "hardware" / options.name)
        wish = replace(options, folder=folder, simulate=verb == "simulate")
        self.error, self.stopped = None, False
        self.job = self._session.analyse(
            TITLES[verb], Step(PASS, wish), lambda report: self._take(verb, graph, wish, report), graph, self._failed
        )
        self.changed.emit()

    def stop(self) -> None:
        """End the run."""
        if self.job:
            self._session.cancel(self.job.id)

    def _take(self, verb: str, graph: Graph, options: HardwareOptions, report: Report) -> None:
        self.made = Made(verb, graph, options, report.rows, dict(report.summary), _sources(report.summary))
        self.arrived.emit()

    def _failed(self, error: JobError) -> None:
        self.error = error

    def _hear(self, heard: JobEvent) -> None:
        if self.job is None or heard.job.id != self.job.id:
            return
        if isinstance(heard.event, TERMINAL):
            self.job, self.stopped = None, isinstance(heard.event, Stopped)
        self.changed.emit()

    def _forget(self) -> None:
        self.made = self.job = self.error = None
        self.stopped = False
        self.changed.emit()


def _sources(summary: dict[str, Any]) -> dict[str, str]:
    """The SystemVerilog that was written; a file that is gone by now is left out."""
    folder, found = Path(summary.get("folder", "")), {}
    for name in summary.get("files", ()):
        if name.endswith(".sv"):
            try:
                found[name] = (folder / name).read_text(encoding="utf-8")
            except OSError:
                continue
    return found
