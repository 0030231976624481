"""The plan of the open document over devices, and the prediction over growing numbers of devices."""

from __future__ import annotations

import time
from dataclasses import fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from espalier.app.canvas.colouring import MEASURED, Overlay
from espalier.app.features.deploy.placing import Placing
from espalier.app.features.deploy.transfers import transfers_of
from espalier.app.jobs.status import status_text
from espalier.app.session.analysis_requests import AnalysisRequests
from espalier.app.translation import tr
from espalier.model.errors import EspalierError
from espalier.model.graph.node import Node
from espalier.passes.analysis.shard_run import ShardRunOptions
from espalier.passes.analysis.shard_scaling import ShardScalingOptions
from espalier.passes.base import Report
from espalier.passes.sharding.drawn import Drawn
from espalier.passes.sharding.mesh import Mesh, parse_mesh
from espalier.passes.sharding.options import ShardPlanOptions

if TYPE_CHECKING:
    from espalier.app.canvas.transfers import Transfer
    from espalier.app.session.session import Session
    from espalier.model.graph.graph import Graph

PLAN, SCALING, RUN, LINKS = "shard_plan", "shard_scaling", "shard_run", "shard_links"
STRATEGY, MOVED, TIME = "shard_strategy", "shard_bytes", "shard_time"  # modes of the graph's colours
MODES = (STRATEGY, MOVED, TIME)
STALE = tr("of an earlier state: plan again")
FIRST = tr("plan first (Deploy)")
KIB = 1024.0
BATCH = 4096  # the most samples of a batch that is run
Row = dict[str, Any]
_UNPLACED = attrgetter(*(f.name for f in fields(Node) if f.name != "sharding"))  # of a node, all but its placements


def deployment_of(session: Session) -> Deployment:
    """The session's Deployment, created once."""
    return session.findChild(Deployment) or Deployment(session)


