"""Chart of compile cost: total time over calls, eager and compiled, or the time of each call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QColor, QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.number_text import count, plural, time_text
from espalier.app.theme import CATEGORIES, Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import Chart, pen
from espalier.app.widgets.charts.chart_export import Table
from espalier.app.widgets.charts.metrics import spacing

COLOURS = {"eager": CATEGORIES["linear"], "captured": CATEGORIES["shape"], "compiled": CATEGORIES["activation"]}
SUMMED, EACH = "summed", "each"
BEYOND = 2.0  # the axis ends at this multiple of the break-even
FEW = 60  # calls drawn if there is no break-even


@dataclass(frozen=True, slots=True)
class Calls:
    """Seconds of a version's first call and of later ones."""

    version: str
    first: float
    later: tuple[float, ...]

    @property
    def least(self) -> float:
        """Fastest later call in seconds."""
        return min(self.later)

    def summed(self, calls: float) -> float:
        """Estimated seconds of n calls: the first call and n − 1 fastest later ones."""
        return self.first + max(calls - 1, 0) * self.least


def break_even(eager: Calls, compiled: Calls) -> float | None:
    """Number of calls after which both have taken the same time; None if compiled calls are not faster."""
    saved = eager.least - compiled.least
    if saved <= 0:
        return None
    return max(1 + (compiled.first - eager.first) / saved, 1.0)


class PaybackChart(Chart):
    """Total time of eager and compiled calls with the break-even, or single calls."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.calls: dict[str, Calls] = {}
        self.kind = SUMMED
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setAccessibleName(tr("Time against calls"))

    def sizeHint(self) -> QSize:
        return QSize(360, 180)

    def show_calls(self, calls: Sequence[Calls], kind: str) -> None:
        """Draw calls; `kind`: SUMMED or EACH."""
        self.calls, self.kind = {c.version: c for c in calls if c.later}, kind
        self.draw(self.look)

    @property
    def even(self) -> float | None:
        """Break-even in calls, or None."""
        calls = self.calls
        return break_even(calls["eager"], calls["compiled"]) if {"eager", "compiled"} <= calls.keys() else None

    @property
    def reach(self) -> float:
        """Last call on the axis."""
        if self.kind == EACH:
            return max((len(c.later) + 1 for c in self.calls.values()), default=1)
        return max(BEYOND * self.even, 10.0) if self.even else float(FEW)

    def colour(self, version: str) -> str:
        """Colour of a version, lightened in the dark theme."""
        plain = COLOURS[version]
        return QColor(plain).lighter(135).name() if self.look.dark else plain

    # -- drawing

    def draw(self, palette: Palette) -> None:
        """Draw axes, lines and the break-even."""
        self.plot.clear()
        self._axes()
        if not self.calls:
            return
        (self._sums if self.kind == SUMMED else self._singles)(palette)

    def _sums(self, palette: Palette) -> None:
        calls = [self.calls[n] for n in ("eager", "compiled") if n in self.calls]
        top = max(c.summed(self.reach) for c in calls)
        for each in calls:
            xs = np.array([1.0, self.reach])
            self.plot.plot(xs, [each.summed(x) for x in xs], pen=pen(self.colour(each.version)))
            self.plot.plot([0.0, 1.0], [0.0, each.first], pen=_dotted(self.colour(each.version)))
        if self.even:
            y = self.calls["eager"].summed(self.even)
            line = pen(palette.muted, 1.2)
            line.setStyle(Qt.PenStyle.DashLine)
            self.plot.addItem(pg.InfiniteLine(self.even, 90, pen=line))
            dot = pg.ScatterPlotItem([self.even], [y], size=9, brush=QColor(palette.text), pen=pen(palette.panel, 1.0))
            dot.setZValue(3)
            self.plot.addItem(dot)
        self.plot.setXRange(0, self.reach, padding=0.01)
        self.plot.setYRange(0, top * 1.06 or 1.0, padding=0)

    def _singles(self, palette: Palette) -> None:
        """Draw single calls on a logarithmic scale."""
        logs: list[float] = []
        for each in self.calls.values():
            values = [math.log10(max(v, 1e-9)) for v in (each.first, *each.later)]
            logs += values
            colour = QColor(self.colour(each.version))
            self.plot.plot(range(1, len(values) + 1), values, pen=pen(colour.name(), 1.0, 110))
            self.plot.addItem(pg.ScatterPlotItem(range(1, len(values) + 1), values, size=6, brush=colour,
                                                 pen=pen(palette.panel, 0.8)))  # fmt: skip
        room = max((max(logs) - min(logs)) * 0.08, 0.1)
        self.plot.setXRange(0.5, self.reach + 0.5, padding=0.01)
        self.plot.setYRange(min(logs) - room, max(logs) + room, padding=0)

    def _axes(self) -> None:
        left, bottom = self.plot.getAxis("left"), self.plot.getAxis("bottom")
        summed = self.kind == SUMMED
        self.name_axes("calls" if summed else "call", tr("total time") if summed else tr("time per call"), 68)
        bottom.tickSpacing = lambda low, high, size: [(max(spacing(high - low, size / 80), 1.0), 0)]
        bottom.tickStrings = lambda values, scale, gap: [count(round(v)) for v in values]
        if summed:
            left.tickSpacing = lambda low, high, size: [(spacing(high - low, size / 34), 0)]
            left.tickStrings = lambda values, scale, gap: [time_text(v) if v > 0 else "0" for v in values]
        else:
            left.tickSpacing = lambda low, high, size: [(max(round((high - low) / max(size / 34, 1)), 1), 0)]
            left.tickStrings = lambda values, scale, gap: [time_text(10.0**v) for v in values]

    def legend(self) -> str:
        """Legend in the lines' colours, with the break-even."""
        names = [n for n in self.calls if self.kind == EACH or n != "captured"]
        entries = [f'<span style="color:{self.colour(n)}">●</span> {escape(n)}' for n in names]
        if self.kind == SUMMED and self.calls:
            even = self.even
            entries.append(
                tr("equal after {}", plural(math.ceil(even), "call"))
                if even
                else tr("no break-even: compiled is not faster")
            )
        return " &nbsp; ".join(entries)

    # -- pointing

    def tooltip_at(self, x: float) -> str:
        """Tooltip: times at a call."""
        call = round(x)
        if not self.calls or not 1 <= call <= self.reach:
            return ""
        if self.kind == SUMMED:
            lines = [f"{n}: {time_text(c.summed(call))}" for n, c in self.calls.items() if n != "captured"]
            return "\n".join([tr("after {}", plural(call, "call")), *lines])
        times_of = {n: (c.first, *c.later) for n, c in self.calls.items()}
        lines = [f"{n}: {time_text(times[call - 1])}" for n, times in times_of.items() if call <= len(times)]
        title = tr("call {}, the first", count(call)) if call == 1 else tr("call {}", count(call))
        return "\n".join([title, *lines])

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        x = self.plot.vb.mapSceneToView(QPointF(self.mapToScene(event.position().toPoint()))).x()
        QToolTip.showText(event.globalPosition().toPoint(), self.tooltip_at(x), self)

    def table(self) -> Table:
        """One row per call and version: its time and the total until then."""
        rows: list[tuple[object, ...]] = []
        for each in self.calls.values():
            times = (each.first, *each.later)
            rows += [(each.version, k + 1, t, s) for k, (t, s) in enumerate(zip(times, accumulate(times), strict=True))]
        return ("version", "call", "seconds", "total seconds"), rows


def _dotted(colour: str) -> object:
    line = pen(colour, 1.2, 150)
    line.setStyle(Qt.PenStyle.DotLine)
    return line
