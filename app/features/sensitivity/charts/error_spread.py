"""How far predictions are off, format by format: measured over predicted divergence, a dot a cell, a bar the median."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import QWidget

from espalier.app.features.sensitivity.charts.dots import Dot, DotChart
from espalier.app.theme import Palette
from espalier.app.widgets.charts.chart import pen

LEAST = 0.6  # decades that the axis spans at least, on both sides of 1
ROOM = 0.1  # decades beyond the outermost dots
LINE = 11  # pixels of a row below which not all names find room
SMALL = 10  # pixels of a name's letters
NAMES = 112  # pixels for the names at the left
TICKS = (1, 2, 5)  # and their decades
FAR = 3.0  # decades beyond which there is a tick for each alone
WIDE = 0.6  # of a format's row, what its dots take


class ErrorSpread(DotChart):
    """A row for each format, from few bits to many; ratios along, on a logarithmic axis."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.names: tuple[str, ...] = ()
        self._rows = np.zeros(0, int)
        super().__init__(parent)
        self.setAccessibleName("Measured over predicted divergence by format")

    def show_dots(self, dots: Sequence[Dot]) -> None:
        """Draw these cells."""
        self.dots = tuple(dots)
        titles = [d.title for d in self.dots]
        bits = {title: d.bits for title, d in zip(titles, self.dots, strict=True)}
        self.names = tuple(sorted(bits, key=lambda n: (bits[n], n)))
        row = {name: i for i, name in enumerate(self.names)}
        self._rows = np.array([row[t] for t in titles], int)
        self.places = np.empty((len(self.dots), 2))
        self.places[:, 0] = np.log10([d.measured / d.predicted for d in self.dots])
        for i in range(len(self.names)):
            held = np.flatnonzero(self._rows == i)
            self.places[held, 1] = i + WIDE * ((np.arange(len(held)) + 0.5) / len(held) - 0.5)
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
        self._draw_dots(6)
        rows = np.arange(len(self.names))
        middles = [float(np.median(self.places[self._rows == i, 0])) for i in rows]
        ends = (rows[:, None] + (-WIDE / 2, WIDE / 2)).ravel()
        self.plot.plot(np.repeat(middles, 2), ends, pen=pen(palette.text, 2.0), connect="pairs")
        along = self.places[:, 0]
        self.plot.setXRange(min(-LEAST, along.min() - ROOM), max(LEAST, along.max() + ROOM), padding=0)
        self.plot.setYRange(-0.6, len(self.names) - 0.4, padding=0)
        self._name_ticks()

    def _name_ticks(self) -> None:
        low, high = self.plot.vb.viewRange()[0]
        decades = range(math.floor(low), math.ceil(high) + 1)
        ratios = [t * 10.0**p for p in decades for t in (TICKS if high - low < FAR else TICKS[:1])]
        self.plot.getAxis("bottom").setTicks([[(math.log10(r), f"{r:g}") for r in ratios]])
        every = max(1, math.ceil(LINE * len(self.names) / max(self.height() - 50, 1)))
        self.plot.getAxis("left").setTicks([[(float(i), n) for i, n in enumerate(self.names) if i % every == 0]])

    def resizeEvent(self, ev: QResizeEvent) -> None:
        super().resizeEvent(ev)
        if getattr(self, "names", ()) and self.plot.vb is not None:  # a plot that is closed has none
            self._name_ticks()
