"""Chart of a format: staircase x → q(x), or error x − q(x)."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.features.inspector.figures.formats import Stairs
from espalier.app.number_text import figure
from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import Chart, pen
from espalier.app.widgets.charts.chart_export import Table

LEFT = 54  # pixels of the vertical axis: a number with sign and exponent


class Staircase(Chart):
    """Draws Stairs; `error`: x − q(x) instead of q(x)."""

    def __init__(self, error: bool, parent: QWidget | None = None) -> None:
        self.stairs: Stairs | None = None
        self.error = error
        # Reused between draws: creating and adding items took most of the time.
        self._zero, self._same = pg.PlotCurveItem(), pg.PlotCurveItem()
        # A thin line without antialiasing: steps are vertical, and wide smooth lines take ten times as long to paint.
        self._curve = pg.PlotCurveItem(antialias=False)
        self._drawn = [self._zero, *([] if error else [self._same]), self._curve]
        super().__init__(parent)
        self.plot.getViewBox().setDefaultPadding(0)
        self.plot.getAxis("left").setWidth(LEFT)
        self.setMouseTracking(True)
        self.setAccessibleName(tr("Error x − q(x)") if error else tr("Staircase of x → q(x)"))

    def sizeHint(self) -> QSize:
        return QSize(260, 72 if self.error else 110)

    def show_stairs(self, stairs: Stairs | None) -> None:
        """Draw stairs; None: clear."""
        if stairs is not self.stairs:
            self.stairs = stairs
            self.draw(self.look)

    def draw(self, palette: Palette) -> None:
        """Draw the zero line, the diagonal and the curve."""
        stairs = self.stairs
        for item in self._drawn:
            if item.getViewBox() is None:
                self.plot.addItem(item, ignoreBounds=True)
            item.setVisible(stairs is not None)
        if stairs is None:
            for name in ("left", "bottom"):
                self.plot.getAxis(name).setTicks([[]])
            return
        low, high = float(stairs.x[0]), float(stairs.x[-1])
        y = self.values(stairs)
        least, most = self._heights(stairs, y)
        room = (most - least) * (0.22 if self.error else 0.06) or 1.0
        self.plot.setRange(xRange=(low, high), yRange=(least - room, most + room), padding=0)
        self._ends("bottom", low, high)
        self._ends("left", least, most)
        self._zero.setData([low, high], [0.0, 0.0], pen=pen(palette.line, 1.0))
        self._same.setData([low, high], [low, high], pen=pen(palette.muted, 1.0, 90))
        self._curve.setData(stairs.x, y, pen=pen(palette.bad if self.error else palette.accent, 1.0))

    def _heights(self, stairs: Stairs, y: np.ndarray) -> tuple[float, float]:
        """Range of y; errors of saturated values are clipped, since they would dwarf the others."""
        inner = y[(stairs.y > stairs.y.min()) & (stairs.y < stairs.y.max())] if self.error else y
        inner = inner if len(inner) else y
        return float(inner.min()), float(inner.max())

    def values(self, stairs: Stairs) -> np.ndarray:
        """The drawn values."""
        return stairs.x - stairs.y if self.error else stairs.y

    def _ends(self, axis: str, low: float, high: float) -> None:
        """Set ticks at both ends (inset) and at zero."""
        inset = (high - low) * (0.1 if axis == "bottom" else 0.0)
        ticks = [low + inset, *([0.0] if low < 0 < high else []), high - inset]
        self.plot.getAxis(axis).setTicks([[(t, short(t)) for t in ticks]])

    def mouseMoveEvent(self, ev: QMouseEvent) -> None:
        super().mouseMoveEvent(ev)
        at = self.plot.vb.mapSceneToView(QPointF(self.mapToScene(ev.pos()))).x()
        QToolTip.showText(ev.globalPosition().toPoint(), self.tooltip_at(at), self)

    def tooltip_at(self, x: float) -> str:
        """Tooltip: quantised value and error at `x`."""
        stairs = self.stairs
        if stairs is None or not stairs.x[0] <= x <= stairs.x[-1]:
            return ""
        i = int(np.argmin(np.abs(stairs.x - x)))
        return tr("x {} → {}, error {}", figure(stairs.x[i]), figure(stairs.y[i]), figure(stairs.x[i] - stairs.y[i]))

    def table(self) -> Table:
        """One row per point."""
        names = ("x", "q(x)", "x - q(x)")
        if self.stairs is None:
            return names, ()
        x, y = self.stairs.x.tolist(), self.stairs.y.tolist()
        return names, tuple((a, b, a - b) for a, b in zip(x, y, strict=True))


def short(value: float) -> str:
    """Axis label: three digits, or two with an exponent such as `−1.8e19`."""
    text = f"{value:.2g}" if value and not 1e-3 <= abs(value) < 1e5 else f"{value:.3g}"
    return text.replace("e+0", "e").replace("e-0", "e-").replace("e+", "e").replace("-", "−")
