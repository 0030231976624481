"""The hardware of the open document: emitted, checked, simulated and balanced in the worker, and what came of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from espalier.app.features.hardware.state.copies import Copies, ours
from espalier.app.features.hardware.state.kept import MEMBER, Front, Made, from_bytes, to_bytes, waves_of
from espalier.app.session.circuits import alike, mark_of
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
TITLES = {"check": "Check the hardware", "simulate": "Simulate the hardware", "emit": "Emit the hardware"}


class Hardware(QObject):
    """One run at a time; `changed` tells of its start, its progress and its end, and of edits that outdate it.

    `arrived`: what a run gave; `fronted`: a front did. `kept`: the project has something to save.
    """

    changed = Signal()
    arrived = Signal()
    fronted = Signal()
    kept = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self.copies = Copies(session)
        self.made: Made | None = None
        self.front: Front | None = None
        self.job: JobInfo | None = None
        self.error: EspalierError | None = None
        self.stopped = False
        self._compared: dict[bool, tuple[Graph, Graph, bool]] = {}
        session.job_event.connect(self._hear)
        session.opened.connect(self._read)
        session.changed.connect(lambda _: self.changed.emit())
        self.copies.changed.connect(lambda _: self.changed.emit())
        self.copies.kept.connect(self.kept)

    # -- what is known

    @property
    def stale(self) -> bool:
        """Whether the circuit has changed since: the graph, or a module that was edited."""
        made, document = self.made, self._session.document
        if made is None:
            return False
        if document is None or not self._alike(document.graph, made.graph):
            return True
        return made.used(self.copies.texts) != made.used(made.copies)

    @property
    def front_stale(self) -> bool:
        """Whether the front is of another circuit, whatever is computed at once."""
        front, document = self.front, self._session.document
        if front is None or document is None:
            return False
        return not self._alike(document.graph, front.graph, parallel=False)

    def _alike(self, now: Graph, then: Graph | None, parallel: bool = True) -> bool:
        """Whether two graphs are one circuit; the last answer is kept."""
        if then is None:
            return False
        held = self._compared.get(parallel)
        if held is None or held[0] is not now or held[1] is not then:
            held = self._compared[parallel] = now, then, alike(now, then, parallel)
        return held[2]

    @property
    def quantised(self) -> bool:
        """Whether anything has a format; hardware computes in fixed point only."""
        document = self._session.document
        return document is not None and any(n.precision for n in document.graph)

    @property
    def waves(self) -> Path | None:
        """Where the handshakes of the last simulation lie; None where they are not here."""
        document = self._session.document
        home = document.path.parent if document and document.path else None
        return waves_of(self.made, home) if self.made else None

    # -- running

    def start(self, verb: str, options: HardwareOptions) -> None:
        """Run; where no folder is named the text is written beside the document's weights, to be read. May raise."""
        document = self._session.open_document
        graph = document.graph
        folder = options.folder or str(document.store.folder / "hardware" / options.name)
        wish = replace(options, folder=folder, simulate=verb == "simulate", modules=self.copies.texts)
        self._run(TITLES[verb], Step(PASS, wish), graph, lambda report: self._take(verb, graph, wish, report))

    def find_front(self, options: BalanceFrontOptions) -> None:
        """Compute the area against the interval. May raise."""
        graph = self._session.open_document.graph
        step = Step(FRONT, options)
        self._run("Area against interval", step, graph, lambda report: self._take_front(graph, options, report))

    def _run(self, title: str, step: Step, graph: Graph, done: Any) -> None:
        self.error, self.stopped = None, False
        self.job = self._session.analyse(title, step, done, graph, self._failed)
        self.changed.emit()

    def stop(self) -> None:
        """End the run."""
        if self.job:
            self._session.cancel(self.job.id)

    def apply(self, multipliers: int) -> None:
        """Take a design of the front as one undo step; it replaces the balance that ends the recipe."""
        sizes = self.front.options.sizes if self.front else ""
        recipe, step = self._session.recipe, Step(BALANCE, BalanceOptions(multipliers, 0, sizes))
        last = recipe.steps[-1] if recipe.steps else None
        again = last is not None and last.enabled and last.pass_name == BALANCE
        after = recipe.set(len(recipe) - 1, step) if again else recipe.append(step)
        self._session.set_recipe(after, f"Balance to {multipliers} multipliers")

    # -- what comes

    def _take(self, verb: str, graph: Graph, options: HardwareOptions, report: Report) -> None:
        summary = dict(report.summary)
        self.made = Made(verb, graph, options, report.rows, summary, _sources(summary))
        self._keep()
        self.arrived.emit()

    def _take_front(self, graph: Graph, options: BalanceFrontOptions, report: Report) -> None:
        self.front = Front(graph, options, report.rows, unknown=tuple(report.summary.get("unknown", ())))
        self._keep()
        self.fronted.emit()

    def _failed(self, error: JobError) -> None:
        self.error = error

    def _hear(self, heard: JobEvent) -> None:
        if self.job is None or heard.job.id != self.job.id:
            return
        if isinstance(heard.event, TERMINAL):
            self.job, self.stopped = None, isinstance(heard.event, Stopped)
        self.changed.emit()

    # -- the project

    def _keep(self) -> None:
        """Put the tables into the project, so that saving keeps them."""
        if document := self._session.document:
            document.keep(MEMBER, to_bytes(self.made, self.front))
            self.kept.emit()

    def _read(self) -> None:
        """Take what the project of another document holds."""
        self.made = self.front = self.job = self.error = None
        self.stopped = False
        document = self._session.document
        raw = document.project.extras.get(MEMBER) if document else None
        if document and raw is not None:
            try:
                made, front = from_bytes(raw)
            except OptionsError as error:
                self.error = error
            else:
                self._restore(made, front, document.graph)
        self.error = self.error or self.copies.error
        self.changed.emit()
        self.arrived.emit()
        self.fronted.emit()

    def _restore(self, made: Made | None, front: Front | None, graph: Graph) -> None:
        """Results of before; those of the graph as it is now are of it."""
        if made:
            texts = {f"rtl/{m}.sv": text for m in made.summary["modules"] if (text := ours(m)) is not None}
            same = graph if made.mark == mark_of(graph) else None
            self.made = replace(made, graph=same, sources=texts)
        if front:
            self.front = replace(front, graph=graph) if front.mark == mark_of(graph, parallel=False) else front


def _sources(summary: dict[str, Any]) -> dict[str, str]:
    """The SystemVerilog that was written; a file that is gone by now is left out."""
    folder, found = Path(summary.get("folder", "")), {}
    for name in summary.get("files", ()):
        if name.endswith(".sv") and not name.startswith("sim/"):
            try:
                found[name] = (folder / name).read_text(encoding="utf-8")
            except OSError:
                continue
    return found
