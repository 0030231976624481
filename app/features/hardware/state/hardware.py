"""Hardware runs of the open document (emit, check, simulate, balance) in the worker, and their results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from espalier.app.features.hardware.state.edited_modules import EditedModules, built_in
from espalier.app.features.hardware.state.project_tables import MEMBER, Front, RunResult, from_bytes, to_bytes, waves_of
from espalier.app.session.circuit_identity import circuit_fingerprint, is_same_circuit
from espalier.app.translation import tr, translated
from espalier.model.document.recipe import Step
from espalier.model.errors import EspalierError, JobError, OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.analysis.balance_front import BalanceFrontOptions
from espalier.passes.analysis.hardware import HardwareOptions
from espalier.passes.base import Report
from espalier.passes.choices.parallelize import BalanceOptions
from espalier.passes.jobs.kinds import TERMINAL, JobEvent, JobInfo, Stopped

if TYPE_CHECKING:
    from espalier.app.session.session import Session

PASS, FRONT, BALANCE = "hardware", "balance_front", "balance_parallelism"
TITLES = translated({"check": "Check the hardware", "simulate": "Simulate the hardware", "emit": "Emit the hardware"})


def hardware_of(session: Session) -> Hardware:
    """The session's Hardware, created once."""
    return session.findChild(Hardware) or Hardware(session)


