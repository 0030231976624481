"""Chart of area against interval: one point per design, budgets as lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.number_text import count, scaled
from espalier.app.theme import CATEGORIES, Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import Chart, pen
from espalier.app.widgets.charts.chart_export import Table

Row = dict[str, Any]
AREAS = {"lut": "LUT", "dsp": "DSP", "bram": "BRAM", "ff": "FF"}
COLUMNS = ("multipliers", "interval", "lut", "ff", "dsp", "bram", "bottleneck")
NEAR = 14.0  # pixels
STEPS = (1, 2, 5)


def within(row: Row, budgets: Mapping[str, int]) -> bool:
    """Whether a design meets all budgets; an unknown area meets none."""
    return all(row.get(k) is not None and float(row[k]) <= limit for k, limit in budgets.items() if limit)


class AreaFront(Chart):
    """Emits `picked` with the index of a clicked row. `present`: index of the graph's present design, −1 if none.

    `own`: interval and areas of the graph if it is none of the designs.
    """

    picked = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        self.rows: tuple[Row, ...] = ()
        self.area, self.present = "lut", -1
        self.own: Row | None = None
        self.budgets: dict[str, int] = {}
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setAccessibleName(tr("Area against interval"))

    def sizeHint(self) -> QSize:
        return QSize(360, 180)

    def show_rows(self, rows: Sequence[Row], area: str, present: int, budgets: Mapping[str, int],
                  own: Row | None = None) -> None:  # fmt: skip
        """Draw designs; `area`: a key of AREAS, `budgets`: upper limits."""
        self.rows, self.area, self.present, self.budgets = tuple(rows), area, present, dict(budgets)
        self.own = own if present < 0 and own and own.get(area) is not None else None
        self.draw(self.look)

    @property
    def drawn(self) -> tuple[Row, ...]:
        """The designs whose area is known."""
        return tuple(r for r in self.rows if r.get(self.area) is not None)

    # -- drawing

    def draw(self, palette: Palette) -> None:
        """Draw axes, front and budget; designs beyond a budget are grey."""
        self.plot.clear()
        self._axes()
        if not self.drawn:
            return
        spots = [self._spot(r) for r in self.drawn]
        colour = self._colour("linear")
        line = self.plot.plot([x for x, _ in spots], [y for _, y in spots], pen=pen(colour, alpha=140))
        line.setZValue(1)
        in_budget = [self._within(r) for r in self.drawn]
        for good in (False, True):
            points = [s for s, w in zip(spots, in_budget, strict=True) if w is good]
            fill = QColor(colour if good else palette.line)
            dots = pg.ScatterPlotItem([x for x, _ in points], [y for _, y in points], size=9, brush=fill,
                                      pen=pen(palette.panel, 1.0))  # fmt: skip
            dots.setZValue(2)
            self.plot.addItem(dots)
        present = self.rows[self.present] if 0 <= self.present < len(self.rows) else None
        current = self.own or (present if present in self.drawn else None)
        spot = self._spot(current) if current else None
        if spot:
            x, y = spot
            ring = pg.ScatterPlotItem([x], [y], size=17, brush=None, pen=pen(self._colour("activation"), 2.2))
            ring.setZValue(3)
            self.plot.addItem(ring)
        self._bound([*spots, *([spot] if spot else [])])
        self._budget(palette)

    def _spot(self, row: Row) -> tuple[float, float]:
        return math.log10(max(float(row["interval"]), 1.0)), math.log10(max(float(row[self.area]), 0.0) + 1.0)

    def _within(self, row: Row) -> bool:
        return within(row, self.budgets)

    def _budget(self, palette: Palette) -> None:
        limit = self.budgets.get(self.area, 0)
        if limit:
            at = math.log10(limit + 1.0)
            line = pen(palette.accent, 1.4)
            line.setStyle(Qt.PenStyle.DashLine)
            label = {"position": 0.98, "color": palette.accent, "anchors": [(1, 1), (1, 1)]}
            self.plot.addItem(pg.InfiniteLine(at, 0, pen=line, label=f"{AREAS[self.area]} ≤ {count(limit)}",
                                              labelOpts=label))  # fmt: skip

    def _bound(self, spots: Sequence[tuple[float, float]]) -> None:
        xs, ys = [x for x, _ in spots], [y for _, y in spots]
        if limit := self.budgets.get(self.area, 0):
            ys.append(math.log10(limit + 1.0))
        across, up = max((max(xs) - min(xs)) * 0.05, 0.05), max((max(ys) - min(ys)) * 0.09, 0.05)
        self.plot.setXRange(min(xs) - across, max(xs) + across, padding=0)
        self.plot.setYRange(min(ys) - up, max(ys) + up, padding=0)

    def _axes(self) -> None:
        left, bottom = self.plot.getAxis("left"), self.plot.getAxis("bottom")
        self.name_axes(tr("interval: cycles a sample"), AREAS[self.area])
        areas, times = [r[self.area] for r in self.drawn], [r["interval"] for r in self.rows]
        left.setTicks([[(math.log10(v + 1.0), scaled(v, 0)) for v in round_values(areas, 6)]])
        bottom.setTicks([[(math.log10(v), scaled(v, 0)) for v in round_values(times, 9) if v]])

    def _colour(self, name: str) -> str:
        plain = CATEGORIES[name]
        return QColor(plain).lighter(135).name() if self.look.dark else plain

    def legend(self) -> tuple[tuple[str, str], ...]:
        """(label, colour) of each kind of mark that is drawn."""
        entries = [(tr("balanced designs"), self._colour("linear"))]
        entries += [(tr("beyond a budget"), self.look.muted)] if not all(map(self._within, self.rows)) else []
        entries += [(tr("present graph"), self._colour("activation"))] if self.present >= 0 or self.own else []
        return tuple(entries)

    # -- pointing

    def spot(self, index: int) -> QPointF:
        """The widget position of a design."""
        scene = self.plot.vb.mapViewToScene(QPointF(*self._spot(self.rows[index])))
        return QPointF(self.mapFromScene(scene))

    def index_at(self, at: QPointF) -> int:
        """Index of the nearest design within NEAR pixels, or −1."""
        distances = [math.hypot(s.x() - at.x(), s.y() - at.y()) for s in map(self.spot, range(len(self.drawn)))]
        best = min(range(len(distances)), key=distances.__getitem__, default=-1)
        return best if best >= 0 and distances[best] <= NEAR else -1

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        index = self.index_at(event.position())
        self.setCursor(Qt.CursorShape.PointingHandCursor if index >= 0 else Qt.CursorShape.ArrowCursor)
        text = design_text(self.rows[index], index == self.present) if index >= 0 else ""
        QToolTip.showText(event.globalPosition().toPoint(), text, self)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        event.accept()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and (index := self.index_at(event.position())) >= 0:
            self.picked.emit(index)
        event.accept()

    def table(self) -> Table:
        """The designs."""
        return COLUMNS, [[r.get(c) for c in COLUMNS] for r in self.rows]


def round_values(values: Sequence[float], count: int) -> list[float]:
    """At most `most` tick values of the form 1, 2 or 5 times a power of ten within the range of `values`."""
    low, high = max(min(values, default=1), 1), max(max(values, default=1), 1)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in (STEPS, STEPS[:1]):
        ticks = [m * 10.0**p for p in powers for m in steps if 0.8 * low <= m * 10.0**p <= 1.25 * high]
        if len(ticks) <= count:
            break
    return ticks if len(ticks) > 1 or steps is STEPS else [float(low), float(high)]


def design_text(row: Row, present: bool) -> str:
    """Tooltip of a design."""
    areas = _areas(row)
    fifos = {k: v for k, v in (row.get("fifos") or {}).items() if v}
    areas += tr("\nFIFOs alone: {}", _areas(fifos)) if fifos else ""
    suffix = tr("\npresent graph") if present else tr("\nclick: apply it as one undo step")
    pace = tr("one sample every {} cycles, {} multipliers", count(int(row["interval"])), count(int(row["multipliers"])))
    return tr("{}\n{}\nslowest: {}{}", pace, areas, row.get("bottleneck", ""), suffix)


def _areas(row: Row) -> str:
    return ", ".join(f"{count(int(row[k]))} {title}" for k, title in AREAS.items() if k in row)
