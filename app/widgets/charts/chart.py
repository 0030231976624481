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
from espalier.app.widgets.charts.picture import Table, in_light, write_chart
from espalier.app.widgets.forms.fields import tokens

EDGE = 6.0  # pixels left of the name of the upright axis, which pyqtgraph would put on the border

LIGHTER = 135  # per cent, for lines on a dark ground

pg.setConfigOptions(antialias=True)


class Chart(pg.PlotWidget):
    """A themed plot. Subclasses draw in `draw(palette)`, give their figures in `table()`; `themed`: other colours."""

    themed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, enableMenu=False)  # menus made and thrown away were a third of a plot's making
        self.look: Palette = tokens(self)
        self.plot: Any = self.getPlotItem()  # pyqtgraph makes its methods while it runs
        self.plot.hideButtons()
        self.plot.setMouseEnabled(x=False, y=False)
        self.plot.layout.setContentsMargins(0, 0, 0, 0)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setViewportUpdateMode(self.ViewportUpdateMode.FullViewportUpdate)
        self.set_theme(self.look)

    def set_theme(self, palette: Palette) -> None:
        """Take other colours and draw again."""
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
        """A name on each axis, horizontal grid lines, numbers as they are; `left` and `bottom`: pixels of the axes."""
        up, along = self.plot.getAxis("left"), self.plot.getAxis("bottom")
        for axis, text in ((up, y), (along, x)):
            axis.enableAutoSIPrefix(False)
            axis.setLabel(escape(text), color=self.look.muted, **{"font-size": "11px"})
        up.setTickPen(pen(self.look.line, 1.0))
        up.setStyle(tickAlpha=255, maxTickLevel=0)
        up.setGrid(255)
        up.setWidth(left)
        along.setHeight(bottom)
        self.plot.layout.setContentsMargins(EDGE, 0, 0, 0)

    def draw(self, palette: Palette) -> None:
        """Draw what is known, in `palette`."""

    def table(self) -> Table:
        """The figures drawn: names of the columns, and rows."""
        return (), ()

    def export(self, path: Path) -> None:
        """Write the plot to a .png (twice the size on screen), .svg or .csv file; raises FileError."""
        with in_light(self, path):
            write_chart(self, path, self.table, self._paint_on)

    outlined = False  # written to a file of vectors just now

    def _paint_on(self, device: QPaintDevice) -> None:
        painter = QPainter(device)
        painter.fillRect(self.rect(), QColor(self.look.panel))
        self.outlined = isinstance(device, QSvgGenerator)
        self.render(painter, QRectF(self.rect()), self.rect())
        self.outlined = False
        painter.end()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """What neither zooms nor moves leaves the wheel to the panel around it."""
        if any(self.plot.getViewBox().state["mouseEnabled"]):
            super().wheelEvent(event)
        else:
            event.ignore()

    def viewportEvent(self, event: QEvent) -> bool:
        """Qt would look for a tip among the items, find none, and take away the words that the pointer has brought."""
        return event.type() == QEvent.Type.ToolTip or super().viewportEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.StyleChange) and hasattr(self, "plot"):
            now = tokens(self)
            if now is not self.look:
                self.set_theme(now)


def pen(colour: str, width: float = PLOT_WIDTH, alpha: int = 255) -> QPen:
    """A cosmetic pen."""
    made = QPen(tint(colour, alpha), width)
    made.setCosmetic(True)
    return made


def dashed(colour: str) -> QPen:
    """A thin broken line: a level that is no measurement of what is drawn."""
    made = pen(colour, 1.2)
    made.setStyle(Qt.PenStyle.DashLine)
    return made


def lighter(colour: str, look: Palette) -> str:
    """A category's colour, light enough for a dark ground."""
    return QColor(colour).lighter(LIGHTER).name() if look.dark else colour


def tint(colour: str, alpha: int) -> QColor:
    """A colour with opacity 0 … 255."""
    made = QColor(colour)
    made.setAlpha(alpha)
    return made
