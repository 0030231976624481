"""Colours the graph by measured quantisation errors: runs the analysis and marks outdated values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject

from espalier.app.canvas.colouring import MEASURED, NOT_MEASURED, Overlay
from espalier.app.translation import tr, translated
from espalier.model.graph.graph import Graph
from espalier.passes.base import Report
from espalier.passes.jobs.kinds import TERMINAL, AnalyseJob, Done, JobEvent, JobInfo
from espalier.passes.observed.options import ObserveOptions

if TYPE_CHECKING:
    from espalier.app.canvas.view import GraphCanvas
    from espalier.app.session.session import Session

PASS = "quantization"
ON_DATA = ("activation_sqnr", "output_sqnr")  # modes that need data
# Mode → kinds of rows shown, and their column.
SHOWN: dict[str, tuple[tuple[str, ...], str]] = {
    "weight_sqnr": (("weight",), "sqnr_db"),
    "activation_sqnr": (("activation",), "sqnr_db"),
    "output_sqnr": (("output",), "sqnr_db"),
    "saturation": (("weight", "activation"), "saturated"),
}
NOTHING = tr("nothing is quantised")
NONE_SUCH = translated({"weight_sqnr": "no weight is quantised", "activation_sqnr": "no activation is quantised"})
NO_DATA = tr("needs data: set it first (Run → Evaluate on…)")
STALE = tr("before the last edits; choose again to measure")
RUNNING = tr("measuring")


def values_of(report: Report, mode: str) -> dict[str, float]:
    """The worst value of each node for a mode: lowest SQNR (none if exact) or largest share."""
    kinds, column = SHOWN[mode]
    worst = max if column == "saturated" else min
    values: dict[str, float] = {}
    for row in report.rows:
        value = row.get(column)
        if row.get("kind", "weight") in kinds and value is not None:
            node = str(row["node"])
            values[node] = worst(values.get(node, value), value)
    return values


class Findings(QObject):
    """Runs the quantisation analysis when a canvas mode needs it, and updates the canvas."""

    def __init__(self, session: Session, canvas: GraphCanvas) -> None:
        super().__init__(canvas)
        self._session, self._canvas = session, canvas
        self._reports: dict[str, tuple[Graph, Report]] = {}
        self._running: JobInfo | None = None
        self._external: dict[str, Overlay] = {}
        self._quantised_of: tuple[Graph, bool] | None = None
        canvas.mode_chosen.connect(self.measure)
        session.job_event.connect(self._on_event)
        session.changed.connect(self._update_canvas)
        session.opened.connect(self._clear)

    def measure(self, mode: str) -> None:
        """Measure the values of a mode, unless they are current, being measured, or impossible."""
        document = self._session.document
        if mode not in SHOWN or document is None or self._running is not None or self._fresh(mode):
            return
        data, options = self._session.measured_on, ObserveOptions()
        if self._quantised(document.graph) and (data.data or mode not in ON_DATA):
            if mode in ON_DATA:
                options = replace(options, **data.which)
            self._session.run_pass(PASS, options)
        self._update_canvas()

    def show(self, mode: str, overlay: Overlay) -> None:
        """Set the values of a mode measured by another panel."""
        self.show_all({mode: overlay})

    def show_all(self, overlays: Mapping[str, Overlay]) -> None:
        """Set the values of modes measured by other panels."""
        if any(self._external.get(mode) != overlay for mode, overlay in overlays.items()):
            self._external.update(overlays)
            self._update_canvas()

    def _fresh(self, mode: str) -> bool:
        stored, document = self._reports.get(mode), self._session.document
        return stored is not None and document is not None and stored[0] is document.graph

    def _on_event(self, job_event: JobEvent) -> None:
        work = job_event.job.job
        if not isinstance(work, AnalyseJob) or work.step.pass_name != PASS:
            return
        if isinstance(job_event.event, Done):
            self._take(work.graph, job_event.event.result, bool(getattr(work.step.options, "data", "")))
        running = None if isinstance(job_event.event, TERMINAL) else job_event.job
        if running is not self._running:
            self._running = running
            self._update_canvas()

    def _take(self, graph: Graph, report: Report, on_data: bool) -> None:
        """Store the report for the modes that it covers, also those without rows.

        A report without data does not replace results on data.
        """
        kinds = {str(row.get("kind", "weight")) for row in report.rows}
        for mode, (wanted, _) in SHOWN.items():
            if kinds.intersection(wanted) or mode == "weight_sqnr" or (on_data and mode in ON_DATA):
                self._reports[mode] = graph, report
        self._update_canvas()

    def _clear(self) -> None:
        self._reports.clear()
        self._running = self._quantised_of = None
        self._update_canvas()

    def _update_canvas(self, _: object = None) -> None:
        self._canvas.set_measured({mode: self._overlay(mode) for mode in SHOWN} | self._external)

    def _overlay(self, mode: str) -> Overlay:
        title, unit = MEASURED[mode]
        stored = self._reports.get(mode)
        values: Mapping[str, float] = values_of(stored[1], mode) if stored else {}
        return Overlay(title, values, unit, self._note(mode))

    def _note(self, mode: str) -> str:
        document: Any = self._session.document
        if self._running is not None and not self._fresh(mode):
            return RUNNING
        if mode in self._reports:
            values = values_of(self._reports[mode][1], mode)
            return STALE if not self._fresh(mode) else "" if values else NONE_SUCH.get(mode, NOTHING)
        if document and not self._quantised(document.graph):
            return NOTHING
        return NO_DATA if document and mode in ON_DATA and not self._session.measured_on.data else NOT_MEASURED

    def _quantised(self, graph: Graph) -> bool:
        """Whether a graph has formats, cached: called for each mode at each edit."""
        if self._quantised_of is None or self._quantised_of[0] is not graph:
            self._quantised_of = graph, any(n.precision for n in graph)
        return self._quantised_of[1]
