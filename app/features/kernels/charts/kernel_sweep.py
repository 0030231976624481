"""A kernel over sizes: a curve for each version, as it is measured."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt

from espalier.app.features.kernels.state.words import (
    BYTES,
    Figure,
    amount,
    figure_of,
    rate_of,
    size_axis,
    spoken,
    type_word,
)
from espalier.app.theme import Palette
from espalier.app.widgets.charts.chart import pen
from espalier.app.widgets.charts.log_chart import LogChart, Spot
from espalier.app.widgets.charts.picture import Table
from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.results import Row
from espalier.kernels.bench.spec import shape_text

LEAST = 1e-12


class KernelSweep(LogChart):
    """One figure of one kernel in one type, version by version."""

    def __init__(self) -> None:
        self.rows: tuple[Row, ...] = ()
        self.figure, self.limits = "time", None
        self.names: tuple[str, ...] = ()
        super().__init__()
        self.words = spoken

    def show_rows(self, rows: Sequence[Row], figure: str, names: Sequence[str], limits: Ceilings | None) -> None:
        """Draw rows of one kernel and type; `names`: all versions, whose places give the colours."""
        self.rows, self.figure, self.names, self.limits = tuple(rows), figure, tuple(names), limits
        kernel = rows[0].kernel if rows else "no kernel"
        self.setAccessibleName(f"{self.up.title} of {kernel} over sizes")
        self.draw(self.look)

    @property
    def up(self) -> Figure:
        """What the vertical axis shows."""
        return figure_of(self.figure, self.rows)

    @property
    def lines(self) -> dict[str, list[Spot]]:
        """Version → its spots, in order of size."""
        across, up = size_axis(self.rows), self.up
        found: dict[str, list[Spot]] = {}
        for row in self.rows:
            x, y = across.of(row), up.of(row)
            if x and y and y > LEAST:
                found.setdefault(row.version, []).append(Spot(float(x), y, row))
        return {v: sorted(s, key=lambda spot: spot.x) for v, s in found.items()}

    def draw(self, palette: Palette) -> None:
        """Axes, what a copy reaches, and the curves."""
        self.plot.clear()
        across, lines = size_axis(self.rows), self.lines
        self.spots = [s for line in lines.values() for s in line]
        self.name_axes(across.title, self.up.title)
        if not self.spots:
            return
        roof = self.roof
        for version, line in lines.items():
            colour = self.colour(self.names.index(version))
            if across.title != BYTES:  # sizes that differ in more than one way are no curve
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

    def _spread(self, line: Sequence[Spot], colour: str) -> None:
        """Half the distance of the quartiles, up and down."""
        share = np.array([s.what.spread or 0.0 for s in line])
        x, y = (np.log10([s.x for s in line]), np.log10([s.y for s in line]))
        self.plot.addItem(pg.ErrorBarItem(x=x, y=y, top=np.log10(1 + share), beam=0, pen=pen(colour, 1.0, 150),
                                          bottom=-np.log10(1 - np.minimum(share, 0.9))))  # fmt: skip

    @property
    def roof(self) -> float | None:
        """What the machine can do at most of this figure, where one number says it."""
        if self.limits is None or not self.rows:
            return None
        if self.figure == "gb_s":
            return self.limits.copy_gb_s
        rate = self.limits.matmul_tflop_s.get(self.rows[0].dtype) if self.figure == "tflop_s" else None
        return rate and rate * rate_of(self.rows[0].device)[1]

    def legend(self) -> str:
        """The versions in words of their colours, and the roof."""
        words = [f'<span style="color:{self.colour(self.names.index(v))}">●&nbsp;{html.escape(v)}</span>'
                 for v in self.lines]  # fmt: skip
        if (roof := self.roof) and words:
            of = "a copy" if self.figure == "gb_s" else f"a {type_word(self.rows[0].dtype)} product"
            words.append(f'<span style="color:{self.look.muted}">╌&nbsp;{of} {amount(roof)}</span>')
        return " &nbsp; ".join(words)

    def table(self) -> Table:
        """A row for each point."""
        across, up = size_axis(self.rows), self.up
        rows = [(s.what.kernel, v, s.what.dtype, shape_text(s.what.shape), s.x, s.y, s.what.spread)
                for v, line in self.lines.items() for s in line]  # fmt: skip
        return ("kernel", "version", "type", "shape", across.title, up.title, "spread"), rows
