"""Tab Compile of the panel Kernels: speed-up and break-even of torch.compile on the model or a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCompleter, QLabel, QScrollArea, QSplitter, QVBoxLayout, QWidget

from espalier.app.features.kernels.charts.compile_payback import EACH, SUMMED, Calls, PaybackChart
from espalier.app.features.kernels.measurement_tab import OLD, MeasurementTab, Pages, disable_item, titled
from espalier.app.features.kernels.state.measurement import MeasurementResult
from espalier.app.number_text import count, figure, percent, plural, time_text
from espalier.app.translation import message, tr
from espalier.app.widgets.forms.fields import Choice, Line, tokens
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import link, muted
from espalier.app.widgets.table import Table
from espalier.model.borders import tried
from espalier.model.errors import OptionsError
from espalier.passes.analysis.compile import COMPILER, CompileOptions, has_compiler
from espalier.passes.timed.compile_explanation import RESTLESS

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.model.graph.graph import Graph

WHOLE, SELECTED, MODULE = "", "selected", "module"
NO_BREAKS = tr("None: the model is one graph.")
MODES = tr("Only inductor has modes.")
LACKING = tr("inductor is unavailable: it needs a C++ compiler (apt install g++).")


class CompilePage(MeasurementTab):
    """Compiles and times the whole model, the selected nodes, or a module."""

    NAME, TITLE, OPTIONS, VERB = "compile", tr("Compile"), CompileOptions, tr("Compile and time")
    FIELDS = ("backend", "mode", "dynamic", "device", "batch_size", "sizes", "runs", "data", "split")
    NO_MODEL = tr("Open a model to measure torch.compile on this machine.")
    FIRST = tr(
        "Not compiled yet. Eager and compiled calls run interleaved. They show first call, later calls, break-even, "
        "graph breaks, and why it is faster or slower here."
    )

    BUSY = tr(
        "The first compiled call traces the model and builds code, which takes seconds to minutes. "
        "Then all versions are timed, interleaved."
    )

    def __init__(self, session: Session) -> None:
        self.part = Choice((WHOLE, SELECTED, MODULE), (tr("the whole model"), tr("the selected nodes"), tr("a module")))
        self.module = Line("encoder.layer.0")
        self.module.setAccessibleName(tr("Module"))
        self.lacking = muted(LACKING)
        self.versions, self.calls = Table(), Table()
        self.calls.setAccessibleName(tr("Compiled calls"))
        self.versions.setAccessibleName(tr("Compiled versions"))
        self.why, self.chart, self.legend = QLabel(wordWrap=True), PaybackChart(), QLabel()
        self.kind = Choice((SUMMED, EACH), (tr("total time"), tr("time per call")))
        self.kind.setAccessibleName(tr("Kind of chart"))
        super().__init__(session)

    # -- building

    def extra(self) -> tuple[QWidget, ...]:
        """Choice of the part to compile."""
        return titled("part", self.part, self.form), self.module, self.lacking

    def body(self) -> QWidget:
        """Table and explanation at the left, chart at the right."""
        text = QWidget()
        box = QVBoxLayout(text)
        box.setContentsMargins(12, 4, 12, 8)
        self.why.setTextFormat(Qt.TextFormat.RichText)
        self.why.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        box.addWidget(self.why)
        box.addStretch(1)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QScrollArea.Shape.NoFrame)
        text.setProperty("surface", "panel")
        text.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        area.setWidget(text)
        summary = QSplitter(Qt.Orientation.Vertical)
        summary.setHandleWidth(1)
        for part in (self.versions, area):
            summary.addWidget(part)
        summary.setSizes([122, 100])
        summary.setStretchFactor(1, 1)
        copy = link(tr("Copy"), lambda: self._table.copy())
        save = link(tr("Save as CSV…"), lambda: self.save_wanted.emit(self._table, tr("Save the table"), "compile.csv"))
        self.pages = Pages({"Times": summary, "Calls": self.calls}, (copy, save))
        split = QSplitter(Qt.Orientation.Horizontal)
        split.setHandleWidth(1)
        for part in (self.pages, self._charts()):
            split.addWidget(part)
        split.setSizes([560, 420])
        split.setStretchFactor(0, 3)
        split.setStretchFactor(1, 2)
        return split

    def _charts(self) -> QWidget:
        widget, bar = QWidget(), FlowLayout(spacing=8)
        bar.setContentsMargins(12, 2, 12, 2)
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        save = link(tr("Save as…"), lambda: self.save_wanted.emit(self.chart, tr("Save the chart"), "compile.png"))
        for part in (self.kind, self.legend, save):
            bar.addWidget(part)
        box = QVBoxLayout(widget)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self.chart, 1)
        return widget

    def _connect(self) -> None:
        super()._connect()
        self._session.selection_changed.connect(lambda _: self._offer_part())
        self.part.edited.connect(self._offer_part)
        self.kind.edited.connect(self._draw)
        self.chart.themed.connect(self._update_legend)
        for name in ("backend", "device"):
            self.form.editors[name].edited.connect(self._update_modes)

    @property
    def _table(self) -> Table:
        return self.calls if self.pages.tabs.currentIndex() else self.versions

    # -- settings

    def _opened(self) -> None:
        super()._opened()
        document, result = self._session.document, self.state.result
        graph = document.graph if document else None
        self.module.setCompleter(QCompleter(modules_of(graph), self.module))
        part = result.options.part if result else ""
        self.part.put(MODULE if part and "," not in part else WHOLE)
        self.module.put(part if self.part.get() == MODULE else "")
        self._offer_part()
        self._update_modes()

    def _offer_part(self) -> None:
        chosen = len(self._session.selection)
        self.part.setItemText(1, tr("the selected {}", plural(chosen, "node")) if chosen else tr("the selected nodes"))
        disable_item(
            self.part, 1, "" if chosen else tr("No node is selected: select some on the graph or in the outline.")
        )
        self.module.setVisible(self.part.get() == MODULE)

    def _update_modes(self) -> None:
        """Disable unavailable backends with the reason, and modes without inductor."""
        editors = self.form.editors
        without = editors["device"].get() == "cpu" and not has_compiler()
        disable_item(editors["backend"], editors["backend"].values.index("inductor"), COMPILER if without else "")
        self.lacking.setVisible(without)
        inductor = editors["backend"].get() == "inductor"
        editors["mode"].setEnabled(inductor)
        editors["mode"].setToolTip(tr("Optimisation effort of inductor") if inductor else MODES)

    def options(self) -> CompileOptions:
        """The chosen options; raises OptionsError if no module is named."""
        kind, options = self.part.get(), self.form.value()
        if kind == MODULE and not self.module.text().strip():
            raise OptionsError("No module is named.", "Write a module's path, or choose the whole model.")
        part = {WHOLE: "", SELECTED: ", ".join(self._session.selection), MODULE: self.module.text().strip()}[kind]
        return replace(options, part=part)

    # -- display

    def show_result(self, result: MeasurementResult | None) -> None:
        """Show versions, calls, explanation and chart."""
        self.versions.show_rows([version_of(r) for r in result.rows] if result else [])
        calls = calls_of(result)
        self.calls.show_rows(call_rows(calls))
        self.chart.show_calls(calls, self.kind.get())
        self._update_legend()
        self.why.setText(why(result) if result else "")

    def _draw(self) -> None:
        self.chart.show_calls(tuple(self.chart.calls.values()), self.kind.get())
        self._update_legend()

    def _update_legend(self) -> None:
        self.legend.setText(self.chart.legend())

    def summary(self, result: MeasurementResult) -> str:
        """Speed-up, break-even and settings as rich text."""
        summary, palette = result.summary, tokens(self)
        ratio, even = summary["speedup"], summary["break_even_calls"]
        faster = tr("{} × as fast as eager", figure(ratio))
        if inconclusive(result.rows):  # the reason is under Why
            colour, sign, faster = palette.muted, "≈ ", tr("{}, inconclusive: times vary", faster)
        else:
            colour = palette.good if ratio > 1.02 else palette.bad if ratio < 0.98 else palette.muted
            sign = "✓ " if ratio > 1.02 else "✗ " if ratio < 0.98 else ""
        paid = tr("compiling {}, ", time_text(max(summary["compile_seconds"], 0.0))) + (
            tr("paid back after {}", plural(int(even), "call")) if even else tr("never paid back")
        )
        way = summary["backend"] + (f" {summary['mode']}" if summary["mode"] != "default" else "")
        parts = [
            paid,
            tr("{} on {}", way, summary["device"]),
            part_title(result.options.part),
            plural(summary["graphs"], "graph"),
        ]
        if summary["max_error"]:
            parts.append(tr("results differ by {} at most", figure(summary["max_error"])))
        text = f'<span style="color:{colour}"><b>{sign}{faster}</b></span> · ' + " · ".join(map(escape, parts))
        return text + (f' · <span style="color:{palette.muted}">{OLD}</span>' if self.state.stale else "")


def inconclusive(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether the spread of the times is too large to tell eager and compiled apart."""
    by_version = {r["version"]: r for r in rows}
    eager, compiled = by_version.get("eager"), by_version.get("compiled")
    if eager is None or compiled is None or max(eager["spread"], compiled["spread"]) <= RESTLESS:
        return False
    fast, slow = sorted((eager, compiled), key=lambda r: r["seconds"])
    return fast["seconds"] * (1 + fast["spread"]) > slow["seconds"] * (1 - slow["spread"])


