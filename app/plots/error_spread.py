"""How far predictions are off, format by format: measured over predicted divergence, a dot a cell, a bar the median."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QFont, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QToolTip, QWidget

from app.plots.agreement import Dot, port_colour, port_kind
from app.plots.chart import Chart, pen, tint
from app.plots.picture import Table
from app.theme import Palette

NEAR = 12.0  # pixels between the pointer and a dot that it means
LEAST = 0.6  # decades that the axis spans at least, on both sides of 1
ROOM = 0.1  # decades beyond the outermost dots
LINE = 11  # pixels of a row below which not all names find room
SMALL = 10  # pixels of a name's letters
NAMES = 112  # pixels for the names at the left
TICKS = (1, 2, 5)  # and their decades
WIDE = 0.6  # of a format's row, what its dots take


class ErrorSpread(Chart):
    """A row for each format, from few bits to many; ratios along, on a logarithmic axis."""

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
        places = {i: (_ratio(self.dots[i]), k + WIDE * ((j + 0.5) / len(held[n]) - 0.5))
                  for k, n in enumerate(self.names) for j, i in enumerate(held[n])}  # fmt: skip
        self.places = tuple(places[i] for i in range(len(self.dots)))
        self.draw(self.look)

    def draw(self, palette: Palette) -> None:
        """The line where both are equal, those of a factor of 2, the dots and their medians."""
        self.plot.clear()
        self.plot.invertY(True)
        self.name_axes("measured ÷ predicted", "", left=NAMES)
        self.plot.getAxis("left").setGrid(False)
        font = QFont(self.font())
        font.setPixelSize(SMALL)
        self.plot.getAxis("left").setTickFont(font)
        if not self.dots:
            return
        for at, style in ((0.0, Qt.PenStyle.SolidLine), *((s * math.log10(2), Qt.PenStyle.DashLine) for s in (-1, 1))):
            stroke = pen(palette.muted, 1.2 if at == 0 else 1.0)
            stroke.setStyle(style)
            self.plot.addItem(pg.InfiniteLine(at, 90, pen=stroke))
        for kind in (0, 1):
            places = [p for d, p in zip(self.dots, self.places, strict=True) if port_kind(d.row.port) == kind]
            x, y = [p[0] for p in places], [p[1] for p in places]
            self.plot.addItem(pg.ScatterPlotItem(x, y, size=6, pen=None, brush=tint(port_colour(kind, palette), 190)))
        for i, name in enumerate(self.names):
            middle = float(np.median([_ratio(d) for d in self.dots if d.title == name]))
            self.plot.plot([middle, middle], [i - WIDE / 2, i + WIDE / 2], pen=pen(palette.text, 2.0))
        ratios = [x for x, _ in self.places]
        self.plot.setXRange(min(-LEAST, min(ratios) - ROOM), max(LEAST, max(ratios) + ROOM), padding=0)
        self.plot.setYRange(-0.6, len(self.names) - 0.4, padding=0)
        self._name_ticks()

    def _name_ticks(self) -> None:
        low, high = self.plot.vb.viewRange()[0]
        decades = range(math.floor(low), math.ceil(high) + 1)
        firsts = TICKS if high - low < 3 else TICKS[:1]
        ratios = [t * 10.0**p for p in decades for t in firsts]
        self.plot.getAxis("bottom").setTicks([[(math.log10(r), f"{r:g}") for r in ratios]])
        every = max(1, math.ceil(LINE * len(self.names) / max(self.height() - 50, 1)))
        self.plot.getAxis("left").setTicks([[(float(i), n) for i, n in enumerate(self.names) if i % every == 0]])

    def resizeEvent(self, ev: QResizeEvent) -> None:
        super().resizeEvent(ev)
        if getattr(self, "names", ()) and self.plot.vb is not None:  # a plot that is closed has none
            self._name_ticks()

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
