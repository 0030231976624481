"""Tab Area of the panel Hardware: area against interval of designs to choose from, with budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.features.hardware.chart import AREAS, COLUMNS, AreaFront, within
from espalier.app.features.hardware.elided_table import ElidedTable
from espalier.app.number_text import plural
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import Choice, NumberField
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import empty_state, link, muted
from espalier.model.graph.graph import Graph

if TYPE_CHECKING:
    from espalier.app.features.hardware.state.hardware import Hardware
    from espalier.app.session.session import Session

NONE = tr(
    "Area against interval, from fully folded to the useful maximum of parallelism. Compute it and choose a design."
)
OLD = tr("of an earlier state: compute again")
BUDGETS = ("lut", "dsp")
ABOUT = tr("Estimated areas of whole designs, including the FIFOs between nodes")


class FrontView(QWidget):
    """Emits `wanted` to compute the front and `save_wanted` to save the chart."""

    wanted = Signal()
    save_wanted = Signal()

    def __init__(self, session: Session, hardware: Hardware) -> None:
        super().__init__()
        self._session, self._hardware = session, hardware
        self.chart, self.table = AreaFront(), ElidedTable()
        self.table.setAccessibleName(tr("Area and interval"))
        self.area = Choice(tuple(AREAS), tuple(AREAS.values()))
        self.area.setAccessibleName(tr("Area"))
        self.budgets = {name: NumberField(int, 0, optional=True, zero=tr("any")) for name in BUDGETS}
        self.best = link(tr("Fastest within budget"), self._take_best)
        self.note = muted("", wrap=False)
        self._again = link(tr("Compute again"), self.wanted.emit)
        self._legend = QLabel()
        self._legend.setTextFormat(Qt.TextFormat.RichText)
        self._words, self._pages = empty_state(NONE), QStackedWidget()
        self._compute = link(tr("Compute"), self.wanted.emit)
        self._deferred = False  # drawing is deferred until the chart is visible
        self.note.setToolTip(ABOUT)
        self._build()
        self.area.edited.connect(self._draw)
        for field in self.budgets.values():
            field.edited.connect(self._draw)
        self.chart.picked.connect(self.take)
        self.chart.themed.connect(self._update_texts)
        self.table.activated.connect(lambda at: self._take_row(at.row()))
        hardware.front_ready.connect(self.refresh)
        session.changed.connect(lambda _: self.refresh(rows=False))

    def _build(self) -> None:
        bar = FlowLayout(spacing=8)
        bar.setContentsMargins(12, 4, 12, 4)
        parts: list[QWidget] = [self.area]
        for name, field in self.budgets.items():
            field.setAccessibleName(tr("Budget of {}", AREAS[name]))
            field.setFixedWidth(72)
            parts += [muted(f"{AREAS[name]} ≤", wrap=False), field]
        for part in (*parts, self.best, self._again, link(tr("Save as…"), self.save_wanted.emit), self.note):
            bar.addWidget(part)
        left = QWidget()
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 4)
        column.setSpacing(2)
        self._legend.setContentsMargins(12, 0, 12, 0)
        column.addWidget(self.chart, 1)
        column.addWidget(self._legend)
        split = QSplitter(Qt.Orientation.Horizontal)
        split.setHandleWidth(1)
        for each in (left, self.table):
            split.addWidget(each)
        split.setSizes([420, 380])
        page = QWidget()
        box = QVBoxLayout(page)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(split, 1)
        empty = QWidget()
        middle = QVBoxLayout(empty)
        middle.addStretch(1)
        middle.addWidget(self._words)
        middle.addWidget(self._compute, 0, Qt.AlignmentFlag.AlignHCenter)
        middle.addStretch(1)
        for each in (empty, page):
            self._pages.addWidget(each)
        outer = QHBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self._pages)

    # -- display

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """Rows of the designs."""
        return self._hardware.front.rows if self._hardware.front else ()

    def refresh(self, rows: bool = True) -> None:
        """Update the view; `rows`: the front has changed."""
        if rows:
            self.table.show_rows([{c: r.get(c) for c in COLUMNS} for r in self.rows])
        self._pages.setCurrentIndex(1 if self.rows else 0)
        busy = self._hardware.job is not None
        self._compute.setVisible(not busy)
        self._words.setText(tr("The designs are being computed.") if busy else NONE)
        self._again.setEnabled(not busy)
        self._draw()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._deferred:
            self._draw()

    def _draw(self) -> None:
        self._deferred = not self.isVisible()
        if self._deferred:  # keeps typing in a module fast
            return
        document = self._session.document
        present = present_of(self.rows, document.graph) if document and not self._hardware.front_stale else -1
        result = self._hardware.result if not self._hardware.stale else None
        emitted = {"interval": result.summary["interval"], **areas_of(result.rows)} if result else None
        self.chart.show_rows(self.rows, self.area.get(), present, self._limits, emitted)
        self._update_texts()

    @property
    def _limits(self) -> dict[str, int]:
        """The budgets that are set, by area."""
        return {name: int(f.text()) for name, f in self.budgets.items() if f.text().isdigit()}

    def _update_texts(self) -> None:
        entries = (f'<span style="color:{colour}">●</span> {escape(text)}' for text, colour in self.chart.legend())
        self._legend.setText(" &nbsp; ".join(entries))
        missing = self._hardware.front.unknown if self._hardware.front else ()
        unknown = tr("; area unknown: no estimate for {}", ", ".join(missing)) if missing else ""
        self.note.setText(OLD if self._hardware.front_stale else plural(len(self.rows), "design") + unknown)
        self.best.setEnabled(any(self._limits.values()))

    # -- applying

    def take(self, index: int) -> None:
        """Apply the design at an index as one undo step."""
        self.table.selectRow(index) if index < len(self.table.rows.shown) and self._plain else None
        self._hardware.apply(int(self.rows[index]["multipliers"]))

    @property
    def _plain(self) -> bool:
        """Whether the table has the chart's order."""
        return [r["multipliers"] for r in self.table.rows.shown] == [r["multipliers"] for r in self.rows]

    def _take_row(self, at: int) -> None:
        self._hardware.apply(int(self.table.rows.shown[at]["multipliers"]))

    def _take_best(self) -> None:
        """Apply the fastest design within all budgets, or show that there is none."""
        good = [k for k, r in enumerate(self.rows) if within(r, self._limits)]
        if good:
            self.take(min(good, key=lambda k: self.rows[k]["interval"]))
        else:
            self.note.setText(tr("No design meets the budget"))


def areas_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Known areas of a whole design."""
    return {k: sum(r[k] for r in rows) for k in AREAS if rows and all(r.get(k) is not None for r in rows)}


def present_of(rows: tuple[dict[str, Any], ...], graph: Graph) -> int:
    """Index of the design with the graph's parallelism, or −1."""
    parallel = {n.id: n.parallel.label for n in graph if n.parallel and n.parallel.label != "1×1"}
    return next((k for k, row in enumerate(rows) if dict(row.get("parallelism") or {}) == parallel), -1)
