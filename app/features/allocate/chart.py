"""Pareto front of an allocation: predicted divergence against cost, with the budget as a draggable line.

The divergence axis is logarithmic; 0 is drawn at its lower end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.figures.curves import figure_text, figure_title, is_log, ticks
from espalier.app.number_text import figure as short
from espalier.app.theme import CATEGORIES, Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import Chart, pen
from espalier.app.widgets.charts.chart_export import Table

LEAST = 1e-9  # nats a sample; smaller values count as 0
NEAR = 12.0  # pixels
LEGEND = (("front", "linear"), ("present", "activation"), ("measured", "matmul"))


@dataclass(frozen=True, slots=True)
class Mark:
    """A marked configuration with its tooltip; `kl` None: its divergence is unknown."""

    at: float
    kl: float | None
    kind: str
    text: str = ""


class FrontChart(Chart):
    """Emits `dragged` with the cost under the pointer while the button is down, and `released` at its release."""

    dragged = Signal(float)
    released = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        self.figure = ""
        self.points: tuple[tuple[float, float], ...] = ()
        self.marks: tuple[Mark, ...] = ()
        self.budget: tuple[float, float, float] | None = None
        self._log, self._foot = False, -6.0
        self._line: pg.InfiniteLine | None = None
        self._dot: pg.ScatterPlotItem | None = None
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setAccessibleName(tr("Predicted divergence against cost"))

    def sizeHint(self) -> QSize:
        return QSize(420, 200)

    # -- what is shown

    def show_front(self, figure: str, points: Sequence[tuple[float, float]], marks: Sequence[Mark] = ()) -> None:
        """Draw the (cost, divergence) points of the front and the marked configurations."""
        self.figure, self.points, self.marks = figure, tuple(points), tuple(marks)
        self.draw(self.look)

    def show_budget(self, budget: tuple[float, float, float] | None) -> None:
        """Move the line and the dot to (budget, cost, divergence) without a redraw; None hides them."""
        self.budget = budget
        self._move_budget()

    def draw(self, palette: Palette) -> None:
        """Draw the axes, the front with its points, and the marked configurations."""
        self.plot.clear()
        self._line = self._dot = None
        self._scale()
        self._axes()
        if not self.points:
            return
        spots = sorted((self._x(c), self._y(k)) for c, k in self.points)
        colour = self._colour("linear")
        curve = self.plot.plot([x for x, _ in spots], [y for _, y in spots], pen=pen(colour))
        curve.setZValue(1)
        dots = pg.ScatterPlotItem([x for x, _ in spots], [y for _, y in spots], size=5, brush=colour, pen=None)
        self.plot.addItem(dots)
        for mark in self.marks:
            self._mark(mark)
        self._line = pg.InfiniteLine(0, 90, pen=pen(palette.accent, 1.4))
        self._dot = pg.ScatterPlotItem(size=11, brush=palette.accent, pen=pen(palette.panel, 1.5))
        for item in (self._line, self._dot):
            item.setZValue(5)
            self.plot.addItem(item)
        self._bound([s[0] for s in spots])
        self._move_budget()

    def _scale(self) -> None:
        costs = [c for c, _ in self.points]
        self._log = bool(costs) and min(costs) > 0 and (is_log(costs) or max(costs) / min(costs) > 6)
        positive = [k for _, k in self.points if k > LEAST] + [m.kl for m in self.marks if m.kl and m.kl > LEAST]
        self._foot = math.floor(math.log10(min(positive))) - 0.4 if positive else -6.0

    def _x(self, at: float) -> float:
        return math.log10(max(at, 1e-12)) if self._log else at

    def _y(self, kl: float) -> float:
        return max(math.log10(max(kl, LEAST * 1e-3)), self._foot)

    def _colour(self, name: str) -> str:
        plain = CATEGORIES[name]
        return QColor(plain).lighter(135).name() if self.look.dark else plain

    def _axes(self) -> None:
        left, bottom = self.plot.getAxis("left"), self.plot.getAxis("bottom")
        self.name_axes(figure_title(self.figure) if self.figure else "", tr("estimated KL (nats)"))
        top = math.ceil(max((self._y(k) for _, k in self.points), default=0.0))
        every = max(1, math.ceil((top - self._foot) / 5))
        rows = range(math.ceil(self._foot), top + 1, every)
        left.setTicks([[(float(y), _power(y)) for y in rows]])
        bottom.setTicks([[(self._x(v), figure_text(self.figure, v)) for v in self._values()]])

    def _values(self) -> list[float]:
        """Tick values of the cost axis, about evenly spaced on either scale."""
        costs = [c for c, _ in self.points]
        if not costs:
            return []
        low, high = min(costs), max(costs)
        unit = 1.0  # tick values are round in the displayed unit
        if self.figure == "size_bytes":
            unit = 1024.0 if low < 1 << 20 else float(1 << 20)
        return [v * unit for v in self._round(low / unit, high / unit)]

    def _round(self, low: float, high: float) -> list[float]:
        if not self._log:
            return ticks(low, high)
        values: list[float] = []
        for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
            values += [m * 10.0**power for m in (1, 2, 3, 4, 6, 8) if low <= m * 10.0**power <= high]
        every = max(1, math.ceil(len(values) / 9))
        return values[::every]

    def _mark(self, mark: Mark) -> None:
        """Draw a ring, or a dashed vertical line if the divergence is unknown."""
        colour = self._colour({"present": "activation", "measured": "matmul"}[mark.kind])
        if mark.kl is None:
            line = pen(colour, 1.2)
            line.setStyle(Qt.PenStyle.DashLine)
            self.plot.addItem(pg.InfiniteLine(self._x(mark.at), 90, pen=line))
            return
        symbol = "d" if mark.kind == "measured" else "o"
        spot = pg.ScatterPlotItem([self._x(mark.at)], [self._y(mark.kl)], size=11, symbol=symbol,
                                  brush=self.look.panel, pen=pen(colour, 2.0))  # fmt: skip
        spot.setZValue(3)
        self.plot.addItem(spot)

    def _bound(self, xs: list[float]) -> None:
        ys = [self._y(k) for _, k in self.points] + [self._y(m.kl) for m in self.marks if m.kl is not None]
        xs = xs + [self._x(m.at) for m in self.marks]
        room = (max(xs) - min(xs)) * 0.03 or abs(xs[0]) * 0.05 or 1.0
        self.plot.setXRange(min(xs) - room, max(xs) + room, padding=0)
        margin = (max(ys) - self._foot) * 0.07 + 0.1  # keeps markers at the lower end unclipped
        self.plot.setYRange(self._foot - margin, max(ys) + margin, padding=0)

    def _move_budget(self) -> None:
        if self._line is None or self._dot is None:
            return
        is_shown = self.budget is not None
        self._line.setVisible(is_shown)
        self._dot.setVisible(is_shown)
        if self.budget is not None:
            budget, at, kl = self.budget
            self._line.setValue(self._x(budget))
            self._dot.setData([self._x(at)], [self._y(kl)])

    def legend(self) -> tuple[tuple[str, str], ...]:
        """(label, colour) of each kind of mark that is drawn."""
        kinds = {m.kind for m in self.marks}
        return tuple((text, self._colour(name)) for text, name in LEGEND if text == "front" or text in kinds)

    # -- pointing

    def cost_at(self, at: QPointF) -> float:
        """The cost at a widget position."""
        x = float(self.plot.vb.mapSceneToView(self.mapToScene(at.toPoint())).x())
        return 10.0**x if self._log else x

    def spot(self, at: float, kl: float) -> QPointF:
        """The widget position of a (cost, divergence) point."""
        scene = self.plot.vb.mapViewToScene(QPointF(self._x(at), self._y(kl)))
        return QPointF(self.mapFromScene(scene))

    def tooltip_at(self, at: QPointF) -> str:
        """Tooltip of the nearest point; empty if none is within NEAR pixels."""
        named = [(m.at, m.kl if m.kl is not None else LEAST, m.text) for m in self.marks]
        named += [(c, k, tr("{} {}\nKL {} estimated", figure_title(self.figure), figure_text(self.figure, c), short(k)))
                  for c, k in self.points]  # fmt: skip
        best: tuple[float, str] | None = None
        for cost, kl, text in named:
            dot = self.spot(cost, kl)
            distance = math.hypot(dot.x() - at.x(), dot.y() - at.y())
            if best is None or distance < best[0]:
                best = distance, text
        return best[1] if best and best[0] <= NEAR else ""

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.points:
            self.dragged.emit(self.cost_at(event.position()))
        event.accept()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton and self.points:
            self.dragged.emit(self.cost_at(event.position()))
            return
        self.setCursor(Qt.CursorShape.SplitHCursor if self.points else Qt.CursorShape.ArrowCursor)
        QToolTip.showText(event.globalPosition().toPoint(), self.tooltip_at(event.position()), self)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.points:
            self.released.emit()
        event.accept()

    def table(self) -> Table:
        """The points of the front and the marked configurations."""
        rows = [("front", c, k) for c, k in self.points] + [(m.kind, m.at, m.kl) for m in self.marks]
        return ("kind", self.figure, "kl"), rows


def _power(power: int) -> str:
    signs = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return f"10{str(power).translate(signs)}" if power else "1"
