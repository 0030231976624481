"""Histogram of a weight with its quantisation grid, pruned values and clipped range."""

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
from espalier.app.number_text import count, percent
from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import Chart, pen, tint
from espalier.app.widgets.charts.chart_export import Table

ROOM, MAX_TICKS = 0.08, 4  # share of the range at each end for labels; maximum of ticks
LEAST_GAP = 5.0  # minimum pixels between grid lines


class WeightHistogram(Chart):
    """Draws a histogram and the grid of a Loss; either may be None."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.histogram: Histogram | None = None
        self.loss: Loss | None = None
        self.thinned, self.log = 1, False
        # Reused between draws: creating and adding items took most of the time.
        none = QPen(Qt.PenStyle.NoPen)
        self._clip, self._kept, self._pruned = (pg.BarGraphItem(x=[], height=[], width=1, pen=none) for _ in range(3))
        self._ends, self._lines = (pg.PlotCurveItem(connect="pairs", antialias=False) for _ in range(2))
        self._drawn = (self._clip, self._ends, self._lines, self._kept, self._pruned)
        super().__init__(parent)
        self.plot.hideAxis("left")
        self.plot.getViewBox().setDefaultPadding(0)
        self.setMouseTracking(True)
        self.setAccessibleName(tr("Histogram of the weight"))

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
        """Draw counts as log10(1 + count), so that rare outliers are visible."""
        self.log = log
        self.draw(self.look)

    def _heights(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.log10(1 + counts) if self.log else counts.astype(np.float64)

    def draw(self, palette: Palette) -> None:
        """Draw ticks, clipped range, grid and bars."""
        data = self.histogram
        for item in self._drawn:
            if item.getViewBox() is None:
                self.plot.addItem(item, ignoreBounds=True)
            item.setVisible(data is not None)
        if data is None:
            self.plot.getAxis("bottom").setTicks([[]])
            return
        self.plot.setRange(xRange=(data.low, data.high), yRange=(0, self._top(data)), padding=0)
        self._ticks(data)
        self._bars(data, palette)
        self._draw_loss(data, palette)

    def _draw_loss(self, data: Histogram, palette: Palette) -> None:
        self._clipped(data, self._top(data), palette)
        self._grid(self._top(data), palette)

    def _top(self, data: Histogram) -> float:
        return max(float(self._heights(data.kept + data.pruned).max(initial=0)), 0.3) * 1.06

    def _bars(self, data: Histogram, palette: Palette) -> None:
        centres, width = (data.edges[:-1] + data.edges[1:]) / 2, (data.high - data.low) / len(data.kept) * 0.84
        kept = self._heights(data.kept)
        rest = self._heights(data.kept + data.pruned) - kept
        self._kept.setOpts(x=centres, y0=0, height=kept, width=width, brush=tint(palette.bar, 165))
        self._pruned.setOpts(x=centres, y0=kept, height=rest, width=width, brush=tint(palette.muted, 70))
        self._pruned.setVisible(bool(data.pruned.any()))

    def _grid(self, top: float, palette: Palette) -> None:
        lines, self.thinned = self.lines()
        _vertical_lines(self._lines, lines, top, pen(palette.accent, 1.0, 110))

    def lines(self) -> tuple[NDArray[np.float64], int]:
        """The grid lines to draw, and how many each represents (a power of two)."""
        data, loss = self.histogram, self.loss
        if data is None or loss is None or loss.grid is None or not len(loss.grid):
            return np.zeros(0), 1
        grid = loss.grid[(loss.grid >= data.low) & (loss.grid <= data.high)]
        limit = max(int(max(self.width(), 100) / LEAST_GAP), 4)
        step = 1
        while len(grid) / step > limit:
            step *= 2
        if step == 1:
            return grid, 1
        zero = int(np.argmin(np.abs(grid)))
        return grid[zero % step :: step], step

    def _clipped(self, data: Histogram, top: float, palette: Palette) -> None:
        loss, parts, ends = self.loss, list[tuple[float, float]](), list[float]()
        if loss is not None and loss.low is not None and loss.high is not None:
            parts = [(a, b) for a, b in ((data.low, loss.low), (loss.high, data.high)) if b > a]
            ends = [x for x in (loss.low, loss.high) if data.low <= x <= data.high]
        middles, widths = [(a + b) / 2 for a, b in parts], [b - a for a, b in parts]
        self._clip.setOpts(x=middles, y0=0, width=widths, height=[top] * len(parts), brush=tint(palette.bad, 34))
        self._clip.setVisible(bool(parts))
        _vertical_lines(self._ends, ends, top, pen(palette.bad, 1.4))

    def _ticks(self, data: Histogram) -> None:
        ticks = round_ticks(data.low, data.high)
        digits = digits_of(ticks)
        self.plot.getAxis("bottom").setTicks([[(t, f"{t:.{digits}g}".replace("-", "−")) for t in ticks]])

    def resizeEvent(self, event: object) -> None:
        super().resizeEvent(event)
        if getattr(self, "histogram", None) is not None and self.lines()[1] != self.thinned:
            self.draw(self.look)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        text = self.tooltip_at(self.plot.vb.mapSceneToView(QPointF(self.mapToScene(event.pos()))).x())
        QToolTip.showText(event.globalPosition().toPoint(), text, self)

    def tooltip_at(self, x: float) -> str:
        """Tooltip of the bin at `x`."""
        data = self.histogram
        if data is None or not data.low <= x < data.high:
            return ""
        bin_ = min(int((x - data.low) / (data.high - data.low) * len(data.kept)), len(data.kept) - 1)
        number = int(data.kept[bin_] + data.pruned[bin_])
        edges = [f"{e:.3g}".replace("-", "−") for e in data.edges[bin_ : bin_ + 2]]
        text = tr("{} … {}: {} of {}", edges[0], edges[1], count(number), count(data.elements))
        share = percent(number / max(data.elements, 1))
        pruned = tr(", {} pruned", count(int(data.pruned[bin_]))) if data.pruned[bin_] else ""
        return f"{text} ({share}){pruned}"

    def table(self) -> Table:
        """One row per bin."""
        names = ("from", "to", "kept", "pruned")
        if self.histogram is None:
            return names, ()
        edges = self.histogram.edges.tolist()
        rows = zip(edges, edges[1:], self.histogram.kept.tolist(), self.histogram.pruned.tolist(), strict=False)
        return names, tuple(rows)


def _vertical_lines(item: pg.PlotCurveItem, xs: Sequence[float] | NDArray[np.float64], top: float, line: QPen) -> None:
    """Draw vertical lines from 0 to `top` at `xs`."""
    item.setVisible(len(xs) > 0)
    if len(xs):
        item.setData(np.repeat(xs, 2), np.tile([0.0, top], len(xs)), pen=line)


def round_ticks(low: float, high: float) -> list[float]:
    """Round tick values: ± and 0 if the range contains 0, else up to MAX_TICKS."""
    reach, span = max(abs(low), abs(high)), high - low
    if low < 0 < high:
        size = 10.0 ** np.floor(np.log10(reach))
        nice = float(next(s * size for s in (5, 2, 1, 0.5) if s * size <= reach * 0.98))
        return [-nice, 0.0, nice]
    size = 10.0 ** np.floor(np.log10(span))
    for step in (s * size for s in (0.2, 0.5, 1.0, 2.0, 5.0)):
        first, last = np.ceil((low + ROOM * span) / step), np.floor((high - ROOM * span) / step)
        if last - first < MAX_TICKS:
            break
    return [float(k * step) for k in np.arange(first, last + 1)]


def digits_of(ticks: list[float]) -> int:
    """Significant digits that distinguish neighbouring ticks."""
    apart = min((b - a for a, b in itertools.pairwise(ticks)), default=1.0)
    reach = max(map(abs, ticks), default=1.0)
    return max(4, 1 + int(np.ceil(np.log10(max(reach / apart, 1.0)))))