def modules_of(graph: Graph | None) -> list[str]:
    """Paths of all modules with nodes."""
    paths = {n.target if n.call == "call_module" else n.module_path for n in graph} - {""} if graph else set[str]()
    return sorted({".".join(p.split(".")[:k]) for p in paths for k in range(1, p.count(".") + 2)})


def part_title(part: str) -> str:
    """Title of the compiled part."""
    names = [p for p in part.split(",") if p.strip()]
    return tr("the whole model") if not names else names[0].strip() if len(names) == 1 else plural(len(names), "node")


def version_of(row: dict[str, Any]) -> dict[str, Any]:
    """A table row with rounded numbers, so that columns sort."""
    row_values = {
        "version": row["version"], "first (ms)": 1e3 * row["first"], "later (ms)": 1e3 * row["seconds"],
        "± %": 100 * row["spread"], "least (ms)": 1e3 * row["least"], "calls": row["calls"], "× eager": row["speedup"],
    }  # fmt: skip
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row_values.items()}


def calls_of(result: MeasurementResult | None) -> tuple[Calls, ...]:
    """The calls of each version; empty if the project's data is malformed."""
    calls = result.more.get("calls", {}) if result else {}

    def read() -> tuple[Calls, ...]:
        return tuple(Calls(n, float(c["first"]), tuple(map(float, c["later"]))) for n, c in calls.items() if c["later"]
                     and n in ("eager", "captured", "compiled"))  # fmt: skip

    return tried(read, ())


