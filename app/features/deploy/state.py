"""The plan of the open document over devices, and the prediction over growing numbers of devices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from espalier.app.canvas.colouring import MEASURED, Overlay
from espalier.app.session.analysis_requests import AnalysisRequests
from espalier.model.errors import EspalierError
from espalier.passes.base import Report
from espalier.passes.sharding.options import ShardPlanOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.model.graph.graph import Graph

PLAN, SCALING = "shard_plan", "shard_scaling"
STRATEGY, MOVED, TIME = "shard_strategy", "shard_bytes", "shard_time"  # modes of the graph's colours
STALE = "of an earlier state: plan again"
FIRST = "plan first (Deploy)"
KIB = 1024.0
Row = dict[str, Any]


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
        self._asked: dict[str, tuple[Graph, ShardPlanOptions]] = {}  # by analysis: what it was asked about
        self.error: EspalierError | None = None
        self._clear()
        self._asking.answered.connect(self._answered)
        self._asking.failed.connect(self._failed)
        self._asking.state_changed.connect(lambda _: self.changed.emit())
        session.changed.connect(lambda _: self.changed.emit())
        session.opened.connect(self._clear)

    def _clear(self) -> None:
        self.reports: dict[str, Report] = {}
        self.compared: tuple[Row, ...] = ()  # the plan and the baselines
        self.options: ShardPlanOptions | None = None  # of the plan
        self._graphs: dict[str, Graph] = {}
        self._compared: tuple[Graph, str, bool] | None = None  # the last answer of `stale`
        self.error = None
        self.changed.emit()

    # -- running

    def ask(self, name: str, options: ShardPlanOptions) -> None:
        """Run PLAN or SCALING on the present graph; one of the same name is cancelled."""
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
        for name, what in ((PLAN, "Planning"), (SCALING, "Predicting")):
            if job := self._asking.job(name):
                text = job.progress.text if job.progress else ""
                return f"{what}… {text}".strip()
        return ""

    def _answered(self, name: str, report: Report, part: object) -> None:
        self._graphs[name], options = self._asked[name]
        self._compared = None
        self.reports[name] = report
        if name == PLAN:
            self.options = options
            self.compared = part if isinstance(part, tuple) else ()
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
        if self._compared is None or self._compared[0] is not document.graph or self._compared[1] != name:
            differs = _unplaced(document.graph) != _unplaced(self._graphs[name])
            self._compared = document.graph, name, differs
        return self._compared[2]

    def overlays(self) -> dict[str, Overlay]:
        """Strategy, moved bytes and predicted time of nodes, as colours of the graph."""
        report = self.reports.get(PLAN)
        rows = report.rows if report else ()
        note = FIRST if report is None else STALE if self.stale() else ""
        names = tuple(dict.fromkeys(str(r["strategy"]) for r in rows))
        code = {name: float(k) for k, name in enumerate(names)}
        values = {
            STRATEGY: {r["node"]: code[str(r["strategy"])] for r in rows},
            MOVED: {r["node"]: r["bytes"] / KIB for r in rows if r["bytes"]},
            TIME: {r["node"]: r["milliseconds"] for r in rows if r["milliseconds"]},
        }
        return {
            mode: Overlay(MEASURED[mode][0], known, MEASURED[mode][1], note, names if mode == STRATEGY else ())
            for mode, known in values.items()
        }


def _unplaced(graph: Graph) -> Graph:
    """The graph without placements: a plan is still one of the model after it was applied."""
    return graph.replace(*(replace(n, sharding=None) for n in graph if n.sharding is not None))
