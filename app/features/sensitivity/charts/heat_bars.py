"""Bar chart of the divergence of each layer under one candidate, on a logarithmic scale."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QMouseEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.features.sensitivity.charts.agreement import power_text
from espalier.app.figures.heat_lines import LEAST, Heat, Line, divergence_text
from espalier.app.theme import SPARSITY, Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import Chart, tint
from espalier.app.widgets.charts.chart_export import Table

WIDTH = 0.82
FAINT = 140  # opacity of predicted values
GAP, MOST = 8, 110  # pixels: gap between names, maximum width of a name


@dataclass(frozen=True, slots=True)
class Bar:
    """A line of the map at the drawn column."""

    line: Line
    value: float
    measured: bool

    @property
    def tooltip(self) -> str:
        """Tooltip of a bar."""
        row = self.line.row
        assert row is not None
        value = divergence_text(self.value)
        return f"{row.node} · {row.port}\n" + (
            tr("KL {} measured", value) if self.measured else tr("KL {} predicted", value)
        )


class LayerBars(Chart):
    """Bars by layer; emits `chosen` with the Line of a clicked bar."""

    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        self.bars: tuple[Bar, ...] = ()
        self.picked: frozenset[str] = frozenset()
        self._title = ""
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setAccessibleName(tr("Divergence by layer"))

    def sizeHint(self) -> QSize:
        return QSize(420, 220)

    def show_column(self, heat: Heat, column: int, picked: frozenset[str] = frozenset()) -> None:
        """Draw the lines of a map at one column; `picked`: the selected nodes."""
        values = ((line, line.known(column)) for line in heat.lines if heat.columns)
        self.bars = tuple(Bar(line, v, line.measured(column)) for line, v in values if v is not None)
        self.picked = picked
        self._title = heat.columns[column].title if heat.columns else ""
        self.draw(self.look)

    def draw(self, palette: Palette) -> None:
        """Draw bars: measured opaque, predicted faint, selected in another colour."""
        self._axes()
        self.plot.clear()
        if not self.bars:
            return
        values = np.array([math.log10(max(b.value, LEAST)) for b in self.bars])
        finite = values[np.isfinite(values)]
        low = math.floor(float(finite.min()) - 0.3)
        high = float(finite.max()) + 0.15
        values = np.minimum(values, high)
        for measured, opacity in ((True, 255), (False, FAINT)):
            for picked, colour in ((False, palette.bar), (True, SPARSITY)):
                at = [i for i, b in enumerate(self.bars)
                      if b.measured == measured and (_node(b) in self.picked) == picked]  # fmt: skip
                self._bars(at, values, low, tint(colour, opacity))
        self.plot.setXRange(-0.6, len(self.bars) - 0.4, padding=0)
        self.plot.setYRange(low, high, padding=0)
        self._names()

    def _bars(self, at: list[int], values: np.ndarray, low: float, brush: object) -> None:
        if at:
            self.plot.addItem(pg.BarGraphItem(x=np.array(at), y0=low, y1=values[at], width=WIDTH,
                                              pen=QPen(Qt.PenStyle.NoPen), brush=brush))  # fmt: skip

    def _axes(self) -> None:
        left, ports = self.plot.getAxis("left"), any(b.line.port for b in self.bars)
        self.name_axes(
            tr("layers under {}", self._title) if self._title else "", tr("KL (nats)"), bottom=50 if ports else 36
        )
        left.tickStrings = power_text
        left.tickSpacing = lambda low, high, size: [(max(1.0, math.ceil((high - low) / 6)), 0)]

    def _names(self) -> None:
        """Label as many bars as fit, at least one."""
        axis = self.plot.getAxis("bottom")
        metrics = QFontMetrics(axis.style["tickFont"] or self.font())
        room = max(self.width() - 80, 100) / len(self.bars)
        titles = distinct(b.line.path for b in self.bars)
        named: list[tuple[int, str]] = []
        free = -math.inf  # right end of the last name
        for i, bar in enumerate(self.bars):
            name = metrics.elidedText(titles[bar.line.path], Qt.TextElideMode.ElideMiddle, MOST)
            half = max(metrics.horizontalAdvance(name), metrics.horizontalAdvance(bar.line.port)) / 2
            name = f"{name}\n{bar.line.port}".rstrip()
            if not named or i * room - half >= free + GAP:
                named.append((i, name))
                free = i * room + half
        axis.setTicks([named])

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.bars:  # pyqtgraph resizes during construction
            self._names()

    def legend(self) -> str:
        """Legend of the present kinds of bars."""
        kinds = (
            ("measured", tint(self.look.bar, 255), any(b.measured for b in self.bars)),
            ("predicted", tint(self.look.bar, FAINT), any(not b.measured for b in self.bars)),
            ("selected", tint(SPARSITY, 255), any(_node(b) in self.picked for b in self.bars)),
        )
        return " &nbsp; ".join(f'<span style="color:{_over(c, self.look.panel)}">■</span> {text}'
                               for text, c, there in kinds if there)  # fmt: skip

    # -- pointing

    def at(self, spot: QPointF) -> Bar | None:
        """The bar at a widget position, or None."""
        x = self.plot.vb.mapSceneToView(QPointF(self.mapToScene(spot.toPoint()))).x()
        return self.bars[round(x)] if self.bars and -0.5 < x < len(self.bars) - 0.5 else None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        bar = self.at(event.position())
        QToolTip.showText(event.globalPosition().toPoint(), bar.tooltip if bar else "", self)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and (bar := self.at(event.position())):
            self.chosen.emit(bar.line)

    def table(self) -> Table:
        """One row per bar."""
        rows = [(_node(b), b.line.row.port if b.line.row else "", b.value, "measured" if b.measured else "predicted")
                for b in self.bars]  # fmt: skip
        return ("node", "port", "KL", "how"), rows


def distinct(titles: Iterable[str]) -> dict[str, str]:
    """Shortest unique suffixes of dotted names."""
    parts = {title: title.split(".") for title in titles}
    ends = {title: [".".join(part[k:]) for k in range(len(part) - 1, -1, -1)] for title, part in parts.items()}
    counts = Counter(end for suffixes in ends.values() for end in suffixes)
    return {title: next((end for end in suffixes if counts[end] == 1), title) for title, suffixes in ends.items()}


def _over(colour: QColor, ground: str) -> str:
    """Blend a translucent colour with its background, since rich text has no opacity."""
    below, opacity = QColor(ground), colour.alphaF()
    pairs = ((colour.red(), below.red()), (colour.green(), below.green()), (colour.blue(), below.blue()))
    return QColor(*(round(opacity * a + (1 - opacity) * b) for a, b in pairs)).name()


def _node(bar: Bar) -> str:
    return bar.line.row.node if bar.line.row else ""
