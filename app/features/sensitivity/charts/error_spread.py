"""Chart of prediction errors by format: ratio of measured to predicted divergence per cell, with medians."""

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
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import pen

LEAST = 0.6  # minimum decades of the axis on both sides of 1
ROOM = 0.1  # decades beyond the outermost dots
LINE = 11  # minimum pixels per row for all names
SMALL = 10  # font size of names in pixels
NAMES = 112  # pixels of the name column
TICKS = (1, 2, 5)  # tick multiples within a decade
FAR = 3.0  # from this range on, one tick per decade
WIDE = 0.6  # share of a row's height used by its dots


class ErrorSpread(DotChart):
    """One row per format, from few to many bits; ratios on a logarithmic axis."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.names: tuple[str, ...] = ()
        self._rows = np.zeros(0, int)
        super().__init__(parent)
        self.setAccessibleName(tr("Measured over predicted divergence by format"))

    def show_dots(self, dots: Sequence[Dot]) -> None:
        """Draw measured cells."""
        self.dots = tuple(dots)
        titles = [d.title for d in self.dots]
        bits = {title: d.bits for title, d in zip(titles, self.dots, strict=True)}
        self.names = tuple(sorted(bits, key=lambda n: (bits[n], n)))
        row = {name: i for i, name in enumerate(self.names)}
        self._rows = np.array([row[t] for t in titles], int)
        self.places = np.empty((len(self.dots), 2))
        self.places[:, 0] = np.log10([d.measured / d.predicted for d in self.dots])
        for i in range(len(self.names)):
            members = np.flatnonzero(self._rows == i)
            self.places[members, 1] = i + WIDE * ((np.arange(len(members)) + 0.5) / len(members) - 0.5)
        self.draw(self.look)

    def draw(self, palette: Palette) -> None:
        """Draw lines at ratio 1 and at a factor of 2, the dots and their medians."""
        self.plot.clear()
        self.plot.invertY(True)
        self.name_axes(tr("measured ÷ predicted"), "", left=NAMES)
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
        if getattr(self, "names", ()) and self.plot.vb is not None:  # None after close
            self._name_ticks()
