"""Roofline chart: measured rates over arithmetic intensity, under the machine's measured ceilings."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QColor

from espalier.app.features.kernels.state.row_text import amount, limits_text, rate_of, row_tooltip, type_word
from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import pen
from espalier.app.widgets.charts.chart_export import Table
from espalier.app.widgets.charts.log_chart import LogChart, Point
from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.results import ABOVE, Row
from espalier.kernels.bench.spec import shape_text

WIDER = 3.0  # factor by which the roof extends beyond the points
NAMED = 12  # up to this many kernels are labelled
ROOM = 1.4  # headroom above the highest roof, for its label


class Roofline(LogChart):
    """Points are timed rows; the roof is from the measured copy bandwidth and matrix products."""

    def __init__(self) -> None:
        self.rows: tuple[Row, ...] = ()
        self.names: tuple[str, ...] = ()
        self.limits: Ceilings | None = None
        super().__init__()
        self.words = row_tooltip
        self.setAccessibleName(tr("Roofline"))

    def show_rows(self, rows: Sequence[Row], names: Sequence[str], limits: Ceilings | None) -> None:
        """Draw rows under the roof; `names`: all versions, in the order of their colours."""
        self.rows, self.names, self.limits = tuple(rows), tuple(names), limits
        self.draw(self.look)

    def draw(self, palette: Palette) -> None:
        """Draw the roof, then the points by version."""
        self.plot.clear()
        unit, factor = self._unit
        self.name_axes(tr("FLOPs per byte that must move"), unit)
        spots = [Point(r.intensity, r.tflop_s * factor, r) for r in self.rows if r.intensity > 0 and r.tflop_s]
        self.spots = [s for s in spots if math.isfinite(s.y)]
        if not self.spots and self.limits is None:
            return
        xs = self._span()
        tops = self._roof(xs, palette) if self.limits else []
        for version in dict.fromkeys(s.what.version for s in self.spots):
            inside = [s for s in self.spots if s.what.version == version]
            for above in (False, True):  # rings: above the roof
                self.dots([s for s in inside if s.what.above_roof == above], self.colour(self.names.index(version)),
                          palette, hollow=above)  # fmt: skip
        self._name_kernels(palette)
        ys = [s.y for s in self.spots] + tops
        self.bound(xs, ys)

    @property
    def _unit(self) -> tuple[str, float]:
        """Unit of the rate, and its factor to TFLOP/s."""
        return rate_of(self.rows[0].device if self.rows else self.limits.device if self.limits else "")

    def _name_kernels(self, palette: Palette) -> None:
        """Label the best point of each kernel if there are 2 to NAMED kernels."""
        best: dict[str, Point] = {}
        for spot in self.spots:
            previous = best.get(spot.what.kernel)
            best[spot.what.kernel] = spot if previous is None or spot.y > previous.y else previous
        if 1 < len(best) <= NAMED:
            for kernel, spot in best.items():
                self._name(kernel.replace("_", " "), spot.x, spot.y, palette, (0.5, 1.2))

    def _span(self) -> list[float]:
        """Range of FLOPs per byte, including the ridge points."""
        xs = [s.x for s in self.spots] or [1.0]
        ridges = [rate * 1e3 / self.limits.copy_gb_s for rate in self._rates().values()] if self.limits else []
        return [min([*xs, *ridges]) / WIDER, max([*xs, *ridges]) * WIDER]

    def _rates(self) -> dict[str, float]:
        """Matrix product rates of the measured types."""
        assert self.limits is not None
        dtypes = {r.dtype for r in self.rows}
        return {d: rate for d, rate in self.limits.matmul_tflop_s.items() if d in dtypes or not dtypes}

    def _roof(self, xs: Sequence[float], palette: Palette) -> list[float]:
        """Draw and label a roof per type; return the heights that must be in view."""
        limits, (unit, factor) = self.limits, self._unit
        assert limits is not None
        tops: list[float] = []
        for dtype, rate in self._rates().items():
            ridge = rate * 1e3 / limits.copy_gb_s
            line = [xs[0], ridge, xs[1]]
            heights = [limits.roof(x, dtype) * factor for x in line]
            self.plot.addItem(pg.PlotCurveItem(np.log10(line), np.log10(heights), pen=pen(palette.text, 1.4)))
            self._name(
                tr("{} product {} {}", type_word(dtype), amount(rate * factor), unit), xs[1], rate * factor, palette
            )
            tops.append(rate * factor)
        if tops:
            start = limits.copy_gb_s / 1e3 * factor
            at = math.sqrt(xs[0] * max(tops) / start)  # half way up
            self._name(tr("copy {} GB/s", amount(limits.copy_gb_s)), at, at * start, palette, (1.08, 0.8))
        return [
            *(top * ROOM for top in tops),
            min([xs[0] * limits.copy_gb_s / 1e3 * factor, *(s.y for s in self.spots)]),
        ]

    def _name(self, text: str, x: float, y: float, palette: Palette, anchor: tuple[float, float] = (1.0, 1.0)) -> None:
        """Draw a label at a point."""
        label = pg.TextItem(text, color=QColor(palette.muted), anchor=anchor)
        label.setFont(self.plot.getAxis("left").style["tickFont"])
        label.setPos(math.log10(x), math.log10(y))
        self.plot.addItem(label, ignoreBounds=True)

    def legend(self) -> str:
        """Legend: the versions in their colours, and the roof."""
        versions = dict.fromkeys(s.what.version for s in self.spots)
        entries = [
            f'<span style="color:{self.colour(self.names.index(v))}">●&nbsp;{html.escape(v)}</span>' for v in versions
        ]
        entries.append(tr('<span style="color:{}">roof: {}</span>', self.look.muted, limits_text(self.limits)))
        if above := sum(s.what.above_roof for s in self.spots):
            entries.append(f'<span style="color:{self.look.muted}">○&nbsp;{above} {ABOVE}</span>')
        return " &nbsp; ".join(entries)

    def table(self) -> Table:
        """One row per point, with the roof there."""
        (unit, factor), limits = self._unit, self.limits
        rows = [
            (s.what.kernel, s.what.version, s.what.dtype, shape_text(s.what.shape), s.x, s.y,
             limits.roof(s.x, s.what.dtype) * factor if limits else None, s.what.remark)
            for s in self.spots
        ]  # fmt: skip
        return ("kernel", "version", "type", "shape", "FLOP/byte", unit, f"roof ({unit})", "remark"), rows