class Hardware(QObject):
    """Runs one job at a time; emits `changed` at its start, progress and end, and at edits that outdate the result.

    Emits `result_ready` and `front_ready` at new results, `stored` when the project is modified.
    """

    changed = Signal()
    result_ready = Signal()
    front_ready = Signal()
    stored = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self.copies = EditedModules(session)
        self.result: RunResult | None = None
        self.front: Front | None = None
        self.opened_options: HardwareOptions | None = None  # of the result that the document was opened with
        self.job: JobInfo | None = None
        self.error: EspalierError | None = None
        self.stopped = False
        self._compared: dict[bool, tuple[Graph, Graph, bool]] = {}
        session.job_event.connect(self._on_event)
        session.opened.connect(self._read)
        session.changed.connect(lambda _: self.changed.emit())
        self.copies.changed.connect(lambda _: self.changed.emit())
        self.copies.stored.connect(self.stored)
        if session.document is not None:
            self._read()

    # -- results

    @property
    def stale(self) -> bool:
        """Whether the graph or an edited module has changed since the run."""
        result, document = self.result, self._session.document
        if result is None:
            return False
        if document is None or not self._alike(document.graph, result.graph):
            return True
        return result.used(self.copies.texts) != result.used(result.copies)

    @property
    def front_stale(self) -> bool:
        """Whether the front is of another circuit, parallelism aside."""
        front, document = self.front, self._session.document
        if front is None or document is None:
            return False
        return not self._alike(document.graph, front.graph, parallel=False)

    def _alike(self, current: Graph, previous: Graph | None, parallel: bool = True) -> bool:
        """Whether two graphs give the same circuit; the last answer is cached."""
        if previous is None:
            return False
        cached = self._compared.get(parallel)
        if cached is None or cached[0] is not current or cached[1] is not previous:
            cached = self._compared[parallel] = current, previous, is_same_circuit(current, previous, parallel)
        return cached[2]

    @property
    def quantised(self) -> bool:
        """Whether any node has a format (hardware needs fixed point)."""
        document = self._session.document
        return document is not None and any(n.precision for n in document.graph)

    @property
    def waves(self) -> Path | None:
        """Folder of the last simulation's handshakes; None if it is missing."""
        document = self._session.document
        folder = document.path.parent if document and document.path else None
        return waves_of(self.result, folder) if self.result else None

    # -- running

    def start(self, verb: str, options: HardwareOptions) -> None:
        """Start a run; without a folder the text is written to the document's working folder. May raise."""
        document = self._session.open_document
        graph = document.graph
        folder = options.folder or str(document.store.folder / "hardware" / options.name)
        request = replace(options, folder=folder, simulate=verb == "simulate", modules=self.copies.texts)
        self._run(TITLES[verb], Step(PASS, request), graph, lambda report: self._take(verb, graph, request, report))

    def find_front(self, options: BalanceFrontOptions) -> None:
        """Compute area against interval. May raise."""
        graph = self._session.open_document.graph
        step = Step(FRONT, options)
        self._run(tr("Area against interval"), step, graph, lambda report: self._take_front(graph, options, report))

    def _run(self, title: str, step: Step, graph: Graph, done: Any) -> None:
        self.error, self.stopped = None, False
        self.job = self._session.analyse(title, step, done, graph, self._failed)
        self.changed.emit()

    def stop(self) -> None:
        """Stop the run."""
        if self.job:
            self._session.cancel(self.job.id)

    def apply(self, multipliers: int) -> None:
        """Apply a design of the front as one undo step; it replaces a balance step at the end of the recipe."""
        sizes = self.front.options.sizes if self.front else ""
        recipe, step = self._session.recipe, Step(BALANCE, BalanceOptions(multipliers, 0, sizes))
        last = recipe.steps[-1] if recipe.steps else None
        replaces = last is not None and last.enabled and last.pass_name == BALANCE
        after = recipe.set(len(recipe) - 1, step) if replaces else recipe.append(step)
        self._session.set_recipe(after, tr("Balance to {} multipliers", multipliers))

    # -- job results

    def _take(self, verb: str, graph: Graph, options: HardwareOptions, report: Report) -> None:
        summary = dict(report.summary)
        self.result = RunResult(verb, graph, options, report.rows, summary, _sources(summary))
        self._keep()
        self.result_ready.emit()

    def _take_front(self, graph: Graph, options: BalanceFrontOptions, report: Report) -> None:
        self.front = Front(graph, options, report.rows, unknown=tuple(report.summary.get("unknown", ())))
        self._keep()
        self.front_ready.emit()

    def _failed(self, error: JobError) -> None:
        self.error = error

    def _on_event(self, job_event: JobEvent) -> None:
        if self.job is None or job_event.job.id != self.job.id:
            return
        if isinstance(job_event.event, TERMINAL):
            self.job, self.stopped = None, isinstance(job_event.event, Stopped)
        self.changed.emit()

    # -- the project

    def _keep(self) -> None:
        """Write the tables into the project."""
        if document := self._session.document:
            document.keep(MEMBER, to_bytes(self.result, self.front))
            self.stored.emit()

    def _read(self) -> None:
        """Read the tables of another document."""
        self.result = self.front = self.job = self.error = None
        self.stopped = False
        document = self._session.document
        raw = document.project.extras.get(MEMBER) if document else None
        if document and raw is not None:
            try:
                result, front = from_bytes(raw)
            except OptionsError as error:
                self.error = error
            else:
                self._restore(result, front, document.graph)
        self.opened_options = self.result.options if self.result else None
        self.error = self.error or self.copies.error
        self.changed.emit()
        self.result_ready.emit()
        self.front_ready.emit()

    def _restore(self, result: RunResult | None, front: Front | None, graph: Graph) -> None:
        """Restore stored results; those whose mark matches the graph count as current."""
        if result:
            texts = {f"rtl/{m}.sv": text for m in result.summary["modules"] if (text := built_in(m)) is not None}
            same = graph if result.mark == circuit_fingerprint(graph) else None
            self.result = replace(result, graph=same, sources=texts)
        if front:
            self.front = (
                replace(front, graph=graph) if front.mark == circuit_fingerprint(graph, parallel=False) else front
            )


def _sources(summary: dict[str, Any]) -> dict[str, str]:
    """File name → text of the SystemVerilog that was written; missing files are omitted."""
    folder, sources = Path(summary.get("folder", "")), {}
    for name in summary.get("files", ()):
        if name.endswith(".sv") and not name.startswith("sim/"):
            try:
                sources[name] = (folder / name).read_text(encoding="utf-8")
            except OSError:
                continue
    return sources