class Deployment(QObject):
    """`changed`: a report, an error or the job of one is another."""

    changed = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._asking = AnalysisRequests(session)
        self._asked: dict[str, tuple[Graph, Any]] = {}  # by analysis: graph and options that it was asked about
        self.error: EspalierError | None = None
        self._placing = Placing(self)
        self._clear()
        self._placing.changed.connect(self.changed)
        self._asking.answered.connect(self._answered)
        self._asking.failed.connect(self._failed)
        self._asking.state_changed.connect(lambda _: self.changed.emit())
        session.changed.connect(lambda _: self.changed.emit())
        session.opened.connect(self._clear)

    def _clear(self) -> None:
        self.reports: dict[str, Report] = {}
        self.compared: tuple[Row, ...] = ()  # the plan and the baselines
        self._planned: tuple[Transfer, ...] = ()
        self._placing.clear()
        self.options: ShardPlanOptions | None = None  # of the plan
        self.ran: ShardRunOptions | None = None  # options of the run
        self.scaled: ShardScalingOptions | None = None  # options of the scaling
        self._graphs: dict[str, Graph] = {}
        self._stale: dict[str, tuple[Graph, bool]] = {}  # the last answers of `stale`
        self.error = None
        self.changed.emit()

    # -- running

    def ask(self, name: str, options: Any) -> None:
        """Run PLAN, SCALING, RUN or LINKS on the present graph; one of the same name is cancelled."""
        self.error = None
        self._asked[name] = self._session.open_document.graph, options
        self._asking.ask(name, options)
        self.changed.emit()

    def stop(self) -> None:
        """Cancel what runs."""
        self._asking.drop()
        self.changed.emit()

    @property
    def busy(self) -> str:
        """What runs, as a text; empty if nothing does."""
        for name, what in ((PLAN, tr("Plan")), (SCALING, tr("Scaling")), (RUN, tr("Run")), (LINKS, tr("Measure"))):
            if job := self._asking.job(name):
                return f"{what}: {status_text(job, time.monotonic(), elapsed=True)}"
        return ""

    def _answered(self, name: str, report: Report, part: object) -> None:
        self._graphs[name], options = self._asked[name]
        self._stale.clear()
        self.reports[name] = report
        if name == RUN:
            self.ran = options
        if name == SCALING:
            self.scaled = options
        if name == PLAN:
            self.options = options
            self.compared = part.compared if isinstance(part, Drawn) else ()
            self._planned = transfers_of(part.moved) if isinstance(part, Drawn) else ()
        self.changed.emit()

    def _failed(self, name: str, error: EspalierError) -> None:
        self.error = error
        self.changed.emit()

    # -- what is known

    def stale(self, name: str = PLAN) -> bool:
        """Whether a report is of another state of the model than the present one."""
        document = self._session.document
        if name not in self._graphs or document is None or document.graph is self._graphs[name]:
            return False
        last = self._stale.get(name)
        if last is None or last[0] is not document.graph:
            own = name == RUN and self.ran is not None and not self.ran.mesh  # the model's placements
            before, now = self._graphs[name], document.graph
            last = self._stale[name] = now, before != now if own else not _alike(before, now)
        return last[1]

    @property
    def placed(self) -> Mesh | None:
        """The mesh over which the present graph is sharded."""
        document = self._session.document
        shape = next((n.sharding.mesh for n in document.graph if n.sharding), None) if document else None
        return Mesh(shape) if shape else None

    @property
    def can_apply(self) -> bool:
        """Whether the step `shard` leads to the plan: it is of the present model, and no pipeline."""
        return self.options is not None and self.options.stages == 1 and not self.stale()

    def to_run(self) -> tuple[Mesh, ShardRunOptions] | None:
        """What a run on this machine would run, on the data of the session if there are any; None for nothing.

        As the command does: the graph's placements if they are for the mesh of the plan, or there is no plan to run;
        else the plan.
        """
        data: dict[str, Any] = self._session.measured_on.which if self._session.measured_on.data else {}
        if self.options is not None and self.can_apply:
            names = {f.name for f in fields(ShardRunOptions)} & {f.name for f in fields(ShardPlanOptions)}
            given = {n: getattr(self.options, n) for n in names}
            given["batch_size"] = min(self.options.batch_size, BATCH)
            mesh = parse_mesh(self.options.mesh)
            options = ShardRunOptions(**given, **data)
            return mesh, replace(options, mesh="") if mesh == self.placed else options
        return (self.placed, ShardRunOptions(**data)) if self.placed else None

    def transfers(self, mode: str) -> tuple[Transfer, ...]:
        """What edges show in a mode of the graph's colours: the plan in those of plans, else the graph's placements."""
        document = self._session.document
        if document is None or (mode in MODES and PLAN in self.reports):
            return self._planned if document else ()
        return self._placing.transfers(document.graph)

    def overlays(self) -> dict[str, Overlay]:
        """Strategy, moved bytes and predicted time of nodes, as colours of the graph."""
        report = self.reports.get(PLAN)
        if report is None and self.placed:
            return self._placements()
        rows = report.rows if report else ()
        note = FIRST if report is None else STALE if self.stale() else ""
        names = tuple(dict.fromkeys(str(r["strategy"]) for r in rows))
        code = {name: float(k) for k, name in enumerate(names)}
        values = {
            STRATEGY: {r["node"]: code[str(r["strategy"])] for r in rows},
            MOVED: {r["node"]: r["bytes"] / KIB for r in rows if r["bytes"]},
            TIME: {r["node"]: r["milliseconds"] for r in rows if r["milliseconds"]},
        }
        return {mode: _overlay(mode, known, note, names) for mode, known in values.items()}

    def _placements(self) -> dict[str, Overlay]:
        """Placements of results and moved bytes of a sharded graph without a plan."""
        placed = {n.id: n.sharding.label for n in self._session.open_document.graph if n.sharding and n.sharding.label}
        names = tuple(sorted(set(placed.values())))
        moved: dict[str, float] = {}
        for each in self.transfers(MOVED):
            node = each.user or each.source
            moved[node] = moved.get(node, 0.0) + each.bytes / KIB
        values = {STRATEGY: {k: float(names.index(v)) for k, v in placed.items()}, MOVED: moved, TIME: {}}
        notes = {STRATEGY: tr("of results"), TIME: FIRST}
        return {mode: _overlay(mode, known, notes.get(mode, ""), names) for mode, known in values.items()}


def _overlay(mode: str, values: dict[str, float], note: str, names: tuple[str, ...]) -> Overlay:
    return Overlay(MEASURED[mode][0], values, MEASURED[mode][1], note, names if mode == STRATEGY else ())


def _alike(before: Graph, now: Graph) -> bool:
    """Whether two graphs differ in placements alone: a plan is still one of the model after it was applied."""
    if replace(before, nodes={}) != replace(now, nodes={}) or before.nodes.keys() != now.nodes.keys():
        return False
    return all(a is (b := now.nodes[a.id]) or _UNPLACED(a) == _UNPLACED(b) for a in before)
