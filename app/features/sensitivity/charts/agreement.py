"""Scatter chart of predicted against measured divergence, with a summary of the error."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from espalier.app.features.sensitivity.charts.dots import Dot, DotChart, dots_of
from espalier.app.figures.heat_lines import divergence_text
from espalier.app.number_text import percent, plural
from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import pen
from espalier.passes.sensitivity.table import Sensitivity

WIDEST = 760
FEW = 3  # minimum of dots for a rank correlation


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's rank correlation; NaN for fewer than three values or constant ones."""
    if len(x) < FEW:
        return math.nan
    ranks = [_ranks(np.asarray(v, float)) for v in (x, y)]
    a, b = (r - r.mean() for r in ranks)
    size = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size else math.nan


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0; ties get their mean rank."""
    _, rank, times = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(times)
    return (ends - (times + 1) / 2)[rank]


def agreement_text(dots: Sequence[Dot]) -> str:
    """Summary of the predictions' accuracy."""
    if not dots:
        return ""
    ratios = [d.measured / d.predicted for d in dots]
    rank = spearman([d.predicted for d in dots], [d.measured for d in dots])
    near = sum(0.5 <= r <= 2 for r in ratios) / len(ratios)
    parts = [f"{plural(len(dots), 'measured cell')}", "" if math.isnan(rank) else tr("rank correlation {:.2f}", rank),
             tr("measured is {:.2g} × predicted in the median", float(np.median(ratios))),
             tr("{} within a factor of 2", percent(near, 0))]  # fmt: skip
    return " · ".join(w for w in parts if w).replace("-", "−")


class AgreementChart(DotChart):
    """Predicted (x) against measured (y) divergence, both logarithmic with equal ranges."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setMaximumWidth(WIDEST)  # axes of equal range need a nearly square plot
        self.setAccessibleName(tr("Predicted against measured divergence"))

    def show_table(self, table: Sequence[Sensitivity]) -> None:
        """Draw the measured cells of these rows."""
        self.dots = dots_of(table)
        self.places = np.log10(np.array([(d.predicted, d.measured) for d in self.dots]).reshape(-1, 2))
        self.setAccessibleDescription(agreement_text(self.dots))
        self.draw(self.look)

    def legend(self) -> str:
        """Legend of port kinds and lines; empty without dots."""
        if not self.dots:
            return ""
        there = {d.kind for d in self.dots}
        kinds = [f'<span style="color:{self.colour(k)}">● {name}</span>'
                 for k, name in enumerate((tr("weights"), tr("activations"))) if k in there]  # fmt: skip
        lines = tr('<span style="color:{}">line: equal · dashed: a factor of 2 · bars: medians</span>', self.look.muted)
        return " &nbsp; ".join((*kinds, lines))

    def draw(self, palette: Palette) -> None:
        """Draw equal axes, the diagonal and the dots."""
        self._axes()
        self.plot.clear()
        if not self.dots:
            return
        low, high = float(self.places.min()) - 0.2, float(self.places.max()) + 0.2
        ends = np.array([low, high])
        self.plot.plot(ends, ends, pen=pen(palette.muted, 1.2))
        for step in (-math.log10(2), math.log10(2)):
            stroke = pen(palette.muted, 1.0)
            stroke.setStyle(Qt.PenStyle.DashLine)
            self.plot.plot(ends, ends + step, pen=stroke)
        self._draw_dots(7)
        self.plot.setXRange(low, high, padding=0)
        self.plot.setYRange(low, high, padding=0)

    def _axes(self) -> None:
        self.name_axes(tr("predicted KL (nats)"), tr("measured KL (nats)"))
        for name in ("left", "bottom"):
            axis = self.plot.getAxis(name)
            axis.tickStrings = power_text
            axis.tickSpacing = lambda low, high, size: [(max(1.0, math.ceil((high - low) / 6)), 0)]


def power_text(values: Sequence[float], scale: float, spacing: float) -> list[str]:
    """Tick labels of a logarithmic axis: 0.001, 1e−5."""
    return [divergence_text(10.0**v).replace("1.0e", "1e") for v in values]
