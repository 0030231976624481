"""Area against interval in the panel Hardware: designs to choose from, under budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.features.hardware.chart import AREAS, COLUMNS, AreaFront, within
from espalier.app.features.hardware.fitting import FittedTable
from espalier.app.widgets.forms.fields import Choice, NumberField
from espalier.app.widgets.forms.flow import Flow
from espalier.app.widgets.heading import empty_state, link, muted
from espalier.app.words import plural
from espalier.model.graph.graph import Graph

if TYPE_CHECKING:
    from espalier.app.features.hardware.state.hardware import Hardware
    from espalier.app.session.session import Session

NONE = "Area against interval, from fully folded to the useful maximum of parallelism. Compute it and choose a design."
OLD = "of an earlier state: compute it again"
BUDGETS = ("lut", "dsp")
ABOUT = "Estimated areas of the whole designs, the FIFOs between nodes among them"


class FrontView(QWidget):
    """`wanted`: compute it. `save_wanted`: the chart is to be saved."""

    wanted = Signal()
    save_wanted = Signal()

    def __init__(self, session: Session, held: Hardware) -> None:
        super().__init__()
        self._session, self._held = session, held
        self.chart, self.table = AreaFront(), FittedTable()
        self.area = Choice(tuple(AREAS), tuple(AREAS.values()))
        self.area.setAccessibleName("Area")
        self.budgets = {name: NumberField(int, 0, optional=True, zero="any") for name in BUDGETS}
        self.best = link("Fastest within them", self._take_best)
        self.note = muted("", wrap=False)
        self._again = link("Compute again", self.wanted.emit)
        self._legend = QLabel()
        self._legend.setTextFormat(Qt.TextFormat.RichText)
        self._words, self._pages = empty_state(NONE), QStackedWidget()
        self._compute = link("Compute", self.wanted.emit)
        self._owed = False  # the chart is drawn once it is seen
        self.note.setToolTip(ABOUT)
        self._build()
        self.area.edited.connect(self._draw)
        for field in self.budgets.values():
            field.edited.connect(self._draw)
        self.chart.picked.connect(self.take)
        self.chart.themed.connect(self._tell)
        self.table.activated.connect(lambda at: self._take_row(at.row()))
        held.fronted.connect(self.refresh)
        session.changed.connect(lambda _: self.refresh(rows=False))

    def _build(self) -> None:
        bar = Flow(spacing=8)
        bar.setContentsMargins(12, 4, 12, 4)
        parts: list[QWidget] = [self.area]
        for name, field in self.budgets.items():
            field.setAccessibleName(f"Budget of {AREAS[name]}")
            field.setFixedWidth(72)
            parts += [muted(f"{AREAS[name]} ≤", wrap=False), field]
        for part in (*parts, self.best, self._again, link("Save as…", self.save_wanted.emit), self.note):
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

    # -- what is shown

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """The designs."""
        return self._held.front.rows if self._held.front else ()

    def refresh(self, rows: bool = True) -> None:
        """Show the front as it is known now; `rows`: it is another."""
        if rows:
            self.table.show_rows([{c: r.get(c) for c in COLUMNS} for r in self.rows])
        self._pages.setCurrentIndex(1 if self.rows else 0)
        busy = self._held.job is not None
        self._compute.setVisible(not busy)
        self._words.setText("The designs are being computed." if busy else NONE)
        self._again.setEnabled(not busy)
        self._draw()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._owed:
            self._draw()

    def _draw(self) -> None:
        self._owed = not self.isVisible()
        if self._owed:  # a keystroke in a module must not pay for it
            return
        document = self._session.document
        present = present_of(self.rows, document.graph) if document and not self._held.front_stale else -1
        made = self._held.made if not self._held.stale else None
        own = {"interval": made.summary["interval"], **areas_of(made.rows)} if made else None
        self.chart.show_rows(self.rows, self.area.get(), present, self._most, own)
        self._tell()

    @property
    def _most(self) -> dict[str, int]:
        """The budgets that are set."""
        return {name: int(f.text()) for name, f in self.budgets.items() if f.text().isdigit()}

    def _tell(self) -> None:
        words = (f'<span style="color:{colour}">●</span> {escape(word)}' for word, colour in self.chart.legend())
        self._legend.setText(" &nbsp; ".join(words))
        missing = self._held.front.unknown if self._held.front else ()
        unknown = f"; area not known: there is no estimate of {', '.join(missing)}" if missing else ""
        self.note.setText(OLD if self._held.front_stale else plural(len(self.rows), "design") + unknown)
        self.best.setEnabled(any(self._most.values()))

    # -- taking one

    def take(self, place: int) -> None:
        """Take a design, as one step that can be undone."""
        self.table.selectRow(place) if place < len(self.table.rows.shown) and self._plain else None
        self._held.apply(int(self.rows[place]["multipliers"]))

    @property
    def _plain(self) -> bool:
        """Whether the table stands in the chart's order."""
        return [r["multipliers"] for r in self.table.rows.shown] == [r["multipliers"] for r in self.rows]

    def _take_row(self, at: int) -> None:
        self._held.apply(int(self.table.rows.shown[at]["multipliers"]))

    def _take_best(self) -> None:
        """The fastest design that keeps all budgets; where none does, that is told."""
        good = [k for k, r in enumerate(self.rows) if within(r, self._most)]
        if good:
            self.take(min(good, key=lambda k: self.rows[k]["interval"]))
        else:
            self.note.setText("No design meets the budget")


def areas_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Areas of a whole design; without those that are not known."""
    return {k: sum(r[k] for r in rows) for k in AREAS if rows and all(r.get(k) is not None for r in rows)}


def present_of(rows: tuple[dict[str, Any], ...], graph: Graph) -> int:
    """The place of the design that a graph has; −1 where it has another."""
    now = {n.id: n.parallel.label for n in graph if n.parallel and n.parallel.label != "1×1"}
    return next((k for k, row in enumerate(rows) if dict(row.get("parallelism") or {}) == now), -1)
