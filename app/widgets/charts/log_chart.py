"""A chart with two logarithmic axes and labelled points, for times by size and the roofline."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent
from PySide6.QtWidgets import QToolTip

from espalier.app.figures.curves import line_style
from espalier.app.number_text import THIN, figure
from espalier.app.theme import Palette
from espalier.app.widgets.charts.chart import Chart, lighter, pen

NEAR = 14.0  # pixels within which the pointer selects a point
STEPS = (1, 2, 5)
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Point:
    """A point: its coordinates, both above 0, and the object that it stands for."""

    x: float
    y: float
    what: Any


class LogChart(Chart):
    """`spots` can be hovered and clicked. `chosen` carries the object of the clicked point."""

    chosen = Signal(object)

    def __init__(self) -> None:
        self.spots: list[Point] = []
        self.words: Callable[[Any], str] = str
        super().__init__()
        self.setMouseTracking(True)

    def sizeHint(self) -> QSize:
        return QSize(420, 160)

    def colour(self, index: int) -> str:
        """The colour of the series of this index."""
        return lighter(line_style(index)[0], self.look)

    def bound(self, xs: Sequence[float], ys: Sequence[float], across: Sequence[float] = ()) -> None:
        """Fit the axes to the values, with round tick values; `across`: the ticks of the x axis."""
        x_range = self._range(self.plot.setXRange, xs, 0.04)
        y_range = self._range(self.plot.setYRange, ys, 0.08)
        self.plot.getAxis("left").setTicks([[(math.log10(v), short(v)) for v in tick_values(ys, y_range, 5)]])
        ticks = every_nth(sorted(set(across)), 9) if across else tick_values(xs, x_range, 8)
        self.plot.getAxis("bottom").setTicks([[(math.log10(v), short(v)) for v in ticks]])

    @staticmethod
    def _range(set_range: Callable[..., object], values: Sequence[float], share: float) -> tuple[float, float]:
        """Show the values with a margin of `share` of their range; returns the ends of the range."""
        low, high = math.log10(min(values)), math.log10(max(values))
        margin = max((high - low) * share, 0.06)
        set_range(low - margin, high + margin, padding=0)
        return 10 ** (low - margin), 10 ** (high + margin)

    def dots(self, spots: Sequence[Point], colour: str, palette: Palette, hollow: bool = False) -> None:
        """Draw points as discs, or as rings if `hollow`."""
        item = pg.ScatterPlotItem([math.log10(s.x) for s in spots], [math.log10(s.y) for s in spots], size=8,
                                  brush=None if hollow else QColor(colour),
                                  pen=pen(colour, 1.6) if hollow else pen(palette.panel, 1.0))  # fmt: skip
        item.setZValue(3)
        self.plot.addItem(item)

    # -- mouse

    def place(self, spot: Point) -> QPointF:
        """The position of a point on the widget."""
        scene = self.plot.vb.mapViewToScene(QPointF(math.log10(spot.x), math.log10(spot.y)))
        return QPointF(self.mapFromScene(scene))

    def near(self, at: QPointF) -> Point | None:
        """The point nearest to a position; None if none is within NEAR pixels."""
        distances = [(math.hypot(p.x() - at.x(), p.y() - at.y()), i) for i, p in enumerate(map(self.place, self.spots))]
        best = min(distances, default=(math.inf, 0))
        return self.spots[best[1]] if best[0] <= NEAR else None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        point = self.near(event.position())
        self.setCursor(Qt.CursorShape.PointingHandCursor if point else Qt.CursorShape.ArrowCursor)
        QToolTip.showText(event.globalPosition().toPoint(), self.words(point.what) if point else "", self)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        event.accept()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and (point := self.near(event.position())):
            self.chosen.emit(point.what)
        event.accept()


def round_numbers(low: float, high: float, limit: int) -> list[float]:
    """At most `limit` values from low to high: 1, 2 and 5 times powers of ten, or powers of ten, or every nth."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in (STEPS, STEPS[:1]):
        values = [m * 10.0**p for p in powers for m in steps if 0.8 * low <= m * 10.0**p <= 1.25 * high]
        if len(values) <= limit:
            break
    return every_nth(values, limit) if len(values) > 1 else [low, high] if high > low * 1.05 else [low]


def tick_values(values: Sequence[float], ends: tuple[float, float], limit: int) -> list[float]:
    """Round numbers within the ends; if there are fewer than two, the smallest and largest value."""
    low, high = min(values), max(values)
    ticks = [v for v in round_numbers(low, high, limit) if ends[0] <= v <= ends[1]]
    return ticks if len(ticks) > 1 else [low, high] if high > low * 1.05 else [low]


def every_nth(values: Sequence[float], limit: int) -> list[float]:
    """Every nth of the values, at most `limit` in all."""
    return list(values[:: max(1, math.ceil(len(values) / limit))])


def short(value: float) -> str:
    """A tick label: 10⁻⁵, 0.02, 512, 4096, 16.4 k, 2 M."""
    if value >= 1e5 or (value >= 1e4 and value % 1):
        size, unit = next((s, u) for s, u in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if value >= s)
        return f"{value / size:.3g}{THIN}{unit}"
    if 0 < value < 1e-3:
        power = math.floor(math.log10(value) + 1e-9)
        times = round(value / 10.0**power)
        return ("" if times == 1 else f"{times}·") + "10" + str(power).translate(SUPERSCRIPTS)
    return str(int(value)) if value >= 1000 and value == int(value) else figure(value)
