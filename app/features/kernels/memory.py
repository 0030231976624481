"""Memory: the ledger of the model, ideal against real, line by line; and what would save more, with a way to it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QScrollArea, QSplitter, QVBoxLayout, QWidget

from espalier.app.features.kernels.charts.ledger import LedgerChart
from espalier.app.features.kernels.state.timed import Measured
from espalier.app.features.kernels.timed import OLD, Pages, TimedPage
from espalier.app.widgets.forms.fields import tokens
from espalier.app.widgets.heading import link, muted
from espalier.app.widgets.table import Table
from espalier.app.words import mebibytes, percent
from espalier.passes.analysis.memory import MemoryOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session

LEDGER, MORE = range(2)
ACTS = {"quantize": "Quantise…", "pack_mx": "MX weights…"}
ENOUGH = "No further saving: what is left is small."


class MemoryPage(TimedPage):
    """Bars and table of the ledger; ways to save more."""

    NAME, TITLE, OPTIONS, VERB = "memory", "Memory ledger", MemoryOptions, "Count and measure"
    FIELDS = ("device", "batch_size", "sizes", "data", "split")
    NO_MODEL = "Open a model to see its memory by layer and what formats save."
    FIRST = (
        "Not measured yet. Line by line: what the formats save in the file, ideally and in fact, and what the model "
        "and a run take in memory."
    )

    def __init__(self, session: Session) -> None:
        self.chart, self.legend, self.table = LedgerChart(), QLabel(wordWrap=True), Table()
        self.gains: list[tuple[str, str, tuple[str, ...]]] = []
        super().__init__(session)

    # -- building

    def body(self) -> QWidget:
        """Bars at the left; the ledger and the ways to save more at the right."""
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
            link("Copy", self.table.copy),
            link("Save as CSV…", lambda: self.save_wanted.emit(self.table, "Save the ledger", "memory.csv")),
        )
        chart = link("Save the chart…", lambda: self.save_wanted.emit(self.chart, "Save the chart", "memory.png"))
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

    # -- what is shown

    def show_made(self, made: Measured | None) -> None:
        """Bars, table and ways."""
        rows = made.rows if made else ()
        before = {r["line"]: r["bytes"] for r in self.held.before.rows} if self.held.before else {}
        self.chart.show_rows(rows)
        self.legend.setText(self.chart.legend())
        self.table.show_rows([line_of(r, before) for r in rows])
        self._show_gains(made)

    def _show_gains(self, made: Measured | None) -> None:
        while (item := self._listed.takeAt(0)) is not None:
            if widget := item.widget():
                widget.hide()
                widget.deleteLater()
        self.gains = gains_of(made)
        for gain in self.gains:
            self._listed.addWidget(self._gain(*gain))
        if not self.gains:
            self._listed.addWidget(muted(ENOUGH))
        self._listed.addStretch(1)
        self.pages.tabs.setTabText(MORE, f"Save more {len(self.gains)}" if self.gains else "Save more")

    def _gain(self, words: str, act: str, nodes: tuple[str, ...]) -> QWidget:
        held, row, text = QWidget(), QHBoxLayout(), QLabel(words, wordWrap=True)
        text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(text, 1)
        if act in ACTS:
            row.addWidget(link(ACTS[act], lambda: self.take(act, nodes)), 0, Qt.AlignmentFlag.AlignTop)
        held.setLayout(row)
        return held

    def take(self, act: str, nodes: tuple[str, ...]) -> None:
        """Select the nodes that a way is about, and ask for its options."""
        if nodes:
            self._session.select(nodes)
        self.pass_wanted.emit(act)

    def told(self, made: Measured) -> str:
        """The file and the memory against float, the ideal, and what has changed since the model was another."""
        found, look = made.summary, tokens(self)
        saving = found["saving"]
        parts = [f"<b>{mebibytes(found['file_bytes'])}</b> in the packed file, {_against(saving)} float32"]
        if "saving_of_formats" in found:
            parts.append(f"formats ideally save {percent(found['saving_of_formats'])} of the "
                         f"{percent(found['share_in_formats'], 0)} that have one")  # fmt: skip
        if "model_in_memory" in found:
            plain = found["float_bytes"]
            held = found["model_in_memory"] + found.get("rounded_copies_in_memory", 0)
            parts.append(f"<b>{mebibytes(held)}</b> in memory, {_against(1 - held / plain if plain else 0.0)} float32")
            parts.append(f"a run takes {mebibytes(found['most_in_a_run_beside'])} beside")
        else:
            parts.append("not measured in memory: the model has no weights here")
        text = " · ".join(parts)
        if change := since(made, self.held.before):
            text += f' · <span style="color:{look.accent}">{escape(change)}</span>'
        return text + (f' · <span style="color:{look.muted}">{OLD}</span>' if self.held.stale else "")


def _against(saving: float) -> str:
    """38 % less than, 2 % more than, as much as."""
    if abs(saving) < 0.0005:
        return "as much as"
    return f"{percent(abs(saving))} {'less' if saving > 0 else 'more'} than"


def since(made: Measured, before: Measured | None) -> str:
    """What the model took in memory when it was measured before, and takes now; empty where that is the same."""
    if before is None or "model_in_memory" not in made.summary or "model_in_memory" not in before.summary:
        return ""
    was, now = (m.summary["model_in_memory"] + m.summary.get("rounded_copies_in_memory", 0) for m in (before, made))
    return f"in memory {mebibytes(was)} → {mebibytes(now)} since the edit" if was != now else ""


def line_of(row: dict[str, Any], before: dict[str, int]) -> dict[str, Any]:
    """A row of the table, in KiB; `before`: bytes by line of another state."""
    made = {
        "line": row["line"], "real (KiB)": row["bytes"] / 1024,
        "saving (%)": 100 * row["saving"] if row["saving"] is not None else None,
        "float32 (KiB)": row["float_bytes"] / 1024 or None, "codes alone (KiB)": row["ideal"] / 1024 or None,
        "elements": row["elements"] or None,
    }  # fmt: skip
    if before:
        was = before.get(row["line"])
        made["before (KiB)"] = was / 1024 if was is not None else None
    return {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in made.items()}


def gains_of(made: Measured | None) -> list[tuple[str, str, tuple[str, ...]]]:
    """Ways to save more: words, the pass that does it, and to which nodes."""
    told = made.more.get("gains", ()) if made else ()
    return [(str(g[0]), str(g[2]), tuple(map(str, g[3]))) for g in told if isinstance(g, list | tuple) and len(g) == 4]
