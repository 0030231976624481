"""Charts of plans: stacked bars of a step's parts and of a rank's memory, and the prediction over devices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QSize
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QWidget

from espalier.app.number_text import cell
from espalier.app.theme import CATEGORIES, Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import Chart, dashed, lighter, pen
from espalier.app.widgets.charts.chart_export import Table

Row = dict[str, Any]
TIMES = (("compute_ms", "compute", "matmul"), ("communication_ms", "communication", "activation"),
         ("bubble_ms", "bubble", "other"))  # fmt: skip
MEMORY = (("state_bytes", tr("weights and state"), "linear"), ("activation_bytes", tr("activations"), "norm"))
GIB, MIB = 2.0**30, 2.0**20
PER_PLAN, AROUND = 44, 60  # pixels of height: of a bar with its gap, of the axis
Part = tuple[str, str, str]  # column, name, category of its colour


class StackedBars(Chart):
    """A horizontal bar per plan, the first one on top; `parts` of it beside one another."""

    def __init__(self, parts: Sequence[Part], title: str, unit: str, parent: QWidget | None = None) -> None:
        self.rows: tuple[Row, ...] = ()
        self.parts, self._title, self._unit, self._divisor = tuple(parts), title, unit, 1.0
        self.limit: float | None = None  # drawn as a line, in units of the axis
        super().__init__(parent)
        self.setAccessibleName(title)

    def sizeHint(self) -> QSize:
        return QSize(320, 190)

    def show_rows(self, rows: Sequence[Row], limit: float | None = None) -> None:
        """Draw plans; those without figures have no bar. `limit`: in units of the columns."""
        self.rows = tuple(r for r in rows if not r.get("problem"))
        self._divisor = self._scale()
        self.setMaximumHeight(AROUND + PER_PLAN * max(len(self.rows), 1))
        self.limit = None if limit is None else limit / self._divisor
        self.draw(self.look)

    def _scale(self) -> float:
        """What values are divided by: bytes become GiB, or MiB where all are smaller."""
        most = max((sum(float(r.get(p[0]) or 0.0) for p in self.parts) for r in self.rows), default=0.0)
        return 1.0 if self._unit else GIB if most >= GIB else MIB

    @property
    def axis(self) -> str:
        """The name of the axis with its unit."""
        return f"{self._title}, {self._unit or ('GiB' if self._divisor == GIB else 'MiB')}"

    @property
    def shown_parts(self) -> tuple[Part, ...]:
        """The parts that any plan has."""
        return tuple(p for p in self.parts if any(r.get(p[0]) for r in self.rows))

    def draw(self, palette: Palette) -> None:
        """Draw the bars and the limit."""
        self.plot.clear()
        if not self.rows:
            return
        self.name_axes(self.axis, "", left=92)
        self.plot.getAxis("left").setGrid(False)
        heights = list(range(len(self.rows), 0, -1))
        self.plot.getAxis("left").setTicks([[(y, r["plan"]) for y, r in zip(heights, self.rows, strict=True)]])
        ends = [0.0] * len(self.rows)
        for column, _, category in self.shown_parts:
            widths = [float(r.get(column) or 0.0) / self._divisor for r in self.rows]
            colour = QColor(lighter(CATEGORIES[category], palette))
            bars = pg.BarGraphItem(x0=list(ends), width=widths, y=heights, height=0.6, brush=colour,
                                   pen=pen(palette.panel, 1.0))  # fmt: skip
            self.plot.addItem(bars)
            ends = [end + width for end, width in zip(ends, widths, strict=True)]
        most = max(ends)
        if self.limit is not None and self.limit <= 1.6 * most:  # a far limit would leave no room for the bars
            self.plot.addItem(pg.InfiniteLine(self.limit, 90, pen=dashed(palette.bad)))
            most = max(most, self.limit)
        self.plot.setXRange(0, 1.04 * most, padding=0)
        self.plot.setYRange(0.4, len(self.rows) + 0.6, padding=0)

    def legend(self) -> tuple[tuple[str, str], ...]:
        """(label, colour) of each part that is drawn."""
        return tuple((name, lighter(CATEGORIES[category], self.look)) for _, name, category in self.shown_parts)

    def table(self) -> Table:
        """The drawn values."""
        columns = ("plan", *(p[0] for p in self.parts))
        return columns, [tuple(row.get(c) for c in columns) for row in self.rows]


class ScalingChart(Chart):
    """Predicted milliseconds of a step by the number of devices, both logarithmic; dashed: an ideal speedup."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.rows: tuple[Row, ...] = ()
        self._mark: float | None = None
        super().__init__(parent)
        self.setAccessibleName(tr("Predicted step by devices"))

    def sizeHint(self) -> QSize:
        return QSize(320, 190)

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Draw the numbers of devices that have a prediction."""
        self.rows = tuple(r for r in rows if r.get("step_ms"))
        self.draw(self.look)

    def mark(self, devices: int | None) -> None:
        """Draw a line at a number of devices; None: nowhere."""
        self._mark = None if devices is None else math.log2(devices)
        self.draw(self.look)

    def draw(self, palette: Palette) -> None:
        """Draw the prediction, its compute alone and the ideal."""
        self.plot.clear()
        if not self.rows:
            return
        self.name_axes(tr("devices (simulated by the cost model)"), tr("step, ms"))
        xs = [math.log2(r["devices"]) for r in self.rows]
        first = self.rows[0]
        ideal = [first["step_ms"] * first["devices"] / r["devices"] for r in self.rows]
        for values, look in (
            (ideal, dashed(palette.muted)),
            ([r["compute_ms"] for r in self.rows], pen(lighter(CATEGORIES["matmul"], palette), 1.4, 150)),
            ([r["step_ms"] for r in self.rows], pen(palette.accent)),
        ):
            self.plot.plot(xs, [math.log10(max(v, 1e-9)) for v in values], pen=look)
        ys = [math.log10(max(r["step_ms"], 1e-9)) for r in self.rows]
        dots = pg.ScatterPlotItem(xs, ys, size=8, brush=QColor(palette.accent), pen=pen(palette.panel, 1.0))
        self.plot.addItem(dots)
        if self._mark is not None:
            self.plot.addItem(pg.InfiniteLine(self._mark, 90, pen=pen(palette.muted, 1.0)))
        self.plot.getAxis("bottom").setTicks([[(x, str(r["devices"])) for x, r in zip(xs, self.rows, strict=True)]])
        low, high = min(map(math.log10, [*ideal, *(r["step_ms"] for r in self.rows)])), max(ys)
        marks = range(math.floor(low), math.ceil(high) + 1)
        self.plot.getAxis("left").setTicks([[(k, cell(10.0**k)) for k in marks]])
        self.plot.setXRange(xs[0] - 0.3, xs[-1] + 0.3, padding=0)
        self.plot.setYRange(low - 0.2, high + 0.2, padding=0)

    def legend(self) -> tuple[tuple[str, str], ...]:
        """(label, colour) of each line."""
        return ((tr("step"), self.look.accent), (tr("compute alone"), lighter(CATEGORIES["matmul"], self.look)),
                (tr("ideal speedup"), self.look.muted))  # fmt: skip

    def table(self) -> Table:
        """The drawn values."""
        columns = (
            "devices",
            "mesh",
            "step_ms",
            "compute_ms",
            "communication_ms",
            "memory_bytes",
            "speedup",
            "efficiency",
        )
        return columns, [tuple(row.get(c) for c in columns) for row in self.rows]
