"""Charts of measured cells: a dot for each, told by the pointer and chosen by a click."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.figures.heat_lines import FLOAT_BITS, LEAST, PORTS, divergence_words
from espalier.app.widgets.charts.chart import Chart, tint
from espalier.app.widgets.charts.metrics import COLOURS, LIGHTER
from espalier.app.widgets.charts.picture import Table
from espalier.passes.allocation.decisions import column_title
from espalier.passes.sensitivity.table import Sensitivity

NEAR = 12.0  # pixels between the pointer and a dot that it means


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
    def kind(self) -> int:
        """0 for weights, 1 for activations."""
        return int(self.row.port not in PORTS["weights"])

    @property
    def words(self) -> str:
        """The cell and its figures."""
        label = self.row.candidates[self.place].label
        return (f"{self.row.node} · {self.row.port} · {label}\npredicted {divergence_words(self.predicted)}, "
                f"measured {divergence_words(self.measured)}")  # fmt: skip


def dots_of(table: Sequence[Sensitivity]) -> tuple[Dot, ...]:
    """All measured cells whose two figures can stand on a logarithmic scale."""
    return tuple(
        Dot(row, i) for row in table for i, m in enumerate(row.measured)
        if m is not None and LEAST < m < math.inf and LEAST < row.predicted[i] < math.inf
    )  # fmt: skip


class DotChart(Chart):
    """`chosen` tells the Sensitivity and the place of a dot that was clicked. Subclasses say where the dots stand."""

    chosen = Signal(object, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        self.dots: tuple[Dot, ...] = ()
        self.places = np.zeros((0, 2))  # of the dots, in the plot's own units
        super().__init__(parent)
        self.setMouseTracking(True)

    def sizeHint(self) -> QSize:
        return QSize(420, 220)

    def colour(self, kind: int) -> str:
        """The colour of weights (0) and activations (1)."""
        return QColor(COLOURS[kind]).lighter(LIGHTER).name() if self.look.dark else COLOURS[kind]

    def _draw_dots(self, size: float) -> None:
        kinds = np.array([d.kind for d in self.dots])
        for kind in (0, 1):
            x, y = self.places[kinds == kind].T
            self.plot.addItem(pg.ScatterPlotItem(x, y, size=size, pen=None, brush=tint(self.colour(kind), 190)))

    # -- pointing

    def near(self, at: QPointF) -> Dot | None:
        """The dot nearest to a place on the widget, where one is near."""
        if not self.dots:
            return None
        box = self.plot.vb
        here, pixel = box.mapSceneToView(self.mapToScene(at.toPoint())), box.viewPixelSize()
        far = np.hypot(*((self.places - (here.x(), here.y())) / pixel).T)
        place = int(far.argmin())
        return self.dots[place] if far[place] <= NEAR else None

    def spot(self, dot: Dot) -> QPointF:
        """Where a dot lies on the widget."""
        x, y = map(float, self.places[self.dots.index(dot)])
        return QPointF(self.mapFromScene(self.plot.vb.mapViewToScene(QPointF(x, y))))

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
        rows = [(d.row.node, d.row.port, d.row.candidates[d.place].label, d.predicted, d.measured,
                 d.measured / d.predicted) for d in self.dots]  # fmt: skip
        return ("node", "port", "format", "predicted", "measured", "measured over predicted"), rows
