"""Profile: where the time and the memory of a run go, node by node, along the time and on the graph."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from espalier.app.canvas.colouring import MEASURED, Overlay
from espalier.app.features.kernels.charts.run_lanes import Run, run_of
from espalier.app.features.kernels.profile_timeline import HELP, TimelineView
from espalier.app.features.kernels.state.timed import Measured
from espalier.app.features.kernels.timed import OLD, Pages, TimedPage
from espalier.app.jobs.previews import Previews
from espalier.app.widgets.forms.fields import Choice, tokens
from espalier.app.widgets.heading import empty_state, link
from espalier.app.widgets.table import Table
from espalier.app.words import count, mebibytes, percent, time_words
from espalier.kernels.bench.others import busy_words
from espalier.passes.analysis.profile import ProfileOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session

TIMELINE, NODES = range(2)
SLOT, MANY = "run", 1500  # spans that the window's own thread arranges at most
# Colours of the graph: mode → what a node's row tells, in the mode's unit.
COLOURS: dict[str, tuple[str, float]] = {"time": ("seconds", 1e3), "memory": ("allocated_bytes", 1 / 1024)}
GONE = "The project keeps totals, not the trace. Profile again to save it."
NO_TIMELINE = "The timeline of this run is not known. Profile again to see it."


class ProfilePage(TimedPage):
    """`trace_wanted`: the Chrome trace is to be saved."""

    trace_wanted = Signal()

    NAME, TITLE, OPTIONS, VERB = "profile", "Profile", ProfileOptions, "Profile"
    FIELDS = ("device", "batch_size", "sizes", "runs", "data", "split")
    NO_MODEL = "Open a model to see the time of each node."
    FIRST = (
        "Not profiled yet. A run under torch's profiler shows time, memory and operations of each node, beside runs "
        "without it."
    )

    def __init__(self, session: Session) -> None:
        self.table, self.timeline = Table(), TimelineView()
        self.colours = Choice((None, *COLOURS), ("Colour by …", *(f"by {MEASURED[m][0]}" for m in COLOURS)))
        self.colours.setAccessibleName("Colour the graph")
        self.trace = link("Save the trace…", lambda: self.trace_wanted.emit())
        self._no_timeline = empty_state(NO_TIMELINE)
        self._number = 0  # of the result that is shown
        super().__init__(session)

    def body(self) -> QWidget:
        """Timeline and nodes under tabs."""
        self.whole = link("Whole", self.timeline.fit)
        self.whole.setToolTip(HELP)
        self._by_tab: dict[int, tuple[QWidget, ...]] = {
            TIMELINE: (self.whole, link("Save as…", lambda: self.save_wanted.emit(self.timeline, "Save the timeline",
                                                                                 "timeline.png"))),
            NODES: (link("Show node", self.table.want_node), link("Copy", self.table.copy),
                    link("Save as CSV…", lambda: self.save_wanted.emit(self.table, "Save the table", "profile.csv"))),
        }  # fmt: skip
        tools = (*(t for held in self._by_tab.values() for t in held), self.trace, self.colours)
        self.pages = Pages({"Timeline": self.timeline, "Nodes": self.table}, tools)
        self.pages.pages.addWidget(self._no_timeline)
        self.pages.shown.connect(self._show_tab)
        return self.pages

    def _connect(self) -> None:
        super()._connect()
        session = self._session
        self._previews = Previews(self)
        self._previews.ready.connect(lambda slot, key, run: self._show_run(run))
        session.selection_changed.connect(self._selected)
        self.timeline.nodes_chosen.connect(session.select)
        self.timeline.node_wanted.connect(self.node_wanted)
        self.table.node_chosen.connect(lambda node: session.select((node,)))
        self.table.node_wanted.connect(self.node_wanted)
        self.colours.edited.connect(lambda: self.mode_wanted.emit(self.colours.get() or "kind"))

    # -- running

    def options(self) -> ProfileOptions:
        """What was chosen; the trace is written beside the document's weights, to be saved."""
        folder = self._session.open_document.store.folder
        return replace(self.form.value(), trace=str(folder / "profile.json"))

    def colour_chosen(self, mode: str) -> None:
        """The graph is coloured by what is profiled: do it, where nothing is known yet."""
        if mode in COLOURS:
            if self.held.made is None and self.held.error is None:
                self.run()
            self._tell_colours()

    # -- what is shown

    def show_made(self, made: Measured | None) -> None:
        """The table, the slowest first, and the timeline."""
        document = self._session.document
        rows = sorted(made.rows, key=lambda r: -r["seconds"]) if made else []
        self.table.show_rows(told_columns([row_of(r) for r in rows]))
        told = made.more.get("timeline", {}) if made else {}
        self._number += 1
        self._previews.forget(SLOT)
        if (
            document and isinstance(told, dict) and len(told.get("spans", ())) > MANY
        ):  # too many for the window's thread
            graph = document.graph
            self._previews.ask(SLOT, self._number, lambda stop: run_of(told, graph) or Run(0.0))
            self._show_run(None)
        else:
            self._show_run(run_of(told, document.graph) if document else None)
        self._tell_colours()

    def _show_run(self, run: Run | None) -> None:
        self.timeline.show_run(run if run and run.lanes else None)
        self._show_tab(self.pages.tabs.currentIndex())
        self._selected(self._session.selection)

    def _show_tab(self, at: int) -> None:
        known = self.timeline.run is not None
        self.pages.pages.setCurrentIndex(2 if at == TIMELINE and not known else at)
        for tab, tools in self._by_tab.items():
            for tool in tools:
                tool.setVisible(tab == at and (known or at != TIMELINE))

    def refresh(self) -> None:
        """Show how the run stands."""
        super().refresh()
        self.trace.setEnabled(self.trace_file is not None)
        gone = self.held.made is not None and self.trace_file is None
        self.trace.setToolTip(GONE if gone else "A Chrome trace, which Perfetto and chrome://tracing show")
        self._tell_colours()

    @property
    def trace_file(self) -> Path | None:
        """The trace of the last run, where it is still here."""
        made = self.held.made
        place = Path(str(made.summary.get("trace", ""))) if made else None
        return place if place and place.suffix == ".json" and place.is_file() else None

    def told(self, made: Measured) -> str:
        """Time of a run, without and with the profiler, and memory."""
        found, look = made.summary, tokens(self)
        rounding = sum(r["rounding"] for r in made.rows)
        whole = sum(r["seconds"] for r in made.rows)
        pace = found["batch"] / found["plain"] if found["plain"] else 0.0
        best = made.more.get("timeline", {}).get("seconds", 0.0)  # that is the run of the timeline
        parts = [
            f"<b>{time_words(found['plain'])}</b> a run of {count(found['batch'])} on {escape(str(found['device']))}",
            f"{count(round(pace))} samples a second" if pace >= 10 else f"{pace:.2g} samples a second",
            f"{time_words(found['seconds'])} under the profiler" + (f", {time_words(best)} at best" if best else ""),
            f"rounding to formats {percent(rounding / whole, 0)}" if rounding and whole else "",
            f"at most {mebibytes(found['peak_bytes'])} beside {mebibytes(found['weights_bytes'])} of weights",
        ]
        text = " · ".join(p if p.startswith("<b>") else escape(p) for p in parts if p)
        left = made.more.get("timeline", {}).get("left_out", 0)
        notes = [OLD] if self.held.stale else []
        notes += [busy] if (busy := busy_words(found.get("others"))) else []
        notes += [f"the timeline leaves {count(left)} of the smallest operations out"] if left else []
        return text + "".join(f' · <span style="color:{look.muted}">{escape(n)}</span>' for n in notes)

    # -- node ↔ span ↔ row

    def _selected(self, ids: tuple[str, ...]) -> None:
        """The graph's selection: mark it in the table and along the time."""
        self.table.mark_nodes(ids)
        self.timeline.mark(ids)

    def _tell_colours(self) -> None:
        for mode in COLOURS:
            self.overlay_changed.emit(mode, self.overlay(mode))

    def overlay(self, mode: str) -> Overlay:
        """Values of the nodes for the colours of the graph."""
        title, unit = MEASURED[mode]
        key, factor = COLOURS[mode]
        made = self.held.made
        values = {str(r["node"]): factor * float(r[key]) for r in made.rows} if made else {}
        note = "being measured" if self.held.job else "profile the model first"
        return Overlay(title, values, unit, (OLD if self.held.stale else "") if made else note)


def row_of(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the table; figures stay numbers, so that they sort."""
    shown = {
        "node": row["node"], "time (ms)": 1e3 * row["seconds"], "share": row["share"], "op": row["op"],
        "calls": row.get("calls", 1), "rounding (ms)": 1e3 * row["rounding"] or None,
        "GPU (ms)": 1e3 * row["device_seconds"] or None, "allocated (KiB)": row["allocated_bytes"] / 1024 or None,
        "GFLOP/s": row["gflop_s"], "largest operation": row["largest"],
    }  # fmt: skip
    return {k: float(f"{v:.4g}") if isinstance(v, float) and k != "share" else v for k, v in shown.items()}


def told_columns(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without columns of which nothing is known, such as a GPU's."""
    known = {k for row in rows for k, v in row.items() if v is not None}
    return [{k: v for k, v in row.items() if k in known} for row in rows]
