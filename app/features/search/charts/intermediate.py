"""Intermediate values of trials, by samples or steps, with pruned trials in grey and the best highlighted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QPen
from typing_extensions import override

from espalier.app.features.search.charts.chart import StudyChart, tint
from espalier.app.features.search.charts.marks import Segments
from espalier.app.features.search.charts.study_view import Option
from espalier.app.figures.study.data import COMPLETE, PRUNED, RUNNING
from espalier.app.figures.study.intermediate_values import STEP_TITLES, core_of, figure_of, leading
from espalier.app.figures.study.labels import title, value_words
from espalier.app.number_text import count
from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import pen
from espalier.model.data.base import Array

SHADES = 16  # number of colours of final values; the last pen is the grey of pruned trials
FAINT = 110  # opacity of a line, of 255
NONE = tr(
    "No trial reports intermediate values. A search with rungs, or with a pruner, measures on growing parts of the data"
    " first, and ends weak trials there."
)


class IntermediateChart(StudyChart):
    """A line per trial, coloured by its final value, grey if it was pruned."""

    name: ClassVar[str] = "Intermediate values"
    fields: ClassVar[Mapping[str, str]] = {"log": "log_x"}

    def __init__(self) -> None:
        self._ends = (0.0, 1.0)
        self._points: Array = np.zeros((0, 3))  # step, value, trial index
        self._drawn: Array = np.zeros(0, bool)
        super().__init__()

    @override
    def options(self) -> list[Option]:
        return [Option("log", hint=tr("Logarithmic horizontal axis"))]

    @override
    def empty(self) -> str:
        if len(self.study) and not any(t.steps for t in self.study.trials):
            return NONE
        return super().empty()

    @override
    def legend(self) -> str:
        early = int(((self.study.state == PRUNED) & ~(self.study.facts["unmeasured"] > 0)).sum())
        pruned_text = tr(" &nbsp; grey: {} ended early", count(early)) * bool(early)
        scale = self.scale(*(value_words(self.y_name, v) for v in self._ends))
        return tr('<span style="color:{}">came to {}{}</span> &nbsp; ━ best', self.look.muted, scale, pruned_text)

    @override
    def axes(self, palette: Palette) -> None:
        self.x_name, self.y_name = STEP_TITLES[self.study.counted], figure_of(self.study)
        super().axes(palette)

    @override
    def build(self, palette: Palette) -> None:
        shades = [tint(palette.sequential(k / (SHADES - 1)), FAINT) for k in range(SHADES)]
        self._lines = Segments(self.plot, [*(QPen(c, 1.0) for c in shades), QPen(tint(palette.edge, FAINT), 1.0)])
        looks = {"running": (palette.accent, 1.4), "best": (palette.text, 1.8), "under": (palette.accent, 2.0),
                 "pick": (palette.text, 2.0)}  # fmt: skip
        self._strong = {n: pg.PlotCurveItem(pen=pen(*look), connect="finite") for n, look in looks.items()}
        for item in self._strong.values():
            item.setZValue(10)
            self.plot.addItem(item)

    @override
    def fill(self, fresh: Sequence[int] | None) -> None:
        study = self.study
        redraw = fresh is None or any(p < len(self._drawn) and self._drawn[p] for p in fresh)
        indices = range(len(study)) if redraw or fresh is None else fresh
        points = [(s, v, p) for p in indices for s, v in study.trials[p].steps]
        held = self._points[:0] if redraw else self._points
        self._points = np.concatenate([held, np.array(points, float).reshape(-1, 3)])
        before, self._ends = self._ends, self._bounds()
        if before != self._ends and not redraw:
            indices = range(len(study))  # the range of colours changed
        (self._lines.put if len(indices) == len(study) else self._lines.add)(*self._segments(indices))
        self._drawn = np.isin(study.state, (COMPLETE, PRUNED))
        best = leading(study)
        self._strong["best"].setData(*self._polyline([] if best is None else [best]))
        self._strong["running"].setData(*self._polyline(np.flatnonzero(study.state == RUNNING).tolist()))

    def _segments(self, indices: Sequence[int]) -> tuple[Array, ...]:
        """End points of line segments of ended trials, and their colours."""
        (low, high), study, rows = self._ends, self.study, list[tuple[float, ...]]()
        for index in indices:
            steps = study.trials[index].steps
            if study.state[index] in (COMPLETE, PRUNED) and len(steps) > 1:
                part = (steps[-1][1] - low) / ((high - low) or 1.0)
                kind = SHADES if study.state[index] == PRUNED else int(min(max(part * SHADES, 0), SHADES - 1))
                rows += [(*a, *b, kind) for a, b in pairwise(steps)]
        x0, y0, x1, y1, kinds = np.array(rows, float).reshape(-1, 5).T
        return self.scaled(x0, self.log_x), y0, self.scaled(x1, self.log_x), y1, kinds

    def _polyline(self, indices: Sequence[int]) -> tuple[Array, Array]:
        """Polylines of trials, separated by NaN."""
        steps = [s for p in indices for s in (*self.study.trials[p].steps, (np.nan, np.nan))]
        x, y = np.array(steps, float).reshape(-1, 2).T
        return self.scaled(x, self.log_x), y

    def _bounds(self) -> tuple[float, float]:
        """The range of all values but the worst 1 %; unchanged if it is only a little wider."""
        if not len(self._points):
            return 0.0, 1.0
        previous, (low, high, room) = self._ends, core_of(self._points[:, 1], rising=self.study.sign(self.y_name) > 0)
        inside = (
            previous[0] <= low and high <= previous[1] and (previous[1] - previous[0]) < 1.6 * (high - low + 2 * room)
        )
        return previous if inside else (low - room, high + room)

    @override
    def ends(self) -> tuple[float, float, float, float] | None:
        steps = self.scaled(self._points[:, 0], self.log_x)
        steps = steps[np.isfinite(steps)]
        return (float(steps.min()), float(steps.max()), *self._ends) if len(steps) else None

    @override
    def spots(self) -> tuple[Array, Array, Array]:
        steps, values, indices = self._points.T
        return self.scaled(steps, self.log_x), values, indices.astype(int)

    @override
    def marked(self) -> None:
        super().marked()
        for name, index in (("pick", self.pick), ("under", self.under)):
            self._strong[name].setData(*self._polyline([] if index is None else [index]))

    @override
    def hover_text_at(self, index: int) -> str:
        steps = self.study.trials[index].steps
        values = " → ".join(value_words(self.y_name, v) for _, v in steps[-4:])
        return tr("{}\n{} on the way: {}", super().hover_text_at(index), title(self.y_name), values)