def call_rows(calls: tuple[Calls, ...]) -> list[dict[str, Any]]:
    """One row per call, one column per version, in milliseconds."""
    count_ = max((len(c.later) for c in calls), default=-1) + 1
    rows = []
    for k in range(count_):
        row: dict[str, Any] = {"call": k + 1}
        for each in calls:
            times = (each.first, *each.later)
            row[f"{each.version} (ms)"] = float(f"{1e3 * times[k]:.4g}") if k < len(times) else None
        rows.append({**row, "": tr("the first, which compiles") if k == 0 else ""})
    return rows


def why(result: MeasurementResult) -> str:
    """Explanation of the speed-up, graph breaks, and its basis as rich text."""
    summary = result.summary
    breaks = [str(b) for b in result.more.get("breaks", ())]
    lines = "".join(f"<li>{escape(b)}</li>" for b in breaks)
    listed = f"<ol style='margin:0 0 0 -20px'>{lines}</ol>" if breaks else NO_BREAKS
    title = tr("Graph breaks: {}", count(len(breaks))) if breaks else tr("Graph breaks")
    shares = tr(
        "{} operations a call, {} of their time in matrix products and convolutions.",
        count(summary["operations"]),
        percent(summary["products_share"], 0),
    )
    parts = [
        tr("<b>Why</b><br>{}", escape(message(summary["why"]))),
        f"<b>{title}</b><br>{listed}",
        tr("<b>Basis</b><br>{}", shares),
    ]
    return "".join(f"<p style='margin:0 0 8px 0'>{p}</p>" for p in parts)
