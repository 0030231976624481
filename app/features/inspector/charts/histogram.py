"""The histogram of a weight with the quantisation grid over it, pruned values greyed, the clipped range marked."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QMouseEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.features.inspector.figures.weights import Histogram, Loss
from espalier.app.theme import Palette
from espalier.app.widgets.charts.chart import Chart, pen, tint
from espalier.app.widgets.charts.picture import Table
from espalier.app.words import count, percent

ROOM, MOST = 0.08, 4  # share of the range at each end that labels need; ticks at most
LEAST_GAP = 5.0  # pixels between two lines of the grid


class WeightHistogram(Chart):
    """`show_histogram` and `show_loss` say what is drawn; either may be None."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.histogram: Histogram | None = None
        self.loss: Loss | None = None
        self.thinned, self.log = 1, False
        # Kept from draw to draw: making and adding them anew took most of a draw.
        none = QPen(Qt.PenStyle.NoPen)
        self._clip, self._kept, self._pruned = (pg.BarGraphItem(x=[], height=[], width=1, pen=none) for _ in range(3))
        self._ends, self._lines = (pg.PlotCurveItem(connect="pairs", antialias=False) for _ in range(2))
        self._drawn = (self._clip, self._ends, self._lines, self._kept, self._pruned)
        super().__init__(parent)
        self.plot.hideAxis("left")
        self.plot.getViewBox().setDefaultPadding(0)
        self.setMouseTracking(True)
        self.setAccessibleName("Histogram of the weight")

    def sizeHint(self) -> QSize:
        return QSize(260, 96)

    def show_histogram(self, histogram: Histogram | None) -> None:
        """Draw a histogram, or nothing."""
        if histogram is not self.histogram:
            self.histogram = histogram
            self.draw(self.look)

    def show_loss(self, loss: Loss | None) -> None:
        """Draw the grid of a format, or none."""
        if loss is not self.loss:
            self.loss = loss
            if self.histogram is not None:
                self._draw_loss(self.histogram, self.look)

    def set_log(self, log: bool) -> None:
        """Draw counts as log10(1 + count), so that the rare far values are seen."""
        self.log = log
        self.draw(self.look)

    def _heights(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.log10(1 + counts) if self.log else counts.astype(np.float64)

    def draw(self, palette: Palette) -> None:
        """Ticks, clipped range, grid and bars."""
        found = self.histogram
        for item in self._drawn:
            if item.getViewBox() is None:
                self.plot.addItem(item, ignoreBounds=True)
            item.setVisible(found is not None)
        if found is None:
            self.plot.getAxis("bottom").setTicks([[]])
            return
        self.plot.setRange(xRange=(found.low, found.high), yRange=(0, self._top(found)), padding=0)
        self._ticks(found)
        self._bars(found, palette)
        self._draw_loss(found, palette)

    def _draw_loss(self, found: Histogram, palette: Palette) -> None:
        self._clipped(found, self._top(found), palette)
        self._grid(self._top(found), palette)

    def _top(self, found: Histogram) -> float:
        return max(float(self._heights(found.kept + found.pruned).max(initial=0)), 0.3) * 1.06

    def _bars(self, found: Histogram, palette: Palette) -> None:
        centres, width = (found.edges[:-1] + found.edges[1:]) / 2, (found.high - found.low) / len(found.kept) * 0.84
        kept = self._heights(found.kept)
        rest = self._heights(found.kept + found.pruned) - kept
        self._kept.setOpts(x=centres, y0=0, height=kept, width=width, brush=tint(palette.bar, 165))
        self._pruned.setOpts(x=centres, y0=kept, height=rest, width=width, brush=tint(palette.muted, 70))
        self._pruned.setVisible(bool(found.pruned.any()))

    def _grid(self, top: float, palette: Palette) -> None:
        lines, self.thinned = self.lines()
        _upright(self._lines, lines, top, pen(palette.accent, 1.0, 110))

    def lines(self) -> tuple[NDArray[np.float64], int]:
        """The lines of the grid to draw, and that each stands for how many (a power of two)."""
        found, loss = self.histogram, self.loss
        if found is None or loss is None or loss.grid is None or not len(loss.grid):
            return np.zeros(0), 1
        grid = loss.grid[(loss.grid >= found.low) & (loss.grid <= found.high)]
        most = max(int(max(self.width(), 100) / LEAST_GAP), 4)
        step = 1
        while len(grid) / step > most:
            step *= 2
        if step == 1:
            return grid, 1
        zero = int(np.argmin(np.abs(grid)))
        return grid[zero % step :: step], step

    def _clipped(self, found: Histogram, top: float, palette: Palette) -> None:
        loss, parts, ends = self.loss, list[tuple[float, float]](), list[float]()
        if loss is not None and loss.low is not None and loss.high is not None:
            parts = [(a, b) for a, b in ((found.low, loss.low), (loss.high, found.high)) if b > a]
            ends = [x for x in (loss.low, loss.high) if found.low <= x <= found.high]
        middles, widths = [(a + b) / 2 for a, b in parts], [b - a for a, b in parts]
        self._clip.setOpts(x=middles, y0=0, width=widths, height=[top] * len(parts), brush=tint(palette.bad, 34))
        self._clip.setVisible(bool(parts))
        _upright(self._ends, ends, top, pen(palette.bad, 1.4))

    def _ticks(self, found: Histogram) -> None:
        ticks = round_ticks(found.low, found.high)
        digits = figures_of(ticks)
        self.plot.getAxis("bottom").setTicks([[(t, f"{t:.{digits}g}".replace("-", "−")) for t in ticks]])

    def resizeEvent(self, event: object) -> None:
        super().resizeEvent(event)
        if getattr(self, "histogram", None) is not None and self.lines()[1] != self.thinned:
            self.draw(self.look)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        text = self.words_at(self.plot.vb.mapSceneToView(QPointF(self.mapToScene(event.pos()))).x())
        QToolTip.showText(event.globalPosition().toPoint(), text, self)

    def words_at(self, x: float) -> str:
        """What lies at `x`, for the hover."""
        found = self.histogram
        if found is None or not found.low <= x < found.high:
            return ""
        bin_ = min(int((x - found.low) / (found.high - found.low) * len(found.kept)), len(found.kept) - 1)
        number = int(found.kept[bin_] + found.pruned[bin_])
        edges = [f"{e:.3g}".replace("-", "−") for e in found.edges[bin_ : bin_ + 2]]
        text = f"{edges[0]} … {edges[1]}: {count(number)} of {count(found.elements)}"
        share = percent(number / max(found.elements, 1))
        pruned = f", {count(int(found.pruned[bin_]))} pruned" if found.pruned[bin_] else ""
        return f"{text} ({share}){pruned}"

    def table(self) -> Table:
        """One row a bin."""
        names = ("from", "to", "kept", "pruned")
        if self.histogram is None:
            return names, ()
        edges = self.histogram.edges.tolist()
        rows = zip(edges, edges[1:], self.histogram.kept.tolist(), self.histogram.pruned.tolist(), strict=False)
        return names, tuple(rows)


def _upright(item: pg.PlotCurveItem, places: Sequence[float] | NDArray[np.float64], top: float, line: QPen) -> None:
    """Lines from 0 to `top` at `places`."""
    item.setVisible(len(places) > 0)
    if len(places):
        item.setData(np.repeat(places, 2), np.tile([0.0, top], len(places)), pen=line)


def round_ticks(low: float, high: float) -> list[float]:
    """Round values between the ends: one on each side of zero, else some that have room for their labels."""
    reach, span = max(abs(low), abs(high)), high - low
    if low < 0 < high:
        size = 10.0 ** np.floor(np.log10(reach))
        nice = float(next(s * size for s in (5, 2, 1, 0.5) if s * size <= reach * 0.98))
        return [-nice, 0.0, nice]
    size = 10.0 ** np.floor(np.log10(span))
    for step in (s * size for s in (0.2, 0.5, 1.0, 2.0, 5.0)):
        first, last = np.ceil((low + ROOM * span) / step), np.floor((high - ROOM * span) / step)
        if last - first < MOST:
            break
    return [float(k * step) for k in np.arange(first, last + 1)]


def figures_of(ticks: list[float]) -> int:
    """The digits that tell neighbours apart."""
    apart = min((b - a for a, b in itertools.pairwise(ticks)), default=1.0)
    reach = max(map(abs, ticks), default=1.0)
    return max(4, 1 + int(np.ceil(np.log10(max(reach / apart, 1.0)))))
