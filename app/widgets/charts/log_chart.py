"""A chart with two logarithmic axes whose points say what they are: sizes against times, and the roofline."""

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
from espalier.app.theme import Palette
from espalier.app.widgets.charts.chart import Chart, pen
from espalier.app.words import THIN, figure

LIGHTER = 135  # per cent, for lines on a dark ground
NEAR = 14.0  # pixels between the pointer and a point that it means
STEPS = (1, 2, 5)
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Spot:
    """A point: its figures, both above 0, and what it stands for."""

    x: float
    y: float
    what: Any


class LogChart(Chart):
    """`spots` are what can be pointed at. `chosen` tells what the spot stands for that was clicked."""

    chosen = Signal(object)

    def __init__(self) -> None:
        self.spots: list[Spot] = []
        self.words: Callable[[Any], str] = str
        super().__init__()
        self.setMouseTracking(True)

    def sizeHint(self) -> QSize:
        return QSize(420, 160)

    def colour(self, place: int) -> str:
        """The colour of the series at a place, light enough for the ground."""
        plain = line_style(place)[0]
        return QColor(plain).lighter(LIGHTER).name() if self.look.dark else plain

    def bound(self, xs: Sequence[float], ys: Sequence[float], across: Sequence[float] = ()) -> None:
        """Show all of these, with round numbers at the axes; `across`: the values that the x axis names."""
        wide = self._range(self.plot.setXRange, xs, 0.04)
        high = self._range(self.plot.setYRange, ys, 0.08)
        self.plot.getAxis("left").setTicks([[(math.log10(v), short(v)) for v in seen(ys, high, 5)]])
        named = thinned(sorted(set(across)), 9) if across else seen(xs, wide, 8)
        self.plot.getAxis("bottom").setTicks([[(math.log10(v), short(v)) for v in named]])

    @staticmethod
    def _range(put: Callable[..., object], values: Sequence[float], share: float) -> tuple[float, float]:
        """Show the values and some room beside; the ends of what is shown."""
        low, high = math.log10(min(values)), math.log10(max(values))
        room = max((high - low) * share, 0.06)
        put(low - room, high + room, padding=0)
        return 10 ** (low - room), 10 ** (high + room)

    def dots(self, spots: Sequence[Spot], colour: str, palette: Palette, hollow: bool = False) -> None:
        """Draw spots as discs, or rings."""
        item = pg.ScatterPlotItem([math.log10(s.x) for s in spots], [math.log10(s.y) for s in spots], size=8,
                                  brush=None if hollow else QColor(colour),
                                  pen=pen(colour, 1.6) if hollow else pen(palette.panel, 1.0))  # fmt: skip
        item.setZValue(3)
        self.plot.addItem(item)

    # -- pointing

    def place(self, spot: Spot) -> QPointF:
        """Where a spot lies on the widget."""
        scene = self.plot.vb.mapViewToScene(QPointF(math.log10(spot.x), math.log10(spot.y)))
        return QPointF(self.mapFromScene(scene))

    def near(self, at: QPointF) -> Spot | None:
        """The spot nearest to a place, where one is near."""
        far = [(math.hypot(p.x() - at.x(), p.y() - at.y()), i) for i, p in enumerate(map(self.place, self.spots))]
        best = min(far, default=(math.inf, 0))
        return self.spots[best[1]] if best[0] <= NEAR else None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        found = self.near(event.position())
        self.setCursor(Qt.CursorShape.PointingHandCursor if found else Qt.CursorShape.ArrowCursor)
        QToolTip.showText(event.globalPosition().toPoint(), self.words(found.what) if found else "", self)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        event.accept()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and (found := self.near(event.position())):
            self.chosen.emit(found.what)
        event.accept()


def round_numbers(low: float, high: float, most: int) -> list[float]:
    """1, 2 and 5 times powers of ten from low to high, or powers alone, or every so many of them."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in (STEPS, STEPS[:1]):
        found = [m * 10.0**p for p in powers for m in steps if 0.8 * low <= m * 10.0**p <= 1.25 * high]
        if len(found) <= most:
            break
    return thinned(found, most) if len(found) > 1 else [low, high] if high > low * 1.05 else [low]


def seen(values: Sequence[float], ends: tuple[float, float], most: int) -> list[float]:
    """Round numbers that lie within the ends; the least and the most value where these are fewer than two."""
    low, high = min(values), max(values)
    found = [v for v in round_numbers(low, high, most) if ends[0] <= v <= ends[1]]
    return found if len(found) > 1 else [low, high] if high > low * 1.05 else [low]


def thinned(values: Sequence[float], most: int) -> list[float]:
    """Every so many of the values, at most so many in all."""
    return list(values[:: max(1, math.ceil(len(values) / most))])


def short(value: float) -> str:
    """A value at an axis: 10⁻⁵, 0.02, 512, 4096, 16.4 k, 2 M."""
    if value >= 1e5 or (value >= 1e4 and value % 1):
        size, unit = next((s, u) for s, u in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if value >= s)
        return f"{value / size:.3g}{THIN}{unit}"
    if 0 < value < 1e-3:
        power = math.floor(math.log10(value) + 1e-9)
        times = round(value / 10.0**power)
        return ("" if times == 1 else f"{times}·") + "10" + str(power).translate(RAISED)
    return str(int(value)) if value >= 1000 and value == int(value) else figure(value)
