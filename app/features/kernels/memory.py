"""Tab Memory of the panel Kernels: ideal and real bytes by ledger line, and further savings with their passes."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QScrollArea, QSplitter, QVBoxLayout, QWidget

from espalier.app.features.kernels.charts.ledger import LedgerChart
from espalier.app.features.kernels.measurement_tab import OLD, MeasurementTab, Pages
from espalier.app.features.kernels.state.measurement import MeasurementResult
from espalier.app.number_text import mebibytes, percent
from espalier.app.translation import message, tr, translated
from espalier.app.widgets.forms.fields import tokens
from espalier.app.widgets.heading import link, muted
from espalier.app.widgets.table import Table
from espalier.passes.analysis.memory import MemoryOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session

LEDGER, MORE = range(2)
ACTS = translated({"quantize": "Quantise…", "pack_mx": "MX weights…"})
ENOUGH = tr("No further saving of relevant size.")


class MemoryPage(MeasurementTab):
    """Chart and table of the ledger; further savings."""

    NAME, TITLE, OPTIONS, VERB = "memory", tr("Memory ledger"), MemoryOptions, tr("Count and measure")
    FIELDS = ("device", "batch_size", "sizes", "data", "split")
    NO_MODEL = tr("Open a model to see its memory by layer and what formats save.")
    FIRST = tr(
        "Not measured yet. The ledger lists what the formats save in the file, ideal and real, and the memory of the "
        "model and of a run."
    )

    def __init__(self, session: Session) -> None:
        self.chart, self.legend, self.table = LedgerChart(), QLabel(wordWrap=True), Table()
        self.table.setAccessibleName(tr("Memory ledger"))
        self.gains: list[tuple[str, str, tuple[str, ...]]] = []
        super().__init__(session)

    # -- building

    def body(self) -> QWidget:
        """Chart at the left, ledger and further savings at the right."""
        left, column = QWidget(), QVBoxLayout()
        column.setContentsMargins(8, 0, 0, 4)
        column.setSpacing(2)
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        self.legend.setContentsMargins(4, 0, 12, 0)
        column.addWidget(self.chart, 1)
        column.addWidget(self.legend)
        left.setLayout(column)
        self._gains, self._listed = QWidget(), QVBoxLayout()
        self._listed.setContentsMargins(12, 4, 12, 8)
        self._listed.setSpacing(8)
        self._gains.setLayout(self._listed)
        self._gains.setProperty("surface", "panel")
        self._gains.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QScrollArea.Shape.NoFrame)
        area.setWidget(self._gains)
        self._tools = (
            link(tr("Copy"), self.table.copy),
            link(tr("Save as CSV…"), lambda: self.save_wanted.emit(self.table, tr("Save the ledger"), "memory.csv")),
        )
        chart = link(
            tr("Save the chart…"), lambda: self.save_wanted.emit(self.chart, tr("Save the chart"), "memory.png")
        )
        self.pages = Pages({"Ledger": self.table, "Save more": area}, (*self._tools, chart))
        self.pages.shown.connect(lambda at: [t.setVisible(at == LEDGER) for t in self._tools])
        split = QSplitter(Qt.Orientation.Horizontal)
        split.setHandleWidth(1)
        for part in (left, self.pages):
            split.addWidget(part)
        split.setSizes([480, 480])
        return split

    def _connect(self) -> None:
        super()._connect()
        self.chart.themed.connect(lambda: self.legend.setText(self.chart.legend()))

    # -- display

    def show_result(self, result: MeasurementResult | None) -> None:
        """Show chart, table and savings."""
        rows = result.rows if result else ()
        before = {r["line"]: r["bytes"] for r in self.state.before.rows} if self.state.before else {}
        self.chart.show_rows(rows)
        self.legend.setText(self.chart.legend())
        self.table.show_rows([line_of(r, before) for r in rows])
        self._show_gains(result)

    def _show_gains(self, result: MeasurementResult | None) -> None:
        while (item := self._listed.takeAt(0)) is not None:
            if widget := item.widget():
                widget.hide()
                widget.deleteLater()
        self.gains = gains_of(result)
        for gain in self.gains:
            self._listed.addWidget(self._gain(*gain))
        if not self.gains:
            self._listed.addWidget(muted(ENOUGH))
        self._listed.addStretch(1)
        self.pages.tabs.setTabText(MORE, tr("Save more {}", len(self.gains)) if self.gains else tr("Save more"))

    def _gain(self, about: str, act: str, nodes: tuple[str, ...]) -> QWidget:
        widget, row, text = QWidget(), QHBoxLayout(), QLabel(message(about), wordWrap=True)
        text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(text, 1)
        if act in ACTS:
            row.addWidget(link(ACTS[act], lambda: self.take(act, nodes)), 0, Qt.AlignmentFlag.AlignTop)
        widget.setLayout(row)
        return widget

    def take(self, act: str, nodes: tuple[str, ...]) -> None:
        """Select the nodes of a saving and open its pass."""
        if nodes:
            self._session.select(nodes)
        self.pass_wanted.emit(act)

    def summary(self, result: MeasurementResult) -> str:
        """File and memory sizes against float32, ideal saving, and the change since the last state, as rich text."""
        summary, palette = result.summary, tokens(self)
        saving = summary["saving"]
        parts = [tr("<b>{}</b> in the packed file, {} float32", mebibytes(summary["file_bytes"]), _relation(saving))]
        if "saving_of_formats" in summary:
            parts.append(
                tr(
                    "ideal saving of the formats {} of the {} with a format",
                    percent(summary["saving_of_formats"]),
                    percent(summary["share_in_formats"], 0),
                )
            )
        if "model_in_memory" in summary:
            plain = summary["float_bytes"]
            size = summary["model_in_memory"] + summary.get("rounded_copies_in_memory", 0)
            parts.append(
                tr("<b>{}</b> in memory, {} float32", mebibytes(size), _relation(1 - size / plain if plain else 0.0))
            )
            parts.append(tr("a run takes {} more", mebibytes(summary["most_in_a_run_beside"])))
        else:
            parts.append(tr("memory not measured: the model's weights are missing"))
        text = " · ".join(parts)
        if change := memory_change(result, self.state.before):
            text += f' · <span style="color:{palette.accent}">{escape(change)}</span>'
        return text + (f' · <span style="color:{palette.muted}">{OLD}</span>' if self.state.stale else "")


def _relation(saving: float) -> str:
    """Text of a saving: `38 % less than`, `2 % more than`, `as much as`."""
    if abs(saving) < 0.0005:
        return tr("as much as")
    return tr("{} {} than", percent(abs(saving)), tr("less") if saving > 0 else tr("more"))


def memory_change(result: MeasurementResult, before: MeasurementResult | None) -> str:
    """Change of the model's memory since the previous measurement; empty if equal or unknown."""
    if before is None or "model_in_memory" not in result.summary or "model_in_memory" not in before.summary:
        return ""
    before_bytes, after_bytes = (
        m.summary["model_in_memory"] + m.summary.get("rounded_copies_in_memory", 0) for m in (before, result)
    )
    return (
        tr("in memory {} → {} since the edit", mebibytes(before_bytes), mebibytes(after_bytes))
        if before_bytes != after_bytes
        else ""
    )


def line_of(row: dict[str, Any], before: dict[str, int]) -> dict[str, Any]:
    """A table row in KiB; `before`: bytes by line of the previous state."""
    cells = {
        "line": row["line"], "real (KiB)": row["bytes"] / 1024,
        "saving (%)": 100 * row["saving"] if row["saving"] is not None else None,
        "float32 (KiB)": row["float_bytes"] / 1024 or None, "codes alone (KiB)": row["ideal"] / 1024 or None,
        "elements": row["elements"] or None,
    }  # fmt: skip
    if before:
        was = before.get(row["line"])
        cells["before (KiB)"] = was / 1024 if was is not None else None
    return {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in cells.items()}


def gains_of(result: MeasurementResult | None) -> list[tuple[str, str, tuple[str, ...]]]:
    """Further savings: text, pass name and nodes."""
    gains = result.more.get("gains", ()) if result else ()
    return [(str(g[0]), str(g[2]), tuple(map(str, g[3]))) for g in gains if isinstance(g, list | tuple) and len(g) == 4]
