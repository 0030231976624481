"""Base of charts with a dot per measured cell, with tooltips and clicks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.figures.heat_lines import FLOAT_BITS, LEAST, PORTS, divergence_text
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import Chart, lighter, tint
from espalier.app.widgets.charts.chart_export import Table
from espalier.app.widgets.charts.metrics import COLOURS
from espalier.passes.allocation.decisions import column_title
from espalier.passes.sensitivity.table import Sensitivity

NEAR = 12.0  # maximum pixels between pointer and dot


@dataclass(frozen=True, slots=True)
class Dot:
    """A measured cell with positive predicted and measured divergence."""

    row: Sensitivity
    place: int

    @property
    def predicted(self) -> float:
        """Predicted divergence."""
        return self.row.predicted[self.place]

    @property
    def measured(self) -> float:
        """Measured divergence."""
        value = self.row.measured[self.place]
        assert value is not None
        return value

    @property
    def title(self) -> str:
        """Title of the candidate without fitted parameters."""
        return column_title(self.row.candidates[self.place])

    @property
    def bits(self) -> float:
        """Bits of the format."""
        fmt = self.row.candidates[self.place].format
        return fmt.bits if fmt else FLOAT_BITS

    @property
    def kind(self) -> int:
        """0 for weights, 1 for activations."""
        return int(self.row.port not in PORTS["weights"])

    @property
    def tooltip(self) -> str:
        """Tooltip of the cell."""
        label = self.row.candidates[self.place].label
        return tr(
            "{} · {} · {}\npredicted {}, measured {}",
            self.row.node,
            self.row.port,
            label,
            divergence_text(self.predicted),
            divergence_text(self.measured),
        )


def dots_of(table: Sequence[Sensitivity]) -> tuple[Dot, ...]:
    """All measured cells whose divergences fit a logarithmic scale."""
    return tuple(
        Dot(row, i) for row in table for i, m in enumerate(row.measured)
        if m is not None and LEAST < m < math.inf and LEAST < row.predicted[i] < math.inf
    )  # fmt: skip


class DotChart(Chart):
    """Emits `chosen` with the Sensitivity and candidate index of a clicked dot; subclasses set the dots' positions."""

    chosen = Signal(object, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        self.dots: tuple[Dot, ...] = ()
        self.places = np.zeros((0, 2))  # dot positions in plot units
        super().__init__(parent)
        self.setMouseTracking(True)

    def sizeHint(self) -> QSize:
        return QSize(420, 220)

    def colour(self, kind: int) -> str:
        """The colour of weights (0) and activations (1)."""
        return lighter(COLOURS[kind], self.look)

    def _draw_dots(self, size: float) -> None:
        kinds = np.array([d.kind for d in self.dots])
        for kind in (0, 1):
            x, y = self.places[kinds == kind].T
            self.plot.addItem(pg.ScatterPlotItem(x, y, size=size, pen=None, brush=tint(self.colour(kind), 190)))

    # -- pointing

    def near(self, at: QPointF) -> Dot | None:
        """The nearest dot within NEAR pixels of a widget position, or None."""
        if not self.dots:
            return None
        box = self.plot.vb
        here, pixel = box.mapSceneToView(self.mapToScene(at.toPoint())), box.viewPixelSize()
        distances = np.hypot(*((self.places - (here.x(), here.y())) / pixel).T)
        index = int(distances.argmin())
        return self.dots[index] if distances[index] <= NEAR else None

    def spot(self, dot: Dot) -> QPointF:
        """The widget position of a dot."""
        x, y = map(float, self.places[self.dots.index(dot)])
        return QPointF(self.mapFromScene(self.plot.vb.mapViewToScene(QPointF(x, y))))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        hit = self.near(event.position())
        self.setCursor(Qt.CursorShape.PointingHandCursor if hit else Qt.CursorShape.ArrowCursor)
        QToolTip.showText(event.globalPosition().toPoint(), hit.tooltip if hit else "", self)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and (hit := self.near(event.position())):
            self.chosen.emit(hit.row, hit.place)

    def table(self) -> Table:
        """One row per dot."""
        rows = [(d.row.node, d.row.port, d.row.candidates[d.place].label, d.predicted, d.measured,
                 d.measured / d.predicted) for d in self.dots]  # fmt: skip
        return ("node", "port", "format", "predicted", "measured", "measured over predicted"), rows
