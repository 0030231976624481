"""Colours of the graph by what was measured of its formats: asks for it, and tells when it is out of date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject

from espalier.app.canvas.colouring import MEASURED, NOT_MEASURED, Overlay
from espalier.model.graph.graph import Graph
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import TERMINAL, AnalyseJob, Done, JobEvent, JobInfo
from espalier.passes.observed.options import ObserveOptions

if TYPE_CHECKING:
    from espalier.app.canvas.view import GraphCanvas
    from espalier.app.session.session import Session

PASS = "quantization"
ON_DATA = ("activation_sqnr", "output_sqnr")  # modes for which weights alone do not suffice
# Mode → the kinds of rows that it shows, and their column.
SHOWN: dict[str, tuple[tuple[str, ...], str]] = {
    "weight_sqnr": (("weight",), "sqnr_db"),
    "activation_sqnr": (("activation",), "sqnr_db"),
    "output_sqnr": (("output",), "sqnr_db"),
    "saturation": (("weight", "activation"), "saturated"),
}
NOTHING = "nothing is quantised"
NONE_SUCH = {"weight_sqnr": "no weight is quantised", "activation_sqnr": "no activation is quantised"}
NO_DATA = "needs data: evaluate on some first (Run → Evaluate on…)"
STALE = "before the last edits; choose it again to measure"
RUNNING = "being measured"


def values_of(report: Report, mode: str) -> dict[str, float]:
    """The worst value of each node for a mode: the lowest SQNR (exact ones have none), the largest share."""
    kinds, column = SHOWN[mode]
    worst = max if column == "saturated" else min
    found: dict[str, float] = {}
    for row in report.rows:
        value = row.get(column)
        if row.get("kind", "weight") in kinds and value is not None:
            node = str(row["node"])
            found[node] = worst(found.get(node, value), value)
    return found


class Findings(QObject):
    """Listens to the canvas and the session; `measure` runs the analysis when a mode is chosen that lacks it."""

    def __init__(self, session: Session, canvas: GraphCanvas) -> None:
        super().__init__(canvas)
        self._session, self._canvas = session, canvas
        self._reports: dict[str, tuple[Graph, Report]] = {}
        self._running: JobInfo | None = None
        self._others: dict[str, Overlay] = {}
        self._judged: tuple[Graph, bool] | None = None
        canvas.mode_chosen.connect(self.measure)
        session.job_event.connect(self._hear)
        session.changed.connect(self._tell)
        session.opened.connect(self._forget)

    def measure(self, mode: str) -> None:
        """Measure what `mode` shows, unless that is known of the present graph, under way, or impossible."""
        document = self._session.document
        if mode not in SHOWN or document is None or self._running is not None or self._fresh(mode):
            return
        known, options = self._session.measured_on, ObserveOptions()
        if self._quantised(document.graph) and (known.data or mode not in ON_DATA):
            if mode in ON_DATA:
                options = replace(options, **known.which)
            self._session.run_pass(PASS, options)
        self._tell()

    def show(self, mode: str, overlay: Overlay) -> None:
        """Take the values of a mode that is measured elsewhere."""
        self.show_all({mode: overlay})

    def show_all(self, found: Mapping[str, Overlay]) -> None:
        """Take the values of modes that are measured elsewhere."""
        if any(self._others.get(mode) != overlay for mode, overlay in found.items()):
            self._others.update(found)
            self._tell()

    def _fresh(self, mode: str) -> bool:
        held, document = self._reports.get(mode), self._session.document
        return held is not None and document is not None and held[0] is document.graph

    def _hear(self, heard: JobEvent) -> None:
        work = heard.job.job
        if not isinstance(work, AnalyseJob) or work.step.pass_name != PASS:
            return
        if isinstance(heard.event, Done):
            self._take(work.graph, heard.event.result, bool(getattr(work.step.options, "data", "")))
        running = None if isinstance(heard.event, TERMINAL) else heard.job
        if running is not self._running:
            self._running = running
            self._tell()

    def _take(self, graph: Graph, report: Report, on_data: bool) -> None:
        """Keep the report for the modes that it has rows of, and for those that it looked at and found nothing.

        Weights alone leave what was measured on data.
        """
        kinds = {str(row.get("kind", "weight")) for row in report.rows}
        for mode, (wanted, _) in SHOWN.items():
            if kinds.intersection(wanted) or mode == "weight_sqnr" or (on_data and mode in ON_DATA):
                self._reports[mode] = graph, report
        self._tell()

    def _forget(self) -> None:
        self._reports.clear()
        self._running = None
        self._tell()

    def _tell(self, _: object = None) -> None:
        self._canvas.set_measured({mode: self._overlay(mode) for mode in SHOWN} | self._others)

    def _overlay(self, mode: str) -> Overlay:
        title, unit = MEASURED[mode]
        held = self._reports.get(mode)
        values: Mapping[str, float] = values_of(held[1], mode) if held else {}
        return Overlay(title, values, unit, self._note(mode))

    def _note(self, mode: str) -> str:
        document: Any = self._session.document
        if self._running is not None and not self._fresh(mode):
            return RUNNING
        if mode in self._reports:
            known = values_of(self._reports[mode][1], mode)
            return STALE if not self._fresh(mode) else "" if known else NONE_SUCH.get(mode, NOTHING)
        if document and not self._quantised(document.graph):
            return NOTHING
        return NO_DATA if document and mode in ON_DATA and not self._session.measured_on.data else NOT_MEASURED

    def _quantised(self, graph: Graph) -> bool:
        """Whether a graph has formats; asked for each mode at each edit."""
        if self._judged is None or self._judged[0] is not graph:
            self._judged = graph, any(n.precision for n in graph)
        return self._judged[1]
