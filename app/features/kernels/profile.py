"""Tab Profile of the panel Kernels: time and memory of a run by node, as timeline, table and graph colours."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from espalier.app.canvas.colouring import MEASURED, Overlay
from espalier.app.features.kernels.charts.run_lanes import Run, run_of
from espalier.app.features.kernels.measurement_tab import OLD, MeasurementTab, Pages
from espalier.app.features.kernels.profile_timeline import HELP, TimelineView
from espalier.app.features.kernels.state.measurement import MeasurementResult
from espalier.app.jobs.previews import Previews
from espalier.app.number_text import count, mebibytes, percent, time_text
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import Choice, tokens
from espalier.app.widgets.heading import empty_state, link
from espalier.app.widgets.table import Table
from espalier.kernels.bench.other_load import busy_note
from espalier.passes.analysis.profile import ProfileOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session

TIMELINE, NODES = range(2)
SLOT, MANY = "run", 1500  # more spans than this are arranged in a thread
# Graph colours: mode → (column of the node rows, factor to the mode's unit).
COLOURS: dict[str, tuple[str, float]] = {"time": ("seconds", 1e3), "memory": ("allocated_bytes", 1 / 1024)}
GONE = tr("The project stores totals, not the trace. Profile again to save it.")
NO_TIMELINE = tr("The timeline of this run is not stored. Profile again to see it.")


class ProfilePage(MeasurementTab):
    """Profile page; emits `trace_wanted` to save the Chrome trace."""

    trace_wanted = Signal()

    NAME, TITLE, OPTIONS, VERB = "profile", tr("Profile"), ProfileOptions, tr("Profile")
    FIELDS = ("device", "batch_size", "sizes", "runs", "data", "split")
    NO_MODEL = tr("Open a model to see the time of each node.")
    FIRST = tr(
        "Not profiled yet. A run under torch's profiler shows time, memory and operations of each node; further runs "
        "are timed without it."
    )

    def __init__(self, session: Session) -> None:
        self.table, self.timeline = Table(), TimelineView()
        self.table.setAccessibleName(tr("Profile"))
        self.colours = Choice((None, *COLOURS), (tr("Colour by …"), *(tr("by {}", MEASURED[m][0]) for m in COLOURS)))
        self.colours.setAccessibleName(tr("Colour the graph"))
        self.trace = link(tr("Save the trace…"), lambda: self.trace_wanted.emit())
        self._no_timeline = empty_state(NO_TIMELINE)
        self._number = 0  # counts the shown results
        super().__init__(session)

    def body(self) -> QWidget:
        """Tabs with timeline and node table."""
        self.fit_link = link(tr("Fit"), self.timeline.fit)
        self.fit_link.setToolTip(HELP)
        self._by_tab: dict[int, tuple[QWidget, ...]] = {
            TIMELINE: (
                self.fit_link,
                link(
                    tr("Save as…"),
                    lambda: self.save_wanted.emit(self.timeline, tr("Save the timeline"), "timeline.png"),
                ),
            ),
            NODES: (
                link(tr("Show node"), self.table.want_node),
                link(tr("Copy"), self.table.copy),
                link(
                    tr("Save as CSV…"), lambda: self.save_wanted.emit(self.table, tr("Save the table"), "profile.csv")
                ),
            ),
        }
        tools = (*(t for links in self._by_tab.values() for t in links), self.trace, self.colours)
        self.pages = Pages({"Timeline": self.timeline, "Nodes": self.table}, tools)
        self.pages.pages.addWidget(self._no_timeline)
        self.pages.shown.connect(self._show_tab)
        return self.pages

    def _connect(self) -> None:
        super()._connect()
        session = self._session
        self._previews = Previews(self, cache_size=0)  # each run has a number of its own
        self._previews.ready.connect(lambda slot, key, run: self._show_run(run))
        session.selection_changed.connect(self._selected)
        self.timeline.nodes_chosen.connect(session.select)
        self.timeline.node_wanted.connect(self.node_wanted)
        self.table.node_chosen.connect(lambda node: session.select((node,)))
        self.table.node_wanted.connect(self.node_wanted)
        self.colours.edited.connect(lambda: self.mode_wanted.emit(self.colours.get() or "kind"))

    # -- running

    def options(self) -> ProfileOptions:
        """The chosen options; the trace is written to the document's working folder."""
        folder = self._session.open_document.store.folder
        return replace(self.form.value(), trace=str(folder / "profile.json"))

    def colour_chosen(self, mode: str) -> None:
        """Profile the model if the graph shall be coloured by a profile and there is none."""
        if mode in COLOURS:
            if self.state.result is None and self.state.error is None:
                self.run()
            self._emit_overlays()

    # -- display

    def show_result(self, result: MeasurementResult | None) -> None:
        """Show the table, slowest first, and the timeline."""
        document = self._session.document
        rows = sorted(result.rows, key=lambda r: -r["seconds"]) if result else []
        self.table.show_rows(drop_empty_columns([row_of(r) for r in rows]))
        timeline = result.more.get("timeline", {}) if result else {}
        self._number += 1
        self._previews.forget(SLOT)
        if (
            document and isinstance(timeline, dict) and len(timeline.get("spans", ())) > MANY
        ):  # too many for the UI thread
            graph = document.graph
            self._previews.ask(SLOT, self._number, lambda stop: run_of(timeline, graph) or Run(0.0))
            self._show_run(None)
        else:
            self._show_run(run_of(timeline, document.graph) if document else None)
        self._emit_overlays()

    def _show_run(self, run: Run | None) -> None:
        self.timeline.show_run(run if run and run.lanes else None)
        self._show_tab(self.pages.tabs.currentIndex())
        self._selected(self._session.selection)

    def _show_tab(self, at: int) -> None:
        has_timeline = self.timeline.run is not None
        self.pages.pages.setCurrentIndex(2 if at == TIMELINE and not has_timeline else at)
        for tab, tools in self._by_tab.items():
            for tool in tools:
                tool.setVisible(tab == at and (has_timeline or at != TIMELINE))

    def refresh(self) -> None:
        """Show the state of the run."""
        super().refresh()
        self.trace.setEnabled(self.trace_file is not None)
        missing = self.state.result is not None and self.trace_file is None
        self.trace.setToolTip(GONE if missing else tr("Chrome trace, for Perfetto and chrome://tracing"))
        self._emit_overlays()

    @property
    def trace_file(self) -> Path | None:
        """The trace file of the last run, if it exists."""
        result = self.state.result
        path = Path(str(result.summary.get("trace", ""))) if result else None
        return path if path and path.suffix == ".json" and path.is_file() else None

    def summary(self, result: MeasurementResult) -> str:
        """Time of a run without and with the profiler, and memory, as rich text."""
        summary, palette = result.summary, tokens(self)
        rounding = sum(r["rounding"] for r in result.rows)
        total = sum(r["seconds"] for r in result.rows)
        pace = summary["batch"] / summary["plain"] if summary["plain"] else 0.0
        best = result.more.get("timeline", {}).get("seconds", 0.0)  # the run of the timeline
        parts = [
            tr(
                "<b>{}</b> a run of {} on {}",
                time_text(summary["plain"]),
                count(summary["batch"]),
                escape(str(summary["device"])),
            ),
            tr("{} samples a second", count(round(pace))) if pace >= 10 else tr("{:.2g} samples a second", pace),
            tr("{} under the profiler", time_text(summary["seconds"]))
            + (tr(", {} at best", time_text(best)) if best else ""),
            tr("rounding to formats {}", percent(rounding / total, 0)) if rounding and total else "",
            tr(
                "at most {} beside {} of weights", mebibytes(summary["peak_bytes"]), mebibytes(summary["weights_bytes"])
            ),
        ]
        text = " · ".join(p if p.startswith("<b>") else escape(p) for p in parts if p)
        omitted = result.more.get("timeline", {}).get("left_out", 0)
        notes = [OLD] if self.state.stale else []
        notes += [busy] if (busy := busy_note(summary.get("others"))) else []
        notes += [tr("the timeline omits the {} smallest operations", count(omitted))] if omitted else []
        return text + "".join(f' · <span style="color:{palette.muted}">{escape(n)}</span>' for n in notes)

    # -- node ↔ span ↔ row

    def _selected(self, ids: tuple[str, ...]) -> None:
        """Mark the graph's selection in table and timeline."""
        self.table.mark_nodes(ids)
        self.timeline.mark(ids)

    def _emit_overlays(self) -> None:
        for mode in COLOURS:
            self.overlay_changed.emit(mode, self.overlay(mode))

    def overlay(self, mode: str) -> Overlay:
        """Node values for colouring the graph."""
        title, unit = MEASURED[mode]
        key, factor = COLOURS[mode]
        result = self.state.result
        values = {str(r["node"]): factor * float(r[key]) for r in result.rows} if result else {}
        note = tr("being measured") if self.state.job else tr("profile the model first")
        return Overlay(title, values, unit, (OLD if self.state.stale else "") if result else note)


def row_of(row: dict[str, Any]) -> dict[str, Any]:
    """A table row with rounded numbers, so that columns sort."""
    values = {
        "node": row["node"], "time (ms)": 1e3 * row["seconds"], "share": row["share"], "op": row["op"],
        "calls": row.get("calls", 1), "rounding (ms)": 1e3 * row["rounding"] or None,
        "GPU (ms)": 1e3 * row["device_seconds"] or None, "allocated (KiB)": row["allocated_bytes"] / 1024 or None,
        "GFLOP/s": row["gflop_s"], "largest operation": row["largest"],
    }  # fmt: skip
    return {k: float(f"{v:.4g}") if isinstance(v, float) and k != "share" else v for k, v in values.items()}


def drop_empty_columns(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without empty columns, such as those of a GPU."""
    used = {k for row in rows for k, v in row.items() if v is not None}
    return [{k: v for k, v in row.items() if k in used} for row in rows]
