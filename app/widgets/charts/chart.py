"""The base of all plots: axes, fonts and colours from the theme's tokens; export to PNG, SVG and CSV."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QPaintDevice, QPainter, QPen, QWheelEvent
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QFrame, QWidget

from espalier.app.theme import PLOT_WIDTH, SECONDARY, Palette
from espalier.app.widgets.charts.chart_export import Table, light_theme, offer_chart, write_chart
from espalier.app.widgets.forms.fields import tokens

EDGE = 6.0  # pixels left of the name of the vertical axis, which pyqtgraph would put on the border
LIGHTER = 135  # per cent, for lines on a dark background

pg.setConfigOptions(antialias=True)


class Axis(pg.AxisItem):
    """An axis that lays out its name only where that has changed: pyqtgraph does so with each colour and range."""

    _laid_out: str | None = None

    def updateAutoSIPrefix(self) -> None:
        """Scale nothing where prefixes are off: pyqtgraph 0.14 then multiplied the numbers below 1 by 1000."""
        if self.autoSIPrefix:
            super().updateAutoSIPrefix()
        else:
            self.autoSIPrefixScale, self.labelUnitPrefix = 1.0, ""
            self._updateLabel()

    def _updateLabel(self) -> None:
        text = self.labelString()
        if text != self._laid_out:
            self._laid_out = text
            super()._updateLabel()
        else:
            self._adjustSize()
            self.picture = None
            self.update()


class Chart(pg.PlotWidget):
    """A themed plot. Subclasses implement `draw(palette)` and `table()`. `themed`: the colours have changed."""

    themed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        axes = {side: Axis(side) for side in ("left", "bottom")}
        super().__init__(parent, enableMenu=False, axisItems=axes)  # unused menus took a third of the time
        self.look: Palette = tokens(self)
        self.plot: Any = self.getPlotItem()  # pyqtgraph adds its methods at run time
        self.plot.hideButtons()
        self.plot.setMouseEnabled(x=False, y=False)
        self.plot.layout.setContentsMargins(0, 0, 0, 0)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setViewportUpdateMode(self.ViewportUpdateMode.FullViewportUpdate)
        self.set_theme(self.look)
        self.handle = offer_chart(self)

    def set_theme(self, palette: Palette) -> None:
        """Set the colours and draw again."""
        self.look = palette
        self.setBackground(palette.panel)
        font = QFont(self.font())
        font.setPixelSize(round(SECONDARY + 0.5))
        for name in ("left", "bottom"):
            axis = self.plot.getAxis(name)
            axis.setPen(QPen(Qt.PenStyle.NoPen))
            axis.setTickPen(QPen(Qt.PenStyle.NoPen))
            axis.setTextPen(QColor(palette.muted))
            axis.setTickFont(font)
            axis.setStyle(tickLength=0, tickTextOffset=4, tickAlpha=0)
        self.plot.getAxis("bottom").setHeight(18)
        self.draw(palette)
        self.themed.emit()

    def name_axes(self, x: str, y: str, left: int = 64, bottom: int = 36) -> None:
        """Name both axes, draw horizontal grid lines, disable SI prefixes. `left`, `bottom`: axis sizes in pixels."""
        vertical, horizontal = self.plot.getAxis("left"), self.plot.getAxis("bottom")
        for axis, text in ((vertical, y), (horizontal, x)):
            axis.enableAutoSIPrefix(False)
            axis.setLabel(escape(text), color=self.look.muted, **{"font-size": "11px"})
        vertical.setTickPen(pen(self.look.line, 1.0))
        vertical.setStyle(tickAlpha=255, maxTickLevel=0)
        vertical.setGrid(255)
        vertical.setWidth(left)
        horizontal.setHeight(bottom)
        self.plot.layout.setContentsMargins(EDGE, 0, 0, 0)

    def draw(self, palette: Palette) -> None:
        """Draw the data in the colours of `palette`."""

    def table(self) -> Table:
        """The plotted values: column names and rows."""
        return (), ()

    def export(self, path: Path) -> None:
        """Write the plot to a .png (twice the size on screen), .svg or .csv file. Raises FileError."""
        with light_theme(self, path):
            write_chart(self, path, self.table, self._paint_on)

    outlined = False  # whether it is being written as SVG

    def _paint_on(self, device: QPaintDevice) -> None:
        painter = QPainter(device)
        painter.fillRect(self.rect(), QColor(self.look.panel))
        self.outlined = isinstance(device, QSvgGenerator)
        self.render(painter, QRectF(self.rect()), self.rect())
        self.outlined = False
        painter.end()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Ignore the wheel unless the plot zooms, so that the panel around it scrolls."""
        if any(self.plot.getViewBox().state["mouseEnabled"]):
            super().wheelEvent(event)
        else:
            event.ignore()

    def viewportEvent(self, event: QEvent) -> bool:
        """Ignore tool tip events: Qt finds none among the items and would hide the one shown on hover."""
        return event.type() == QEvent.Type.ToolTip or super().viewportEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        changed = event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange)
        if changed and hasattr(self, "plot") and not self.closed:
            palette = tokens(self)
            if palette is not self.look:
                self.set_theme(palette)


def pen(colour: str, width: float = PLOT_WIDTH, alpha: int = 255) -> QPen:
    """A cosmetic pen; `width` in pixels, `alpha` 0 … 255."""
    result = QPen(tint(colour, alpha), width)
    result.setCosmetic(True)
    return result


def dashed(colour: str) -> QPen:
    """A thin dashed pen, for reference levels."""
    result = pen(colour, 1.2)
    result.setStyle(Qt.PenStyle.DashLine)
    return result


def lighter(colour: str, look: Palette) -> str:
    """A category's colour, lightened on a dark background."""
    return QColor(colour).lighter(LIGHTER).name() if look.dark else colour


def tint(colour: str, alpha: int) -> QColor:
    """A colour with opacity 0 … 255."""
    result = QColor(colour)
    result.setAlpha(alpha)
    return result
