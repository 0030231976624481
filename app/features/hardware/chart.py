"""Area against interval: a point a design from fully folded to as parallel as it helps, budgets as lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.theme import CATEGORIES, Palette
from espalier.app.widgets.charts.chart import Chart, pen
from espalier.app.widgets.charts.picture import Table
from espalier.app.words import count, scaled

Row = dict[str, Any]
AREAS = {"lut": "LUT", "dsp": "DSP", "bram": "BRAM", "ff": "FF"}
COLUMNS = ("multipliers", "interval", "lut", "ff", "dsp", "bram", "bottleneck")
NEAR = 14.0  # pixels
STEPS = (1, 2, 5)


def within(row: Row, budgets: Mapping[str, int]) -> bool:
    """Whether a design keeps all budgets; what is not known keeps none."""
    return all(row.get(k) is not None and float(row[k]) <= most for k, most in budgets.items() if most)


class AreaFront(Chart):
    """`picked` tells the row that was clicked. `present`: the place of the design that the graph has; −1: none.

    `own`: (interval, areas) of the graph where it is no such design.
    """

    picked = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        self.rows: tuple[Row, ...] = ()
        self.area, self.present = "lut", -1
        self.own: Row | None = None
        self.budgets: dict[str, int] = {}
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setAccessibleName("Area against interval")

    def sizeHint(self) -> QSize:
        return QSize(360, 180)

    def show_rows(self, rows: Sequence[Row], area: str, present: int, budgets: Mapping[str, int],
                  own: Row | None = None) -> None:  # fmt: skip
        """Draw designs; `area`: a key of AREAS, `budgets`: the most of each."""
        self.rows, self.area, self.present, self.budgets = tuple(rows), area, present, dict(budgets)
        self.own = own if present < 0 and own and own.get(area) is not None else None
        self.draw(self.look)

    @property
    def drawn(self) -> tuple[Row, ...]:
        """The designs whose area is known: a module without an estimate is in all of them, or in none."""
        return tuple(r for r in self.rows if r.get(self.area) is not None)

    # -- drawing

    def draw(self, palette: Palette) -> None:
        """Axes, the front, the budget, and what lies beyond it faded."""
        self.plot.clear()
        self._axes()
        if not self.drawn:
            return
        spots = [self._spot(r) for r in self.drawn]
        colour = self._colour("linear")
        line = self.plot.plot([x for x, _ in spots], [y for _, y in spots], pen=pen(colour, alpha=140))
        line.setZValue(1)
        good_ones = [self._within(r) for r in self.drawn]
        for good in (False, True):
            places = [s for s, w in zip(spots, good_ones, strict=True) if w is good]
            ground = QColor(colour if good else palette.line)
            dots = pg.ScatterPlotItem([x for x, _ in places], [y for _, y in places], size=9, brush=ground,
                                      pen=pen(palette.panel, 1.0))  # fmt: skip
            dots.setZValue(2)
            self.plot.addItem(dots)
        present = self.rows[self.present] if 0 <= self.present < len(self.rows) else None
        shown = self.own or (present if present in self.drawn else None)
        now = self._spot(shown) if shown else None
        if now:
            x, y = now
            ring = pg.ScatterPlotItem([x], [y], size=17, brush=None, pen=pen(self._colour("activation"), 2.2))
            ring.setZValue(3)
            self.plot.addItem(ring)
        self._bound([*spots, *([now] if now else [])])
        self._budget(palette)

    def _spot(self, row: Row) -> tuple[float, float]:
        return math.log10(max(float(row["interval"]), 1.0)), math.log10(max(float(row[self.area]), 0.0) + 1.0)

    def _within(self, row: Row) -> bool:
        return within(row, self.budgets)

    def _budget(self, palette: Palette) -> None:
        most = self.budgets.get(self.area, 0)
        if most:
            at = math.log10(most + 1.0)
            line = pen(palette.accent, 1.4)
            line.setStyle(Qt.PenStyle.DashLine)
            words = {"position": 0.98, "color": palette.accent, "anchors": [(1, 1), (1, 1)]}
            self.plot.addItem(pg.InfiniteLine(at, 0, pen=line, label=f"{AREAS[self.area]} ≤ {count(most)}",
                                              labelOpts=words))  # fmt: skip

    def _bound(self, spots: Sequence[tuple[float, float]]) -> None:
        xs, ys = [x for x, _ in spots], [y for _, y in spots]
        if most := self.budgets.get(self.area, 0):
            ys.append(math.log10(most + 1.0))
        across, up = max((max(xs) - min(xs)) * 0.05, 0.05), max((max(ys) - min(ys)) * 0.09, 0.05)
        self.plot.setXRange(min(xs) - across, max(xs) + across, padding=0)
        self.plot.setYRange(min(ys) - up, max(ys) + up, padding=0)

    def _axes(self) -> None:
        left, bottom = self.plot.getAxis("left"), self.plot.getAxis("bottom")
        self.name_axes("interval: cycles a sample", AREAS[self.area])
        areas, times = [r[self.area] for r in self.drawn], [r["interval"] for r in self.rows]
        left.setTicks([[(math.log10(v + 1.0), scaled(v, 0)) for v in round_values(areas, 6)]])
        bottom.setTicks([[(math.log10(v), scaled(v, 0)) for v in round_values(times, 9) if v]])

    def _colour(self, name: str) -> str:
        plain = CATEGORIES[name]
        return QColor(plain).lighter(135).name() if self.look.dark else plain

    def legend(self) -> tuple[tuple[str, str], ...]:
        """(word, colour) of what is drawn."""
        found = [("balanced designs", self._colour("linear"))]
        found += [("beyond a budget", self.look.muted)] if not all(map(self._within, self.rows)) else []
        found += [("the graph as it is", self._colour("activation"))] if self.present >= 0 or self.own else []
        return tuple(found)

    # -- pointing

    def spot(self, place: int) -> QPointF:
        """Where a design lies on the widget."""
        scene = self.plot.vb.mapViewToScene(QPointF(*self._spot(self.rows[place])))
        return QPointF(self.mapFromScene(scene))

    def place_at(self, at: QPointF) -> int:
        """The design that is nearest to a place; −1 where none is near."""
        far = [math.hypot(s.x() - at.x(), s.y() - at.y()) for s in map(self.spot, range(len(self.drawn)))]
        best = min(range(len(far)), key=far.__getitem__, default=-1)
        return best if best >= 0 and far[best] <= NEAR else -1

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        place = self.place_at(event.position())
        self.setCursor(Qt.CursorShape.PointingHandCursor if place >= 0 else Qt.CursorShape.ArrowCursor)
        words = told(self.rows[place], place == self.present) if place >= 0 else ""
        QToolTip.showText(event.globalPosition().toPoint(), words, self)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        event.accept()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and (place := self.place_at(event.position())) >= 0:
            self.picked.emit(place)
        event.accept()

    def table(self) -> Table:
        """The designs."""
        return COLUMNS, [[r.get(c) for c in COLUMNS] for r in self.rows]


def round_values(values: Sequence[float], most: int) -> list[float]:
    """1, 2 and 5 times powers of ten that lie among values, at most so many."""
    low, high = max(min(values, default=1), 1), max(max(values, default=1), 1)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in (STEPS, STEPS[:1]):
        found = [m * 10.0**p for p in powers for m in steps if 0.8 * low <= m * 10.0**p <= 1.25 * high]
        if len(found) <= most:
            break
    return found if len(found) > 1 or steps is STEPS else [float(low), float(high)]


def told(row: Row, present: bool) -> str:
    """What a design says of itself."""
    areas = _areas(row)
    waits = {k: v for k, v in (row.get("fifos") or {}).items() if v}
    areas += f"\nof it FIFOs: {_areas(waits)}" if waits else ""
    now = "\nthe graph as it is" if present else "\nclick: take it, as one step that can be undone"
    pace = f"a sample every {count(int(row['interval']))} cycles, {count(int(row['multipliers']))} multipliers"
    return f"{pace}\n{areas}\nslowest: {row.get('bottleneck', '')}{now}"


def _areas(row: Row) -> str:
    return ", ".join(f"{count(int(row[k]))} {title}" for k, title in AREAS.items() if k in row)
