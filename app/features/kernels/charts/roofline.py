"""The roofline: what the machine's memory and its products allow at FLOPs for each byte, and what was reached."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QColor

from espalier.app.features.kernels.state.words import amount, limits_words, rate_of, spoken, type_word
from espalier.app.theme import Palette
from espalier.app.widgets.charts.chart import pen
from espalier.app.widgets.charts.log_chart import LogChart, Spot
from espalier.app.widgets.charts.picture import Table
from espalier.kernels.bench.ceilings import Ceilings
from espalier.kernels.bench.results import ABOVE, Row
from espalier.kernels.bench.spec import shape_text

WIDER = 3.0  # how far the roof goes on beyond the points
NAMED = 12  # kernels of which names still have room
ROOM = 1.4  # times the highest roof, for its name


class Roofline(LogChart):
    """Points are rows with a time; the roof is of the measured copy and products."""

    def __init__(self) -> None:
        self.rows: tuple[Row, ...] = ()
        self.names: tuple[str, ...] = ()
        self.limits: Ceilings | None = None
        super().__init__()
        self.words = spoken
        self.setAccessibleName("Roofline")

    def show_rows(self, rows: Sequence[Row], names: Sequence[str], limits: Ceilings | None) -> None:
        """Draw rows under the roof; `names`: all versions, whose places give the colours."""
        self.rows, self.names, self.limits = tuple(rows), tuple(names), limits
        self.draw(self.look)

    def draw(self, palette: Palette) -> None:
        """The roof, then the points by version."""
        self.plot.clear()
        unit, factor = self._unit
        self.name_axes("FLOPs for each byte that must move", unit)
        found = [Spot(r.intensity, r.tflop_s * factor, r) for r in self.rows if r.intensity > 0 and r.tflop_s]
        self.spots = [s for s in found if math.isfinite(s.y)]
        if not self.spots and self.limits is None:
            return
        xs = self._span()
        tops = self._roof(xs, palette) if self.limits else []
        for version in dict.fromkeys(s.what.version for s in self.spots):
            inside = [s for s in self.spots if s.what.version == version]
            for above in (False, True):  # as rings above it
                self.dots([s for s in inside if s.what.above_roof == above], self.colour(self.names.index(version)),
                          palette, hollow=above)  # fmt: skip
        self._name_kernels(palette)
        ys = [s.y for s in self.spots] + tops
        self.bound(xs, ys)

    @property
    def _unit(self) -> tuple[str, float]:
        """Of operations a second, and how many of it a TFLOP/s is."""
        return rate_of(self.rows[0].device if self.rows else self.limits.device if self.limits else "")

    def _name_kernels(self, palette: Palette) -> None:
        """Names beside the best point of each kernel, where there are several and few."""
        best: dict[str, Spot] = {}
        for spot in self.spots:
            held = best.get(spot.what.kernel)
            best[spot.what.kernel] = spot if held is None or spot.y > held.y else held
        if 1 < len(best) <= NAMED:
            for kernel, spot in best.items():
                self._name(kernel.replace("_", " "), spot.x, spot.y, palette, (0.5, 1.2))

    def _span(self) -> list[float]:
        """From the least to the most FLOPs a byte, and beyond the bend of the roof."""
        xs = [s.x for s in self.spots] or [1.0]
        bends = [rate * 1e3 / self.limits.copy_gb_s for rate in self._rates().values()] if self.limits else []
        return [min([*xs, *bends]) / WIDER, max([*xs, *bends]) * WIDER]

    def _rates(self) -> dict[str, float]:
        """Products by type: of the types measured."""
        assert self.limits is not None
        held = {r.dtype for r in self.rows}
        return {d: rate for d, rate in self.limits.matmul_tflop_s.items() if d in held or not held}

    def _roof(self, xs: Sequence[float], palette: Palette) -> list[float]:
        """Draw a roof for each type and name its parts; the heights that must be seen."""
        limits, (unit, factor) = self.limits, self._unit
        assert limits is not None
        tops: list[float] = []
        for dtype, rate in self._rates().items():
            bend = rate * 1e3 / limits.copy_gb_s
            line = [xs[0], bend, xs[1]]
            heights = [limits.roof(x, dtype) * factor for x in line]
            self.plot.addItem(pg.PlotCurveItem(np.log10(line), np.log10(heights), pen=pen(palette.text, 1.4)))
            self._name(f"{type_word(dtype)} product {amount(rate * factor)} {unit}", xs[1], rate * factor, palette)
            tops.append(rate * factor)
        if tops:
            start = limits.copy_gb_s / 1e3 * factor
            at = math.sqrt(xs[0] * max(tops) / start)  # half way up
            self._name(f"copy {amount(limits.copy_gb_s)} GB/s", at, at * start, palette, (1.08, 0.8))
        return [
            *(top * ROOM for top in tops),
            min([xs[0] * limits.copy_gb_s / 1e3 * factor, *(s.y for s in self.spots)]),
        ]

    def _name(self, text: str, x: float, y: float, palette: Palette, anchor: tuple[float, float] = (1.0, 1.0)) -> None:
        """A word beside a place; unasked, on the end of a roof."""
        words = pg.TextItem(text, color=QColor(palette.muted), anchor=anchor)
        words.setFont(self.plot.getAxis("left").style["tickFont"])
        words.setPos(math.log10(x), math.log10(y))
        self.plot.addItem(words, ignoreBounds=True)

    def legend(self) -> str:
        """The versions in words of their colours, and the roof."""
        held = dict.fromkeys(s.what.version for s in self.spots)
        words = [f'<span style="color:{self.colour(self.names.index(v))}">●&nbsp;{html.escape(v)}</span>' for v in held]
        words.append(f'<span style="color:{self.look.muted}">roof: {limits_words(self.limits)}</span>')
        if above := sum(s.what.above_roof for s in self.spots):
            words.append(f'<span style="color:{self.look.muted}">○&nbsp;{above} {ABOVE}</span>')
        return " &nbsp; ".join(words)

    def table(self) -> Table:
        """A row for each point, with what the roof allows there."""
        (unit, factor), limits = self._unit, self.limits
        rows = [
            (s.what.kernel, s.what.version, s.what.dtype, shape_text(s.what.shape), s.x, s.y,
             limits.roof(s.x, s.what.dtype) * factor if limits else None, s.what.remark)
            for s in self.spots
        ]  # fmt: skip
        return ("kernel", "version", "type", "shape", "FLOP/byte", unit, f"roof ({unit})", "remark"), rows
