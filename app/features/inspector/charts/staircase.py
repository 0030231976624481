"""What a format makes of x: the staircase x → q(x), or its error x − q(x)."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.features.inspector.figures.formats import Stairs
from espalier.app.theme import Palette
from espalier.app.widgets.charts.chart import Chart, pen
from espalier.app.widgets.charts.picture import Table
from espalier.app.words import figure

LEFT = 54  # pixels of the upright axis: a number with its sign and exponent


class Staircase(Chart):
    """`show_stairs` says what is drawn; `error` draws x − q(x) instead of q(x)."""

    def __init__(self, error: bool, parent: QWidget | None = None) -> None:
        self.stairs: Stairs | None = None
        self.error = error
        # Kept from draw to draw: making and adding them anew took most of a draw.
        self._zero, self._same = pg.PlotCurveItem(), pg.PlotCurveItem()
        # A thin line without smoothing: steps stand upright, and wide smooth ones take ten times as long to paint.
        self._curve = pg.PlotCurveItem(antialias=False)
        self._drawn = [self._zero, *([] if error else [self._same]), self._curve]
        super().__init__(parent)
        self.plot.getViewBox().setDefaultPadding(0)
        self.plot.getAxis("left").setWidth(LEFT)
        self.setMouseTracking(True)
        self.setAccessibleName("Error x − q(x)" if error else "Staircase of x → q(x)")

    def sizeHint(self) -> QSize:
        return QSize(260, 72 if self.error else 110)

    def show_stairs(self, stairs: Stairs | None) -> None:
        """Draw these, or nothing."""
        if stairs is not self.stairs:
            self.stairs = stairs
            self.draw(self.look)

    def draw(self, palette: Palette) -> None:
        """Zero line, x itself as a faint diagonal, and the curve."""
        found = self.stairs
        for item in self._drawn:
            if item.getViewBox() is None:
                self.plot.addItem(item, ignoreBounds=True)
            item.setVisible(found is not None)
        if found is None:
            for name in ("left", "bottom"):
                self.plot.getAxis(name).setTicks([[]])
            return
        low, high = float(found.x[0]), float(found.x[-1])
        y = self.values(found)
        least, most = self._heights(found, y)
        room = (most - least) * (0.22 if self.error else 0.06) or 1.0
        self.plot.setRange(xRange=(low, high), yRange=(least - room, most + room), padding=0)
        self._ends("bottom", low, high)
        self._ends("left", least, most)
        self._zero.setData([low, high], [0.0, 0.0], pen=pen(palette.line, 1.0))
        self._same.setData([low, high], [low, high], pen=pen(palette.muted, 1.0, 90))
        self._curve.setData(found.x, y, pen=pen(palette.bad if self.error else palette.accent, 1.0))

    def _heights(self, found: Stairs, y: np.ndarray) -> tuple[float, float]:
        """The ends of y; errors of what saturates run out of the frame, or they would hide the others."""
        inner = y[(found.y > found.y.min()) & (found.y < found.y.max())] if self.error else y
        inner = inner if len(inner) else y
        return float(inner.min()), float(inner.max())

    def values(self, found: Stairs) -> np.ndarray:
        """What is drawn over x."""
        return found.x - found.y if self.error else found.y

    def _ends(self, axis: str, low: float, high: float) -> None:
        """Three ticks: both ends, and zero where it lies between; the outer ones stand inside the plot."""
        inset = (high - low) * (0.1 if axis == "bottom" else 0.0)
        ticks = [low + inset, *([0.0] if low < 0 < high else []), high - inset]
        self.plot.getAxis(axis).setTicks([[(t, short(t)) for t in ticks]])

    def mouseMoveEvent(self, ev: QMouseEvent) -> None:
        super().mouseMoveEvent(ev)
        at = self.plot.vb.mapSceneToView(QPointF(self.mapToScene(ev.pos()))).x()
        QToolTip.showText(ev.globalPosition().toPoint(), self.words_at(at), self)

    def words_at(self, x: float) -> str:
        """What becomes of `x`, for the hover."""
        found = self.stairs
        if found is None or not found.x[0] <= x <= found.x[-1]:
            return ""
        i = int(np.argmin(np.abs(found.x - x)))
        return f"x {figure(found.x[i])} → {figure(found.y[i])}, error {figure(found.x[i] - found.y[i])}"

    def table(self) -> Table:
        """One row a point."""
        names = ("x", "q(x)", "x - q(x)")
        if self.stairs is None:
            return names, ()
        x, y = self.stairs.x.tolist(), self.stairs.y.tolist()
        return names, tuple((a, b, a - b) for a, b in zip(x, y, strict=True))


def short(value: float) -> str:
    """A value at an axis: `−1.8e19` where three digits and an exponent would not fit."""
    text = f"{value:.2g}" if value and not 1e-3 <= abs(value) < 1e5 else f"{value:.3g}"
    return text.replace("e+0", "e").replace("e-0", "e-").replace("e+", "e").replace("-", "−")
