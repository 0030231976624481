"""Chart of a kernel metric over sizes, one curve per version."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt

from espalier.app.features.kernels.state.row_text import (
    BYTES,
    Figure,
    amount,
    figure_of,
    rate_of,
    row_tooltip,
    size_axis,
    type_word,
)
from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import pen
from espalier.app.widgets.charts.chart_export import Table
from espalier.app.widgets.charts.log_chart import LogChart, Point
from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.results import Row
from espalier.kernels.bench.spec import shape_text

LEAST = 1e-12


class KernelSweep(LogChart):
    """Curves of one metric of one kernel in one type."""

    def __init__(self) -> None:
        self.rows: tuple[Row, ...] = ()
        self.figure, self.limits = "time", None
        self.names: tuple[str, ...] = ()
        super().__init__()
        self.words = row_tooltip

    def show_rows(self, rows: Sequence[Row], figure: str, names: Sequence[str], limits: Ceilings | None) -> None:
        """Draw rows of one kernel and type; `names`: all versions, in the order of their colours."""
        self.rows, self.figure, self.names, self.limits = tuple(rows), figure, tuple(names), limits
        kernel = rows[0].kernel if rows else tr("no kernel")
        self.setAccessibleName(tr("{} of {} over sizes", self.up.title, kernel))
        self.draw(self.look)

    @property
    def up(self) -> Figure:
        """Metric of the vertical axis."""
        return figure_of(self.figure, self.rows)

    @property
    def lines(self) -> dict[str, list[Point]]:
        """Version → spots, sorted by size."""
        across, up = size_axis(self.rows), self.up
        spots: dict[str, list[Point]] = {}
        for row in self.rows:
            x, y = across.of(row), up.of(row)
            if x and y and y > LEAST:
                spots.setdefault(row.version, []).append(Point(float(x), y, row))
        return {v: sorted(s, key=lambda spot: spot.x) for v, s in spots.items()}

    def draw(self, palette: Palette) -> None:
        """Draw the axes, the ceiling and the curves."""
        self.plot.clear()
        across, lines = size_axis(self.rows), self.lines
        self.spots = [s for line in lines.values() for s in line]
        self.name_axes(across.title, self.up.title)
        if not self.spots:
            return
        roof = self.roof
        for version, line in lines.items():
            colour = self.colour(self.names.index(version))
            if across.title != BYTES:  # sizes that vary in several dimensions give no curve
                x, y = np.log10([s.x for s in line]), np.log10([s.y for s in line])
                self.plot.addItem(pg.PlotCurveItem(x, y, pen=pen(colour)))
            if self.figure == "time":
                self._spread(line, colour)
            self.dots(line, colour, palette)
        if roof:
            dashed = pen(palette.muted, 1.2)
            dashed.setStyle(Qt.PenStyle.DashLine)
            self.plot.addItem(pg.InfiniteLine(math.log10(roof), 0, pen=dashed))
        ys = [s.y for s in self.spots] + ([roof] if roof else [])
        named = [s.x for s in self.spots] if across.title in self.rows[0].shape else ()
        self.bound([s.x for s in self.spots], ys, named)

    def _spread(self, line: Sequence[Point], colour: str) -> None:
        """Draw error bars of half the interquartile range."""
        spread = np.array([s.what.spread or 0.0 for s in line])
        x, y = (np.log10([s.x for s in line]), np.log10([s.y for s in line]))
        self.plot.addItem(pg.ErrorBarItem(x=x, y=y, top=np.log10(1 + spread), beam=0, pen=pen(colour, 1.0, 150),
                                          bottom=-np.log10(1 - np.minimum(spread, 0.9))))  # fmt: skip

    @property
    def roof(self) -> float | None:
        """Ceiling of the machine for this metric, or None."""
        if self.limits is None or not self.rows:
            return None
        if self.figure == "gb_s":
            return self.limits.copy_gb_s
        rate = self.limits.matmul_tflop_s.get(self.rows[0].dtype) if self.figure == "tflop_s" else None
        return rate and rate * rate_of(self.rows[0].device)[1]

    def legend(self) -> str:
        """Legend: the versions in their colours, and the ceiling."""
        entries = [f'<span style="color:{self.colour(self.names.index(v))}">●&nbsp;{html.escape(v)}</span>'
                 for v in self.lines]  # fmt: skip
        if (roof := self.roof) and entries:
            of = tr("a copy") if self.figure == "gb_s" else tr("a {} product", type_word(self.rows[0].dtype))
            entries.append(f'<span style="color:{self.look.muted}">╌&nbsp;{of} {amount(roof)}</span>')
        return " &nbsp; ".join(entries)

    def table(self) -> Table:
        """One row per point."""
        across, up = size_axis(self.rows), self.up
        rows = [(s.what.kernel, v, s.what.dtype, shape_text(s.what.shape), s.x, s.y, s.what.spread)
                for v, line in self.lines.items() for s in line]  # fmt: skip
        return ("kernel", "version", "type", "shape", across.title, up.title, "spread"), rows
