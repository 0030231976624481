"""Base class of plotted charts of a study: axes, ranges, zoom and pan, picking of dots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, ClassVar

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Signal
from PySide6.QtWidgets import QWidget
from typing_extensions import override

from espalier.app.features.search.charts.axes import step_of
from espalier.app.features.search.charts.study_view import StudyView
from espalier.app.figures.study.data import Study
from espalier.app.figures.study.labels import tick_text, title
from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import EDGE, Chart, pen, tint
from espalier.model.data.base import Array

NEAR = 12.0  # pixels within which the pointer hits a dot
LEFT, BETWEEN = 64, (44, 90)  # pixels: width of the left axis' labels, distances between two labels of each axis
TITLE = 16  # pixels of the left axis' vertical title
SPILL = 10  # pixels by which a label may exceed its axis
WHOLE = ("trial", "trials")  # integer metrics
AHEAD = 0.03  # share of the span by which a growing axis is extended
ROOM = 0.05  # margin as a share of the span


class StudyChart(StudyView, Chart):
    """A plot of a study: wheel and drag zoom and pan, a double click on the background resets the view."""

    hovered = Signal(object)
    picked = Signal(object)
    applied = Signal(object)
    changed = Signal()
    name: ClassVar[str] = ""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.begin()
        self.x_name, self.y_name = "", ""
        self._free = False  # panned or zoomed: new trials do not move the view
        super().__init__(parent)
        self._ready = True
        self.plot.setMouseEnabled(x=True, y=True)
        self.plot.layout.setContentsMargins(EDGE, 0, SPILL, 0)
        self.plot.disableAutoRange()
        self.setMouseTracking(True)
        self.setAccessibleName(tr(self.name))
        self.plot.vb.sigRangeChangedManually.connect(self._let_go)

    # -- to be implemented

    def spots(self) -> tuple[Array, Array, Array]:
        """(x, y, trial index) of the points that can be picked, in plot coordinates."""
        none = np.zeros(0)
        return none, none, none.astype(int)

    def fill(self, fresh: Sequence[int] | None) -> None:
        """Set the items' data: all, or only the changes of the trials at these indices."""

    def build(self, palette: Palette) -> None:
        """Create the items, without data."""

    def ends(self) -> tuple[float, float, float, float] | None:
        """(left, right, bottom, top) of all data; None without data."""
        return None

    # -- drawing

    def show_study(self, study: Study) -> None:
        """Draw another study."""
        self.study, self.pick, self.under, self._free = study, None, None, False
        self.draw(self.look)

    def append(self, indices: Sequence[int]) -> None:
        """Draw new or changed trials."""
        self.fill(indices)
        self._fit()

    def set_theme(self, palette: Palette) -> None:
        """Set the colours, of the legend too."""
        super().set_theme(palette)
        self.changed.emit()

    def draw(self, palette: Palette) -> None:
        """Redraw for another study, theme or option."""
        if not self._ready:
            return
        self.axes(palette)
        self.plot.clear()
        self._veil = []
        self.build(palette)
        self._cursor = pg.ScatterPlotItem(size=13, brush=None, pen=pen(palette.text, 1.6))
        self._cursor.setZValue(50)
        self.plot.addItem(self._cursor)
        self.fill(None)
        self._last_range = None
        self._fit()
        self.marked()

    @override
    def redraw(self) -> None:
        self._free = False
        self.draw(self.look)

    def axes(self, palette: Palette) -> None:
        """Names, units and horizontal grid lines."""
        left, bottom = self.plot.getAxis("left"), self.plot.getAxis("bottom")
        left.setStyle(tickAlpha=255, maxTickLevel=0)
        left.setTickPen(pen(palette.line, 1.0))
        left.setGrid(255)
        left.setWidth(LEFT + TITLE if self.y_name else LEFT)
        style = {"color": palette.muted, "font-size": "11px"}
        for axis, name, log, k in ((left, self.y_name, self.log_y, 0), (bottom, self.x_name, self.log_x, 1)):
            axis.enableAutoSIPrefix(False)
            axis.setStyle(hideOverlappingLabels=SPILL)
            axis.tickSpacing = _spacing("" if log else name, BETWEEN[k])
            axis.tickStrings = lambda values, scale, gap, name=name, log=log: _ticks(name, values, gap, log)
        left.setLabel(self._titled(self.y_name, self.log_y) or None, **style)
        bottom.setHeight(34 if self.x_name else 18)
        bottom.setLabel(self._titled(self.x_name, self.log_x), **style)

    def _titled(self, name: str, log: bool) -> str:
        """Title of an axis."""
        return escape(title(name)) + (" (log)" if log and name else "")

    log_x: bool = False
    log_y: bool = False
    growing: ClassVar[bool] = False
    _last_range: tuple[float, float] | None = None
    _ready = False
    _veil: Sequence[Any] = ()

    def scaled(self, values: Array, log: bool) -> Array:
        """Values in plot coordinates: log10 on a log axis, NaN for values without a logarithm."""
        return np.log10(np.where(values > 0, values, np.nan)) if log else values

    def _fit(self) -> None:
        """Show all data, unless the user panned or zoomed."""
        extent = None if self._free else self.ends()
        if extent is None:
            return
        left, right, bottom, top = extent
        right = self._roomy(left, right)
        across, up = (right - left) or abs(left) * 0.1 or 1.0, (top - bottom) or abs(top) * 0.1 or 1.0
        self.plot.setXRange(left - ROOM * across / 2, right + ROOM * across / 2, padding=0)
        self.plot.setYRange(bottom - ROOM * up, top + ROOM * up, padding=0)

    def _roomy(self, left: float, right: float) -> float:
        """The right end, extended beyond the data so that the next trials do not move the axis."""
        last = self._last_range
        if not self.growing or last is None or last[0] != left or not left < right <= last[1] + 0.5 * (right - left):
            self._last_range = left, right
        elif right > last[1]:
            self._last_range = left, right + AHEAD * (right - left)
        return self._last_range[1] if self._last_range else right

    def _let_go(self, *_: object) -> None:
        self._free = True

    # -- pointing

    @override
    def near(self, at: QPointF) -> int | None:
        x, y, indices = self.spots()
        if not len(indices):
            return None
        (left, right), (low, high) = self.plot.vb.viewRange()
        box = self.plot.vb.sceneBoundingRect()
        scene = self.mapToScene(at.toPoint())
        px = box.left() + (x - left) / (right - left) * box.width() - scene.x()
        py = box.bottom() - (y - low) / (high - low) * box.height() - scene.y()
        far = np.where(np.isnan(px + py), np.inf, px * px + py * py)
        best = int(np.argmin(far))
        return int(indices[best]) if far[best] <= NEAR * NEAR else None

    @override
    def hover_metrics(self) -> tuple[str, ...]:
        return (*super().hover_metrics(), self.y_name)

    def dim(self, mask: Array | None) -> None:
        """Highlight trials by dots in the text colour, over a veil that fades all others."""
        for item in self._veil:
            self.plot.removeItem(item)
        self._veil = []
        if mask is None or not len(self.spots()[0]):
            return
        x, y, indices = self.spots()
        (left, right), _ = self.plot.vb.viewRange()
        veil = pg.LinearRegionItem((left - 1e3 * (right - left), right + 1e3 * (right - left)), movable=False,
                                   brush=tint(self.look.panel, 200), pen=None)  # fmt: skip
        there = np.zeros(len(self.study), bool)
        there[: len(mask)] = mask[: len(there)]
        chosen = np.flatnonzero(there[indices] & np.isfinite(x + y))
        dots = pg.ScatterPlotItem(x[chosen], y[chosen], size=7, brush=tint(self.look.accent, 220), pen=None)
        veil.setZValue(30)
        dots.setZValue(31)
        self._veil = [veil, dots]
        for item in self._veil:
            self.plot.addItem(item, ignoreBounds=True)

    @override
    def marked(self) -> None:
        x, y, indices = self.spots()
        rings = [np.flatnonzero(indices == p) for p in dict.fromkeys((self.pick, self.under)) if p is not None]
        rings_found = np.concatenate(rings) if rings else np.zeros(0, int)
        rings_found = rings_found[np.isfinite(x[rings_found] + y[rings_found])]
        self._cursor.setData(x[rings_found], y[rings_found])

    @override
    def reset(self) -> None:
        self._free, self._last_range = False, None
        self._fit()


def _spacing(name: str, between: int) -> Callable[[float, float, float], list[tuple[float, int]]]:
    """Tick spacing of an axis with labels at least `between` pixels apart; integers only for integer metrics."""
    minimum = 1.0 if name in WHOLE else 0.0
    return lambda low, high, size: [(max(step_of(name, high - low, size / between), minimum), 0)]


def _ticks(name: str, values: Sequence[float], gap: float, log: bool) -> list[str]:
    if log:
        return tick_text(name, [float(f"{10.0**v:.3g}") for v in values], 0.0)
    return tick_text(name, values, gap)
