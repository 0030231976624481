"""Scatter charts of metrics and choices: the Pareto front of two metrics, the slice of a choice, and two
choices; further metrics as colour and size of the dots.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import ClassVar

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QColor
from typing_extensions import override

from espalier.app.features.search.charts.axes import SPREAD, Axis, axes_of
from espalier.app.features.search.charts.chart import LEFT, TITLE, StudyChart
from espalier.app.features.search.charts.informative import informative
from espalier.app.features.search.charts.marks import Dots, dot_look
from espalier.app.features.search.charts.study_view import Option
from espalier.app.figures.study.data import COMPLETE, Study, nondominated
from espalier.app.figures.study.labels import plain, title, value_words
from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import dashed, pen, tint
from espalier.model.data.base import Array

FRONT = 9  # pixels
BROKEN = 0  # the look of trials that break a constraint
SHADES = 12  # colours of the third figure
CHOICE = "choice "
MIDDLES = 5  # number of trials of a category from which its median is drawn
WIDEST = 130  # pixels of the labels of the vertical axis
LEAST, MOST = 5.0, 17.0  # pixels of dots that show a metric by their size


class ScatterChart(StudyChart):
    """Each axis is a metric, or a choice, whose name starts with CHOICE."""

    fields: ClassVar[Mapping[str, str]] = {"across": "x_name", "up": "y_name", "colour": "shade", "size": "bulk",
                                           "log x": "log_x", "log y": "log_y"}  # fmt: skip

    def __init__(self) -> None:
        self.shade = self.bulk = ""
        self.front: Array = np.zeros(0, int)
        self.choices: dict[str, Axis] = {}  # by option
        super().__init__()

    @override
    def options(self) -> list[Option]:
        names, choices = self.study.names, self.choices
        sides = (*names, *choices), (*map(title, names), *(a.text for a in choices.values()))
        return [
            Option("across", *sides, tr("Metric or choice of the horizontal axis")),
            Option("up", *sides, tr("Metric or choice of the vertical axis")),
            Option("colour", ("", *names), (tr("no colour"), *map(title, names)), tr("Metric shown by colour")),
            Option(
                "size", ("", *names), (tr("one size"), *map(title, names)), tr("Metric shown by the size of the dots")
            ),
            Option("log x", hint=tr("Logarithmic horizontal axis")),
            Option("log y", hint=tr("Logarithmic vertical axis")),
        ]

    def show_study(self, study: Study) -> None:
        """Keep the axes that the new study has."""
        self.choices = choices_of(study)
        if not {self.x_name, self.y_name} <= {*study.names, *self.choices} or not self.x_name:
            self.choose_axes(study)
        self.shade, self.bulk = (n if n in study.names else "" for n in (self.shade, self.bulk))
        super().show_study(study)

    def choose_axes(self, study: Study) -> None:
        """Choose the initial axes of a study."""

    @property
    def _sides(self) -> tuple[tuple[str, bool], tuple[str, bool]]:
        return (self.x_name, self.log_x), (self.y_name, self.log_y)

    def _positions(self) -> tuple[Array, Array]:
        """(x, y) of the trials, spread within a category."""
        x, y = (self._along(name, log) for name, log in self._sides)
        return x, y

    def _along(self, name: str, log: bool) -> Array:
        axis = self.choices.get(name)
        return self.scaled(self.study.figures[name] if axis is None else axis.spread(self.study), log)

    @override
    def axes(self, palette: Palette) -> None:
        super().axes(palette)
        left, bottom = self.plot.getAxis("left"), self.plot.getAxis("bottom")
        for axis, (name, _), room in ((bottom, self._sides[0], self.width() / 90), (left, self._sides[1], 40)):
            choice = self.choices.get(name)
            categories = choice.scale.categories() if choice and choice.scale and choice.is_categorical else []
            every = max(math.ceil(len(categories) / max(room, 1)), 1)
            axis.setTicks([categories[::every]] if categories else None)
            if axis is left and categories:
                widest = max(self.fontMetrics().horizontalAdvance(text) for _, text in categories)
                left.setWidth(min(max(LEFT, widest + 12), WIDEST) + TITLE)

    @override
    def _titled(self, name: str, log: bool) -> str:
        return escape(self.choices[name].text) if name in self.choices else super()._titled(name, log)

    @override
    def hover_text_at(self, index: int) -> str:
        params = self.study.trials[index].params
        choices = (f"{a.name}: {plain(params.get(a.name))}" for n, _ in self._sides if (a := self.choices.get(n)))
        return "\n".join((super().hover_text_at(index), *choices))

    @override
    def empty(self) -> str:
        if (text := self.none_complete()) or not len(self.study):
            return text
        if not self.x_name or not self.y_name:
            return self.missing
        x, y = self._positions()
        there = np.isfinite(x + y) & (self.study.state == COMPLETE)
        return "" if there.any() else tr("No trial has values of both metrics yet.")

    missing: ClassVar[str] = tr("This study has one metric only. Add a second goal, such as weight bits, for a front.")

    @override
    def legend(self) -> str:
        look = self.look
        entries = [f'<span style="color:{look.bad}">╌ {escape(w)}</span>' for w in self._limits()]
        if front := self._axes_of_front():
            entries.append(tr('<span style="color:{}">━ front, {}</span>', look.accent, self._points()))
        for figure, scale in ((self.shade, self.scale), (self.bulk, "{} · ● {}".format)):
            if figure and (ends := self._ends_of(figure)) and ends[1] > ends[0]:
                range_text = scale(*(value_words(figure, v) for v in ends))
                entries.append(f'<span style="color:{look.muted}">{escape(title(figure))} {range_text}</span>')
        goals = ", ".join(self._better(n) for n in (self.y_name, self.x_name) if n in front)
        entries += [tr('<span style="color:{}">better: {}</span>', look.muted, escape(goals))] if goals else []
        return " &nbsp; ".join(entries)

    def _limits(self) -> list[str]:
        """Texts of the drawn limits for the legend, as labels at the lines would hide trials."""
        bounds, names = self.study.bounds, dict.fromkeys((self.y_name, self.x_name))
        return [f"{title(n)} {bounds[n][0]} {value_words(n, bounds[n][1])}" for n in names if n in bounds]

    def _better(self, figure: str) -> str:
        return f"{title(figure)} {tr('high') if self.study.sign(figure) > 0 else tr('low')}"

    @override
    def build(self, palette: Palette) -> None:
        size, alpha = dot_look(len(self.study))
        broken = (tint(palette.edge, 40), pen(palette.edge, 0.8, alpha))
        colours = [QColor(palette.sequential(k / (SHADES - 1))) for k in range(SHADES)] if self.shade else []
        plain = [tint(palette.edge, alpha)]
        self._dots = Dots(self.plot, size, (broken, *((c, None) for c in colours or plain)), above=1)
        self._colours, self._bubbles = colours or plain, pg.ScatterPlotItem(pen=pen(palette.panel, 0.6))
        self._bubbles.setZValue(2)
        self.plot.addItem(self._bubbles)
        self._stairs = pg.PlotCurveItem(pen=pen(palette.accent))
        ring = pen(palette.text, 1.0) if self.shade else None
        self._best = pg.ScatterPlotItem(
            size=FRONT, useCache=False, pen=ring, brush=None if self.shade else palette.accent
        )
        for item, above in ((self._stairs, 5), (self._best, 6)):
            item.setZValue(above)
            self.plot.addItem(item)
        for (figure, log), angle in zip(self._sides, (90, 0), strict=True):
            if figure in self.study.bounds:
                _, limit = self.study.bounds[figure]
                at = np.log10(limit) if log and limit > 0 else limit
                self.plot.addItem(pg.InfiniteLine(at, angle, pen=dashed(palette.bad)))
        self._base(palette)

    def _base(self, palette: Palette) -> None:
        """Draw the model without steps as a cross."""
        base = [self.study.baseline.get(n) for n in (self.x_name, self.y_name)]
        if None not in base:
            x, y = (self.scaled(np.array([b], float), side[1]) for b, side in zip(base, self._sides, strict=True))
            self.plot.addItem(
                pg.ScatterPlotItem(x, y, symbol="x", size=9, useCache=False, brush=palette.muted, pen=None)
            )

    @override
    def fill(self, fresh: Sequence[int] | None) -> None:
        study = self.study
        if len(self.choices) < len(study.params.names):  # first value of a conditional choice
            self.choices = choices_of(study)
        x, y = self._positions()
        redraw = fresh is None or any(p < self._drawn_count and self._drawn[p] for p in fresh) or self._stretched()
        indices: Array = np.arange(len(study)) if redraw or fresh is None else np.array(fresh, int)
        indices = indices[study.state[indices] == COMPLETE]
        good = study.feasible[indices]
        looks = np.where(good, 1 + self._looks(indices), BROKEN)
        order = np.argsort(good, kind="stable")
        order_drawn = order[~good[order]] if self.bulk else order
        (self._dots.put if redraw else self._dots.add)(
            x[indices][order_drawn], y[indices][order_drawn], looks[order_drawn]
        )
        self._draw_sized(x, y)
        self._drawn_count = len(study)
        self._drawn = study.state == COMPLETE
        self._draw_front(x, y, None if redraw else indices[good])

    _drawn_count = 0
    _drawn: Array = np.zeros(0, bool)

    def _draw_sized(self, x: Array, y: Array) -> None:
        """Draw dots sized by a metric, large ones below small ones."""
        if not self.bulk:
            return
        study, (low, high) = self.study, self._ends_of(self.bulk) or (0.0, 1.0)
        indices = np.flatnonzero((study.state == COMPLETE) & study.feasible & np.isfinite(x + y))
        part = np.nan_to_num((study.figures[self.bulk][indices] - low) / ((high - low) or 1.0))
        order = np.argsort(-part, kind="stable")
        sizes, looks = LEAST + (MOST - LEAST) * np.clip(part, 0, 1)[order], self._looks(indices[order]).astype(int)
        brushes = [pg.mkBrush(self._colours[k]) for k in looks.tolist()]
        self._bubbles.setData(x=x[indices][order], y=y[indices][order], size=sizes, brush=brushes)

    def _ends_of(self, figure: str) -> tuple[float, float] | None:
        """Smallest and largest value of a metric among complete trials."""
        values = self.study.figures[figure]
        values = values[np.isfinite(values) & (self.study.state == COMPLETE)]
        return (float(values.min()), float(values.max())) if len(values) else None

    def _stretched(self) -> bool:
        """Whether the range of the third metric differs from the drawn one."""
        return bool(self.shade) and (self._ends_of(self.shade) or (0.0, 1.0)) != self._span

    def _looks(self, indices: Array) -> Array:
        """Colour index of each trial, by the third metric."""
        if not self.shade:
            return np.zeros(len(indices))
        low, high = self._span = self._ends_of(self.shade) or (0.0, 1.0)
        part = (self.study.figures[self.shade][indices] - low) / ((high - low) or 1.0)
        return np.floor(np.clip(np.nan_to_num(part) * SHADES, 0, SHADES - 1))

    _span: tuple[float, float] = (0.0, 0.0)

    def _points(self) -> int:
        """Number of distinct points of the front, as text."""
        if not len(self.front):
            return 0
        return len(np.unique(np.stack([self.study.figures[n][self.front] for n in self._axes_of_front()]), axis=1).T)

    def _axes_of_front(self) -> list[str]:
        """All goals if both axes are goals, otherwise the axes; none if one is a choice."""
        goals, axes = [g.figure for g in self.study.goals], [n for n, _ in self._sides if n]
        return [] if set(axes) & set(self.choices) else goals if set(axes) <= set(goals) else axes

    def _draw_front(self, x: Array, y: Array, good: Array | None) -> None:
        names = self._axes_of_front()
        self.front = self.study.front(names) if good is None or not names else self._grown(names, good)
        indices = self.front[np.isfinite(x[self.front] + y[self.front])]
        indices = indices[np.argsort(x[indices], kind="stable")]
        self._best.setData(x[indices], y[indices])
        line = staircase(x[indices], y[indices], self.study.sign(self.x_name)) if len(names) == 2 else (x[:0], y[:0])
        self._stairs.setData(*line)

    def _grown(self, names: Sequence[str], good: Array) -> Array:
        """The front updated with a few new trials, which needs only them and the present front."""
        indices = np.concatenate([self.front, good])
        merits = np.stack([self.study.merit(n) for n in names], 1)[indices]
        return np.unique(indices[nondominated(merits)])

    @override
    def ends(self) -> tuple[float, float, float, float] | None:
        study = self.study
        x, y = self._positions()
        there = np.isfinite(x + y) & (study.state == COMPLETE)
        if not there.any():
            return None
        x, y = x[there], y[there]
        return float(x.min()), float(x.max()), float(y.min()), float(y.max())

    @override
    def spots(self) -> tuple[Array, Array, Array]:
        study = self.study
        x, y = self._positions()
        return x, np.where(study.state == COMPLETE, y, np.nan), np.arange(len(study))

    @override
    def hover_metrics(self) -> tuple[str, ...]:
        return (*super().hover_metrics(), self.x_name, self.shade, self.bulk)


class ParetoChart(ScatterChart):
    """The goals against each other: the second goal, or a cost, across, the first one up."""

    name: ClassVar[str] = "Pareto front"

    @override
    def choose_axes(self, study: Study) -> None:
        goals, names = [g.figure for g in study.goals], study.names
        self.y_name = goals[0] if goals else ""
        others = [*goals[1:2], *(n for n in ("weight_bits", "size_bytes") if n in names), *names]
        self.x_name = next((n for n in others if n != self.y_name), "")
        self.shade, self.bulk = (goals[i] if len(goals) > i else "" for i in (2, 3))


class SliceChart(ScatterChart):
    """A metric against a choice, by default the most informative one."""

    name: ClassVar[str] = "Slices"
    missing: ClassVar[str] = tr("The trials chose nothing.")

    def __init__(self) -> None:
        self._trials_at_choice: float = 0  # number of trials when the choice was selected
        super().__init__()

    @override
    def choose_axes(self, study: Study) -> None:
        self.y_name = study.names[0] if study.names else ""
        choices = [a for a in axes_of(study) if a.scale is not None]
        best = informative(study, self.y_name, choices, 1) if self.y_name and choices else []
        self.x_name, self._trials_at_choice = CHOICE + best[0].name if best else "", len(study)

    @override
    def choose(self, name: str, value: object) -> None:
        self._trials_at_choice = math.inf if name in ("across", "up") else self._trials_at_choice
        super().choose(name, value)

    @override
    def append(self, indices: Sequence[int]) -> None:
        if len(self.study) > 2 * self._trials_at_choice:
            self.choose_axes(self.study)
            self.redraw()
        else:
            super().append(indices)

    @override
    def legend(self) -> str:
        median = tr('<span style="color:{}">━ median</span>', self.look.text) if self._by_category() else ""
        return " &nbsp; ".join(filter(None, (super().legend(), median)))

    @override
    def build(self, palette: Palette) -> None:
        super().build(palette)
        self._middles = pg.PlotCurveItem(pen=pen(palette.text, 2.0), connect="pairs")
        self._middles.setZValue(7)
        self.plot.addItem(self._middles)

    def _by_category(self) -> Axis | None:
        """The categorical choice of the horizontal axis if the other axis is a metric; otherwise None."""
        axis = self.choices.get(self.x_name)
        return axis if axis and axis.is_categorical and self.y_name not in self.choices else None

    @override
    def fill(self, fresh: Sequence[int] | None) -> None:
        super().fill(fresh)
        if (axis := self._by_category()) is None:
            return
        y = self._positions()[1]
        chosen = np.where((self.study.state == COMPLETE) & np.isfinite(y), axis.values(self.study), -1)
        medians = [
            (k, np.median(y[chosen == k])) for k in np.unique(chosen) if (chosen == k).sum() >= MIDDLES and k >= 0
        ]
        ends = np.array([(k + side * SPREAD, middle) for k, middle in medians for side in (-1, 1)]).reshape(-1, 2)
        self._middles.setData(ends[:, 0], ends[:, 1], connect="pairs")


def choices_of(study: Study) -> dict[str, Axis]:
    """Option → axis, for choices with at least one value."""
    return {CHOICE + a.name: a for a in axes_of(study) if a.scale is not None}


def staircase(x: Array, y: Array, sign: float) -> tuple[Array, Array]:
    """The step line of a front along x."""
    if not len(x):
        return x, y
    across = np.repeat(x, 2)
    up = np.repeat(y, 2)
    # a point dominates to its right if low x is better, to its left if high x is
    return (across[1:], up[:-1]) if sign < 0 else (across[:-1], up[1:])
