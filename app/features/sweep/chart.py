"""The curves of a sweep: a line per variant, error bars over seeds, the baseline, and clickable points."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.figures.curves import baseline_text, figure_text, figure_title, is_log, line_style, positions
from espalier.app.number_text import change_text, count, noise_text
from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import Chart, dashed, lighter, pen, tint
from espalier.app.widgets.charts.chart_export import Table
from espalier.passes.figure import is_near, main_figure
from espalier.passes.sweep.results import (
    Mean,
    Outcome,
    bands,
    baseline_of,
    change_of,
    curves,
    guessing_of,
    sampled,
)
from espalier.passes.sweep.sweep import Sweep, axis_title
from espalier.passes.sweep.values import value_text

NEAR = 14.0  # pixels within which the pointer hits a point
MOST_TICKS = 12
BAND = 40  # opacity of a band of noise, of 255


class CurveChart(Chart):
    """One metric of a sweep. `chosen`: (variant, value) of a clicked point."""

    chosen = Signal(int, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        self.sweep: Sweep | None = None
        self.outcomes: tuple[Outcome, ...] = ()
        self.figure = "accuracy"
        self.picked: tuple[int, int] | None = None
        self.lines: list[list[tuple[int, Mean]]] = []
        self._places: list[float] = []
        super().__init__(parent)
        self.setMouseTracking(True)

    def sizeHint(self) -> QSize:
        return QSize(480, 220)

    def show_run(self, sweep: Sweep | None, outcomes: Sequence[Outcome], figure: str) -> None:
        """Draw a metric of a sweep's outcomes."""
        self.sweep, self.outcomes, self.figure = sweep, tuple(outcomes), figure
        if sweep is None or len(self.lines) != len(sweep.variants):
            self.picked = None
        self.lines = curves(sweep, outcomes, figure) if sweep else []
        values = positions(sweep) if sweep else []
        self._places = [math.log10(p) for p in values] if is_log(values) else values
        self.setAccessibleName(
            tr("{} against {}", figure_title(figure), axis_title(sweep)) if sweep else tr("No sweep")
        )
        self.draw(self.look)

    def pick(self, variant: int, x: int) -> None:
        """Mark a point."""
        self.picked = (variant, x) if variant >= 0 else None
        self.draw(self.look)

    def colour(self, index: int) -> str:
        """The colour of a variant, visible on the background."""
        return lighter(line_style(index)[0], self.look)

    @property
    def baseline(self) -> float | None:
        """The metric of the baseline."""
        baseline_score = baseline_of(self.outcomes)
        value = baseline_score.score.get(self.figure) if baseline_score else None
        return None if value is None else float(value)

    def draw(self, palette: Palette) -> None:
        """Draw axes, grid lines, the baseline and the curves."""
        self._axes()
        self.plot.clear()
        if self.sweep is None:
            return
        if (level := self.baseline) is not None:
            self.plot.addItem(pg.InfiniteLine(level, 0, pen=dashed(palette.muted)))
        if (guess := guessing_of(self.outcomes, self.figure)) is not None:
            self.plot.addItem(pg.InfiniteLine(guess, 0, pen=dashed(palette.bad)))
        for index, band in enumerate(bands(self.sweep, self.outcomes, self.figure)):
            self._band(index, band)
        for index, line in enumerate(self.lines):
            self._line(index, line)
        self._mark(palette)
        self._bound()

    def legend(self) -> str:
        """The legend of the lines and the baseline, shown beside the plot."""
        if self.sweep is None:
            return ""
        texts = [f'<span style="color:{self.colour(i)}">● {_unbroken(v.label)}</span>'
                 for i, v in enumerate(self.sweep.variants) if v.label]  # fmt: skip
        texts += [] if self.sweep.axis else [self._spread(m) for line in self.lines for _, m in line]
        if (level := self.baseline) is not None:
            text = _unbroken(f"╌ {baseline_text(self.sweep)} {figure_text(self.figure, level)}")
            texts.append(f'<span style="color:{self.look.muted}">{text}</span>')
        samples = sampled(self.outcomes)
        samples = samples if samples and samples.name == self.figure else None
        if samples is not None:
            texts.append(
                f'<span style="color:{self.look.muted}">{_unbroken(f"▒ 95 % of n = {count(samples.n)}")}</span>'
            )
        if samples is not None and samples.guessing is not None:
            text = _unbroken(tr("┈ guessing {}", figure_text(self.figure, samples.guessing)))
            texts.append(f'<span style="color:{self.look.bad}">{text}</span>')
        return " &nbsp; ".join(texts)

    def _spread(self, mean: Mean) -> str:
        """Mean and standard deviation of a repeated recipe, as text."""
        middle, std, low, high = (figure_text(self.figure, v) for v in (mean.mean, mean.std, mean.low, mean.high))
        return tr("<b>{} ± {}</b> over {} seeds, {} to {}", middle, std, mean.count, low, high)

    def _axes(self) -> None:
        left, bottom = self.plot.getAxis("left"), self.plot.getAxis("bottom")
        self.name_axes(axis_title(self.sweep) if self.sweep else "", figure_title(self.figure), 70)
        left.tickStrings = lambda values, scale, spacing: [figure_text(self.figure, v) for v in values]
        values = self.sweep.values if self.sweep else ()
        every = max(1, math.ceil(len(values) / MOST_TICKS))
        texts = [(p, "" if v is None else value_text(v)) for p, v in zip(self._places, values, strict=True)]
        bottom.setTicks([sorted(texts)[::every]])

    def _band(self, index: int, band: list[tuple[int, float, float]]) -> None:
        """Draw the confidence band of a line's accuracies."""
        points = sorted((self._places[x], low, high) for x, low, high in band)
        if len(points) > 1:
            x, low, high = np.array(points).T
            ends = pg.PlotCurveItem(x, low, pen=None), pg.PlotCurveItem(x, high, pen=None)
            self.plot.addItem(pg.FillBetweenItem(*ends, brush=tint(self.colour(index), BAND)))

    def _line(self, index: int, line: list[tuple[int, Mean]]) -> None:
        if not line:
            return
        points = sorted(((self._places[x], m) for x, m in line), key=lambda p: p[0])
        x = np.array([p for p, _ in points])
        y = np.array([m.mean for _, m in points])
        spread = np.array([m.std for _, m in points])
        colour = self.colour(index)
        if spread.any():
            beam = self._beam()
            self.plot.addItem(pg.ErrorBarItem(x=x, y=y, height=2 * spread, beam=beam, pen=pen(colour, 1.2)))
        stroke = pen(colour)
        if dashes := line_style(index)[1]:
            stroke.setDashPattern([d / 1.8 for d in dashes])
        self.plot.plot(x, y, pen=stroke, symbol="o", symbolSize=6, symbolBrush=colour, symbolPen=None)

    def _beam(self) -> float:
        """Width of an error bar's caps, relative to the distance between two values."""
        span = max(self._places) - min(self._places) if self._places else 0
        return 0.012 * span if span else 0.02

    def _mark(self, palette: Palette) -> None:
        """Draw a ring around the picked point."""
        if self.picked and (mean := self._mean(*self.picked)):
            ring = pg.ScatterPlotItem([self._places[self.picked[1]]], [mean.mean], size=13, brush=None,
                                      pen=pen(palette.text, 1.6))  # fmt: skip
            self.plot.addItem(ring)

    def _mean(self, variant: int, x: int) -> Mean | None:
        return dict(self.lines[variant]).get(x) if variant < len(self.lines) else None

    def _bound(self) -> None:
        """Set the range to all values of the axis from the start, and to all metric values."""
        means = [m for line in self.lines for _, m in line]
        ends = [e for m in means for e in (m.mean - m.std, m.mean + m.std)]
        ends += [self.baseline] if self.baseline is not None else []
        ranges = bands(self.sweep, self.outcomes, self.figure) if self.sweep else []
        ends += [e for band in ranges for _, low, high in band for e in (low, high)]
        guess = guessing_of(self.outcomes, self.figure)
        ends += [guess] if guess is not None and ends and is_near(guess, min(ends), max(ends)) else []
        if not ends or not self._places:
            return
        low, high = min(ends), max(ends)
        room = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
        self.plot.setYRange(max(low - room, 0.0) if low >= 0 else low - room, high + room, padding=0)
        across = (max(self._places) - min(self._places)) * 0.03 or 0.5
        self.plot.setXRange(min(self._places) - across, max(self._places) + across, padding=0)

    # -- pointing

    def near(self, at: QPointF) -> tuple[int, int] | None:
        """The (variant, value) of the point near a position of the widget; None without one."""
        best: tuple[float, tuple[int, int]] | None = None
        for v, line in enumerate(self.lines):
            for x, mean in line:
                dot = self.spot(x, mean.mean)
                far = math.hypot(dot.x() - at.x(), dot.y() - at.y())
                if best is None or far < best[0]:
                    best = far, (v, x)
        return best[1] if best and best[0] <= NEAR else None

    def spot(self, x: int, figure: float) -> QPointF:
        """Widget position of a point."""
        scene = self.plot.vb.mapViewToScene(QPointF(self._places[x], figure))
        return QPointF(self.mapFromScene(scene))

    def hover_text_at(self, variant: int, x: int) -> str:
        """The hover text of a point."""
        assert self.sweep is not None
        mean = self._mean(variant, x)
        if mean is None:
            return ""
        value = self.sweep.values[x]
        head = " · ".join(t for t in (f"{axis_title(self.sweep)} {value_text(value)}" if self.sweep.axis else "",
                                      self.sweep.variants[variant].label) if t)  # fmt: skip
        text = f"{figure_title(self.figure)} {figure_text(self.figure, mean.mean)}"
        text += self._noise_at(variant, x)
        if mean.count > 1:
            ends = tr("{} to {}", figure_text(self.figure, mean.low), figure_text(self.figure, mean.high))
            text += tr(" ± {}\n{} over {} seeds", figure_text(self.figure, mean.std), ends, mean.count)
        return "\n".join(t for t in (head, text, tr("Click to choose it")) if t)

    def _noise_at(self, variant: int, x: int) -> str:
        """n, interval and change of a single point's main metric."""
        assert self.sweep is not None
        point = next((o for o in self.outcomes if (o.variant, o.x) == (variant, x)), None)
        figure = main_figure(point.score) if point else None
        if point is None or figure is None or figure.name != self.figure:
            return ""
        change = change_of(point, self.outcomes, self.sweep)
        return "".join(f"\n{w}" for w in (noise_text(figure), change_text(change) if change else "") if w)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        point = self.near(event.position())
        self.setCursor(Qt.CursorShape.PointingHandCursor if point else Qt.CursorShape.ArrowCursor)
        QToolTip.showText(event.globalPosition().toPoint(), self.hover_text_at(*point) if point else "", self)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and (point := self.near(event.position())):
            self.chosen.emit(*point)

    def table(self) -> Table:
        """A table with a row per value and variant."""
        if self.sweep is None:
            return (), ()
        rows = [(self.sweep.variants[v].label, value_text(self.sweep.values[x]), m.mean, m.std, m.count)
                for v, line in enumerate(self.lines) for x, m in line]  # fmt: skip
        return ("variant", axis_title(self.sweep), self.figure, "deviation", "seeds"), rows


def _unbroken(text: str) -> str:
    """HTML text with non-breaking spaces."""
    return html.escape(text).replace(" ", "&nbsp;")
