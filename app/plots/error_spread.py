"""How far predictions are off, format by format: measured divergence over predicted, a dot a cell, a bar the median."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QToolTip, QWidget

from app.plots.agreement import Dot, port_colour, port_kind
from app.plots.chart import Chart, pen, tint
from app.plots.picture import Table
from app.theme import Palette

NEAR = 12.0  # pixels between the pointer and a dot that it means
LEAST = 0.6  # decades that the axis spans at least, on both sides of 1
ROOM = 0.2  # decades beyond the outermost dots
LETTER = 7.0  # pixels of a letter of a tick
GAP = 2  # letters between two ticks
WIDE = 0.5  # of a format's place, what its dots take


class ErrorSpread(Chart):
    """Formats along, from few bits to many; ratios up, on a logarithmic axis."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.dots: tuple[Dot, ...] = ()
        self.names: tuple[str, ...] = ()
        self.places: tuple[tuple[float, float], ...] = ()
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setAccessibleName("Measured over predicted divergence by format")

    def sizeHint(self) -> QSize:
        return QSize(420, 220)

    def show_dots(self, dots: Sequence[Dot]) -> None:
        """Draw these cells."""
        self.dots = tuple(dots)
        bits = {d.title: d.bits for d in self.dots}
        self.names = tuple(sorted(bits, key=lambda n: (bits[n], n)))
        held: dict[str, list[int]] = {n: [] for n in self.names}
        for i, dot in enumerate(self.dots):
            held[dot.title].append(i)
        places = {i: (k + WIDE * ((j + 0.5) / len(held[n]) - 0.5), _ratio(self.dots[i]))
                  for k, n in enumerate(self.names) for j, i in enumerate(held[n])}  # fmt: skip
        self.places = tuple(places[i] for i in range(len(self.dots)))
        self.draw(self.look)

    def draw(self, palette: Palette) -> None:
        """The line where both are equal, those of a factor of 2, the dots and their medians."""
        self.plot.clear()
        self.name_axes("format", "measured ÷ predicted")
        if not self.dots:
            return
        for at, style in ((0.0, Qt.PenStyle.SolidLine), *((s * math.log10(2), Qt.PenStyle.DashLine) for s in (-1, 1))):
            stroke = pen(palette.muted, 1.2 if at == 0 else 1.0)
            stroke.setStyle(style)
            self.plot.addItem(pg.InfiniteLine(at, 0, pen=stroke))
        for kind in (0, 1):
            places = [p for d, p in zip(self.dots, self.places, strict=True) if port_kind(d.row.port) == kind]
            x, y = [p[0] for p in places], [p[1] for p in places]
            self.plot.addItem(pg.ScatterPlotItem(x, y, size=7, pen=None, brush=tint(port_colour(kind, palette), 190)))
        for i, name in enumerate(self.names):
            middle = float(np.median([_ratio(d) for d in self.dots if d.title == name]))
            self.plot.plot([i - WIDE / 2, i + WIDE / 2], [middle, middle], pen=pen(palette.text, 2.0))
        ratios = [y for _, y in self.places]
        low, high = min(-LEAST, min(ratios) - ROOM), max(LEAST, max(ratios) + ROOM)
        self.plot.setXRange(-0.6, len(self.names) - 0.4, padding=0)
        self.plot.setYRange(low, high, padding=0)
        self._name_ticks(low, high)

    def _name_ticks(self, low: float, high: float) -> None:
        powers = [(float(p), f"{10.0**p:g}") for p in range(math.floor(low), math.ceil(high) + 1)]
        self.plot.getAxis("left").setTicks([powers])
        room = max(1.0, self.width() / max(len(self.names), 1) / LETTER - GAP)
        self.plot.getAxis("bottom").setTicks([[(float(i), _short(n, int(room))) for i, n in enumerate(self.names)]])

    def resizeEvent(self, ev: QResizeEvent) -> None:
        super().resizeEvent(ev)
        if getattr(self, "names", ()) and self.plot.vb is not None:  # a plot that is closed has none
            self._name_ticks(*self.plot.vb.viewRange()[1])

    # -- pointing

    def near(self, at: QPointF) -> Dot | None:
        """The dot nearest to a place on the widget, where one is near."""
        if not self.dots:
            return None
        spots = [self.spot(p) for p in self.places]
        least, place = min((math.hypot(s.x() - at.x(), s.y() - at.y()), i) for i, s in enumerate(spots))
        return self.dots[place] if least <= NEAR else None

    def spot(self, place: tuple[float, float]) -> QPointF:
        """Where a place of the plot lies on the widget."""
        return QPointF(self.mapFromScene(self.plot.vb.mapViewToScene(QPointF(*place))))

    def mouseMoveEvent(self, ev: QMouseEvent) -> None:
        super().mouseMoveEvent(ev)
        found = self.near(ev.position())
        QToolTip.showText(ev.globalPosition().toPoint(), found.words if found else "", self)

    def table(self) -> Table:
        """A row for each dot."""
        return ("format", "ratio"), [(d.title, 10.0 ** _ratio(d)) for d in self.dots]


def _ratio(dot: Dot) -> float:
    return math.log10(dot.measured / dot.predicted)


def _short(name: str, letters: int) -> str:
    return name if len(name) <= letters else f"{name[: max(letters - 1, 1)]}…"
