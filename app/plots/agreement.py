"""Predicted against measured divergence: a dot for each measured cell, the diagonal, and the error in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from app.plots.chart import Chart, pen, tint
from app.plots.heat_lines import FLOAT_BITS, LEAST, PORTS, divergence_words
from app.plots.metrics import COLOURS, LIGHTER
from app.plots.picture import Table
from app.theme import Palette
from app.words import percent, plural
from passes.allocation.places import column_title
from passes.sensitivity.table import Sensitivity

NEAR = 12.0  # pixels between the pointer and a dot that it means
WIDEST = 760
FEW = 3  # dots below which ranks say nothing


@dataclass(frozen=True, slots=True)
class Dot:
    """A cell that was measured, both figures above nothing."""

    row: Sensitivity
    place: int

    @property
    def predicted(self) -> float:
        """What was predicted."""
        return self.row.predicted[self.place]

    @property
    def measured(self) -> float:
        """What was measured."""
        found = self.row.measured[self.place]
        assert found is not None
        return found

    @property
    def title(self) -> str:
        """What was given to the cell, without what is fitted."""
        return column_title(self.row.candidates[self.place])

    @property
    def bits(self) -> float:
        """Of its format."""
        held = self.row.candidates[self.place].format
        return held.bits if held else FLOAT_BITS

    @property
    def words(self) -> str:
        """The cell and its figures."""
        label = self.row.candidates[self.place].label
        return (f"{self.row.node} · {self.row.port} · {label}\npredicted {divergence_words(self.predicted)}, "
                f"measured {divergence_words(self.measured)}")  # fmt: skip


def port_kind(port: str) -> int:
    """0 for weights, 1 for activations."""
    return int(port not in PORTS["weights"])


def port_colour(kind: int, palette: Palette) -> str:
    """The colour of a kind of ports."""
    return QColor(COLOURS[kind]).lighter(LIGHTER).name() if palette.dark else COLOURS[kind]


def dots_of(table: Sequence[Sensitivity]) -> tuple[Dot, ...]:
    """All measured cells whose two figures can stand on a logarithmic scale."""
    return tuple(
        Dot(row, i) for row in table for i, m in enumerate(row.measured)
        if m is not None and LEAST < m < math.inf and LEAST < row.predicted[i] < math.inf
    )  # fmt: skip


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """The correlation of ranks; NaN for fewer than three, or where all are equal."""
    if len(x) < FEW:
        return math.nan
    ranks = [_ranks(np.asarray(v, float)) for v in (x, y)]
    a, b = (r - r.mean() for r in ranks)
    size = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size else math.nan


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0; equal values share their mean."""
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(times)
    return (ends - (times + 1) / 2)[place]


def agreement_words(dots: Sequence[Dot]) -> str:
    """How well the predictions hold, in words."""
    if not dots:
        return ""
    ratios = [d.measured / d.predicted for d in dots]
    rank = spearman([d.predicted for d in dots], [d.measured for d in dots])
    near = sum(0.5 <= r <= 2 for r in ratios) / len(ratios)
    words = [f"{plural(len(dots), 'measured cell')}", "" if math.isnan(rank) else f"rank correlation {rank:.2f}",
             f"measured is {float(np.median(ratios)):.2g} × predicted in the median",
             f"{percent(near, 0)} within a factor of 2"]  # fmt: skip
    return " · ".join(w for w in words if w).replace("-", "−")


class AgreementChart(Chart):
    """`chosen` tells the Sensitivity and the place of a dot that was clicked."""

    chosen = Signal(object, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        self.dots: tuple[Dot, ...] = ()
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setMaximumWidth(WIDEST)  # both axes are of one range: much wider than high it reads badly
        self.setAccessibleName("Predicted against measured divergence")

    def sizeHint(self) -> QSize:
        return QSize(420, 220)

    def show_table(self, table: Sequence[Sensitivity]) -> None:
        """Draw the measured cells of these rows."""
        self.dots = dots_of(table)
        self.setAccessibleDescription(agreement_words(self.dots))
        self.draw(self.look)

    def colour(self, kind: int) -> str:
        """The colour of weights (0) and activations (1)."""
        return port_colour(kind, self.look)

    def legend(self) -> str:
        """The two kinds of ports and the lines, in words of their colours; empty without dots."""
        if not self.dots:
            return ""
        kinds = [f'<span style="color:{self.colour(k)}">● {name}</span>'
                 for k, name in enumerate(("weights", "activations")) if self._of(k)]  # fmt: skip
        lines = f'<span style="color:{self.look.muted}">line: equal · dashed: a factor of 2 · bars: medians</span>'
        return " &nbsp; ".join((*kinds, lines))

    def _of(self, kind: int) -> list[Dot]:
        return [d for d in self.dots if port_kind(d.row.port) == kind]

    def draw(self, palette: Palette) -> None:
        """Axes of equal ranges, the diagonal, the dots."""
        self._axes()
        self.plot.clear()
        if not self.dots:
            return
        values = [math.log10(v) for d in self.dots for v in (d.predicted, d.measured)]
        low, high = min(values) - 0.2, max(values) + 0.2
        ends = np.array([low, high])
        self.plot.plot(ends, ends, pen=pen(palette.muted, 1.2))
        for step in (-math.log10(2), math.log10(2)):
            stroke = pen(palette.muted, 1.0)
            stroke.setStyle(Qt.PenStyle.DashLine)
            self.plot.plot(ends, ends + step, pen=stroke)
        for kind in (0, 1):
            held = self._of(kind)
            x, y = ([math.log10(v) for v in p] for p in ([d.predicted for d in held], [d.measured for d in held]))
            self.plot.addItem(pg.ScatterPlotItem(x, y, size=7, pen=None, brush=tint(self.colour(kind), 190)))
        self.plot.setXRange(low, high, padding=0)
        self.plot.setYRange(low, high, padding=0)

    def _axes(self) -> None:
        self.name_axes("predicted KL (nats)", "measured KL (nats)")
        for name in ("left", "bottom"):
            axis = self.plot.getAxis(name)
            axis.tickStrings = power_words
            axis.tickSpacing = lambda low, high, size: [(max(1.0, math.ceil((high - low) / 6)), 0)]

    # -- pointing

    def near(self, at: QPointF) -> Dot | None:
        """The dot nearest to a place on the widget, where one is near."""
        if not self.dots:
            return None
        far = [(math.hypot(s.x() - at.x(), s.y() - at.y()), i) for i, s in enumerate(map(self.spot, self.dots))]
        least, place = min(far)
        return self.dots[place] if least <= NEAR else None

    def spot(self, dot: Dot) -> QPointF:
        """Where a dot lies on the widget."""
        scene = self.plot.vb.mapViewToScene(QPointF(math.log10(dot.predicted), math.log10(dot.measured)))
        return QPointF(self.mapFromScene(scene))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        found = self.near(event.position())
        self.setCursor(Qt.CursorShape.PointingHandCursor if found else Qt.CursorShape.ArrowCursor)
        QToolTip.showText(event.globalPosition().toPoint(), found.words if found else "", self)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and (found := self.near(event.position())):
            self.chosen.emit(found.row, found.place)

    def table(self) -> Table:
        """A row for each dot."""
        rows = [(d.row.node, d.row.port, d.row.candidates[d.place].label, d.predicted, d.measured) for d in self.dots]
        return ("node", "port", "format", "predicted", "measured"), rows


def power_words(values: Sequence[float], scale: float, spacing: float) -> list[str]:
    """Ticks of a logarithmic axis: 0.001, 1e−5."""
    return [divergence_words(10.0**v).replace("1.0e", "1e") for v in values]
