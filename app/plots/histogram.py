"""The histogram of a weight with the quantisation grid over it, pruned values greyed, the clipped range marked."""

from __future__ import annotations

import itertools

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QMouseEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from app.figures.weights import Histogram, Loss
from app.plots.chart import Chart, pen, tint
from app.plots.picture import Table
from app.theme import Palette
from app.words import count, percent

ROOM, MOST = 0.08, 4  # share of the range at each end that labels need; ticks at most
LEAST_GAP = 5.0  # pixels between two lines of the grid


class WeightHistogram(Chart):
    """`show_histogram` and `show_loss` say what is drawn; either may be None."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.histogram: Histogram | None = None
        self.loss: Loss | None = None
        self.thinned, self.log = 1, False
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
            self.draw(self.look)

    def set_log(self, log: bool) -> None:
        """Draw counts as log10(1 + count), so that the rare far values are seen."""
        self.log = log
        self.draw(self.look)

    def _heights(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.log10(1 + counts) if self.log else counts.astype(np.float64)

    def draw(self, palette: Palette) -> None:
        """Ticks, clipped range, grid and bars."""
        self.plot.clear()
        found = self.histogram
        if found is None:
            self.plot.getAxis("bottom").setTicks([[]])
            return
        top = max(float(self._heights(found.kept + found.pruned).max(initial=0)), 0.3)
        self.plot.setXRange(found.low, found.high, padding=0)
        self.plot.setYRange(0, top * 1.06, padding=0)
        self._ticks(found)
        self._clipped(found, top, palette)
        self._grid(found, top, palette)
        self._bars(found, palette)

    def _bars(self, found: Histogram, palette: Palette) -> None:
        centres, width = (found.edges[:-1] + found.edges[1:]) / 2, (found.high - found.low) / len(found.kept) * 0.84
        none = QPen(Qt.PenStyle.NoPen)
        kept_heights = self._heights(found.kept)
        kept = pg.BarGraphItem(x=centres, y0=0, height=kept_heights, width=width, pen=none,
                               brush=tint(palette.bar, 165))  # fmt: skip
        self.plot.addItem(kept)
        if found.pruned.any():
            rest = self._heights(found.kept + found.pruned) - kept_heights
            self.plot.addItem(pg.BarGraphItem(x=centres, y0=kept_heights, height=rest, width=width, pen=none,
                                              brush=tint(palette.muted, 70)))  # fmt: skip

    def _grid(self, found: Histogram, top: float, palette: Palette) -> None:
        lines, self.thinned = self.lines()
        if len(lines):
            x = np.repeat(lines, 2)
            y = np.tile([0.0, top * 1.06], len(lines))
            self.plot.addItem(pg.PlotCurveItem(x, y, connect="pairs", pen=pen(palette.accent, 1.0, 110),
                                               antialias=False))  # fmt: skip

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
        loss = self.loss
        if loss is None or loss.low is None or loss.high is None:
            return
        for start, end in ((found.low, loss.low), (loss.high, found.high)):
            if end > start:
                shade = pg.BarGraphItem(x0=[start], x1=[end], y0=0, height=[top * 1.06],
                                        pen=QPen(Qt.PenStyle.NoPen), brush=tint(palette.bad, 34))  # fmt: skip
                self.plot.addItem(shade)
        for end in (loss.low, loss.high):
            if found.low <= end <= found.high:
                mark = pg.PlotCurveItem([end, end], [0.0, top * 1.06], pen=pen(palette.bad, 1.4), antialias=False)
                self.plot.addItem(mark)

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
