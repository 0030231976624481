"""Two figures of all trials against each other: the front as a staircase; a third as colour, a fourth as size."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, ClassVar

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QColor
from typing_extensions import override

from espalier.app.features.search.charts.chart import StudyChart, dashed
from espalier.app.features.search.charts.dots import Dots, dot_look
from espalier.app.features.search.charts.face import Option
from espalier.app.figures.study.data import COMPLETE, Study, nondominated
from espalier.app.figures.study.words import title, value_words
from espalier.app.theme import Palette
from espalier.app.widgets.charts.chart import pen, tint
from espalier.model.data.base import Array

FRONT = 9  # pixels
BROKEN = 0  # the look of trials that break a constraint
SHADES = 12  # colours of the third figure
LEAST, MOST = 5.0, 17.0  # pixels of the dots that tell a figure by their size


class ParetoChart(StudyChart):
    """The axes are the goals, or any other figure; the front is that of all goals, or of the axes alone."""

    name: ClassVar[str] = "Pareto front"

    def __init__(self) -> None:
        self.shade = self.bulk = ""
        self.front: Array = np.zeros(0, int)
        super().__init__()

    @override
    def options(self) -> list[Option]:
        names = tuple(self.study.names)
        texts = tuple(map(title, names))
        return [Option("across", names, texts, "Figure of the horizontal axis"),
                Option("up", names, texts, "Figure of the vertical axis"),
                Option("colour", ("", *names), ("no colour", *texts), "Figure told by colour"),
                Option("size", ("", *names), ("one size", *texts), "Figure told by the size of the dots"),
                Option("log x", hint="Logarithmic horizontal axis"),
                Option("log y", hint="Logarithmic vertical axis")]  # fmt: skip

    @override
    def option(self, name: str) -> Any:
        held = {"across": self.x_name, "up": self.y_name, "colour": self.shade, "size": self.bulk, "log x": self.log_x}
        return held.get(name, self.log_y)

    @override
    def choose(self, name: str, value: Any) -> None:
        field = {
            "across": "x_name",
            "up": "y_name",
            "colour": "shade",
            "size": "bulk",
            "log x": "log_x",
            "log y": "log_y",
        }[name]
        setattr(self, field, value)
        self._free = False
        self.draw(self.look)
        self.changed.emit()

    def show_study(self, study: Study) -> None:
        """The axes stay where the new study has them: else the second goal, or a cost, across, the first one up."""
        names = study.names
        if not {self.x_name, self.y_name} <= set(names) or not self.x_name:
            goals = [g.figure for g in study.goals]
            self.y_name = goals[0] if goals else ""
            others = [*goals[1:2], *(n for n in ("weight_bits", "size_bytes") if n in names), *names]
            self.x_name = next((n for n in others if n != self.y_name), "")
            self.shade, self.bulk = (goals[i] if len(goals) > i else "" for i in (2, 3))
        super().show_study(study)

    @override
    def empty(self) -> str:
        if not len(self.study):
            return super().empty()
        if not (self.study.state == COMPLETE).any():
            return "No trial is complete yet. The first one is drawn here as soon as it is."
        if not self.x_name:
            return "This study has one figure only. A second goal, such as the weight bits, gives a front."
        x, y = self.study.figures[self.x_name], self.study.figures[self.y_name]
        if not (np.isfinite(x + y) & (self.study.state == COMPLETE)).any():
            return "No trial has told both figures yet."
        return ""

    @override
    def legend(self) -> str:
        look = self.look
        words = [f'<span style="color:{look.bad}">╌ {escape(w)}</span>' for w in self._limits()]
        words.append(f'<span style="color:{look.accent}">━ front, {self._points()}</span>')
        if self.shade and (ends := self._ends_of(self.shade)) and ends[1] > ends[0]:
            low, high = (value_words(self.shade, v) for v in ends)
            stops = "".join(f'<span style="color:{look.sequential(k / 4)}">■</span>' for k in range(5))
            words.append(f'<span style="color:{look.muted}">{escape(title(self.shade))} {low} {stops} {high}</span>')
        if self.bulk and (ends := self._ends_of(self.bulk)) and ends[1] > ends[0]:
            low, high = (value_words(self.bulk, v) for v in ends)
            words.append(f'<span style="color:{look.muted}">{escape(title(self.bulk))} {low} · ● {high}</span>')
        goals = ", ".join(self._better(n) for n in (self.y_name, self.x_name) if n)
        words.append(f'<span style="color:{look.muted}">better: {escape(goals)}</span>')
        return " &nbsp; ".join(words)

    def _limits(self) -> list[str]:
        """The limits that are drawn, in words: beside a line they would hide trials, or be cut."""
        held, names = self.study.bounds, dict.fromkeys((self.y_name, self.x_name))
        return [f"{title(n)} {held[n][0]} {value_words(n, held[n][1])}" for n in names if n in held]

    def _better(self, figure: str) -> str:
        return f"{title(figure)} {'high' if self.study.sign(figure) > 0 else 'low'}"

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
        self._stairs.setZValue(5)
        self._best.setZValue(6)
        self.plot.addItem(self._stairs)
        self.plot.addItem(self._best)
        for figure, angle, log in ((self.x_name, 90, self.log_x), (self.y_name, 0, self.log_y)):
            if figure in self.study.bounds:
                _, limit = self.study.bounds[figure]
                at = np.log10(limit) if log and limit > 0 else limit
                self.plot.addItem(pg.InfiniteLine(at, angle, pen=dashed(palette.bad)))
        self._base(palette)

    def _base(self, palette: Palette) -> None:
        """The model without a step, as a cross."""
        base = [self.study.baseline.get(n) for n in (self.x_name, self.y_name)]
        if None not in base:
            x, y = self._place(np.array(base[:1], float), np.array(base[1:], float))
            self.plot.addItem(
                pg.ScatterPlotItem(x, y, symbol="x", size=9, useCache=False, brush=palette.muted, pen=None)
            )

    def _place(self, x: Array, y: Array) -> tuple[Array, Array]:
        return self.scaled(x, self.log_x), self.scaled(y, self.log_y)

    @override
    def fill(self, fresh: Sequence[int] | None) -> None:
        study = self.study
        x, y = self._place(study.figures[self.x_name], study.figures[self.y_name])
        again = fresh is None or any(p < self._known and self._drawn[p] for p in fresh) or self._stretched()
        places: Array = np.arange(len(study)) if again or fresh is None else np.array(fresh, int)
        places = places[study.state[places] == COMPLETE]
        good = study.feasible[places]
        looks = np.where(good, 1 + self._looks(places), BROKEN)
        order = np.argsort(good, kind="stable")
        seen = order[~good[order]] if self.bulk else order
        (self._dots.put if again else self._dots.add)(x[places][seen], y[places][seen], looks[seen])
        self._blow(x, y)
        self._known = len(study)
        self._drawn = study.state == COMPLETE
        self._draw_front(x, y, None if again else places[good])

    _known = 0
    _drawn: Array = np.zeros(0, bool)

    def _blow(self, x: Array, y: Array) -> None:
        """Dots whose size tells a figure: the large ones below, so that none is hidden."""
        if not self.bulk:
            return
        study, (low, high) = self.study, self._ends_of(self.bulk) or (0.0, 1.0)
        places = np.flatnonzero((study.state == COMPLETE) & study.feasible & np.isfinite(x + y))
        part = np.nan_to_num((study.figures[self.bulk][places] - low) / ((high - low) or 1.0))
        order = np.argsort(-part, kind="stable")
        sizes, looks = LEAST + (MOST - LEAST) * np.clip(part, 0, 1)[order], self._looks(places[order]).astype(int)
        brushes = [pg.mkBrush(self._colours[k]) for k in looks.tolist()]
        self._bubbles.setData(x=x[places][order], y=y[places][order], size=sizes, brush=brushes)

    def _ends_of(self, figure: str) -> tuple[float, float] | None:
        """The least and the most of a figure among complete trials."""
        values = self.study.figures[figure]
        values = values[np.isfinite(values) & (self.study.state == COMPLETE)]
        return (float(values.min()), float(values.max())) if len(values) else None

    def _stretched(self) -> bool:
        """Whether the third figure has other ends than were drawn."""
        return bool(self.shade) and (self._ends_of(self.shade) or (0.0, 1.0)) != self._span

    def _looks(self, places: Array) -> Array:
        """Which colour each trial has, by the third figure."""
        if not self.shade:
            return np.zeros(len(places))
        low, high = self._span = self._ends_of(self.shade) or (0.0, 1.0)
        part = (self.study.figures[self.shade][places] - low) / ((high - low) or 1.0)
        return np.floor(np.clip(np.nan_to_num(part) * SHADES, 0, SHADES - 1))

    _span: tuple[float, float] = (0.0, 0.0)

    def _points(self) -> int:
        """How many points the front has: trials that are equal are one."""
        if not len(self.front):
            return 0
        return len(np.unique(np.stack([self.study.figures[n][self.front] for n in self._axes_of_front()]), axis=1).T)

    def _axes_of_front(self) -> list[str]:
        """The goals where both axes are goals, else the axes alone."""
        goals = [g.figure for g in self.study.goals]
        axes = [self.x_name, self.y_name]
        return goals if set(axes) <= set(goals) else [a for a in axes if a]

    def _draw_front(self, x: Array, y: Array, good: Array | None) -> None:
        names = self._axes_of_front()
        self.front = self.study.front(names) if good is None else self._grown(names, good)
        places = self.front[np.isfinite(x[self.front] + y[self.front])]
        places = places[np.argsort(x[places], kind="stable")]
        self._best.setData(x[places], y[places])
        line = staircase(x[places], y[places], self.study.sign(self.x_name)) if len(names) == 2 else (x[:0], y[:0])
        self._stairs.setData(*line)

    def _grown(self, names: Sequence[str], good: Array) -> Array:
        """The front with a few more trials: only they and those on it can be there."""
        places = np.concatenate([self.front, good])
        merits = np.stack([self.study.merit(n) for n in names], 1)[places]
        return np.unique(places[nondominated(merits)])

    @override
    def ends(self) -> tuple[float, float, float, float] | None:
        study = self.study
        x, y = self._place(study.figures[self.x_name], study.figures[self.y_name])
        there = np.isfinite(x + y) & (study.state == COMPLETE)
        if not there.any():
            return None
        x, y = x[there], y[there]
        return float(x.min()), float(x.max()), float(y.min()), float(y.max())

    @override
    def spots(self) -> tuple[Array, Array, Array]:
        study = self.study
        x, y = self._place(study.figures[self.x_name], study.figures[self.y_name])
        return x, np.where(study.state == COMPLETE, y, np.nan), np.arange(len(study))

    @override
    def told(self) -> tuple[str, ...]:
        return tuple(n for n in (*super().told(), self.x_name, self.shade, self.bulk) if n)


def staircase(x: Array, y: Array, sign: float) -> tuple[Array, Array]:
    """The edge of what points along x reach: level until the next one, then up or down."""
    if not len(x):
        return x, y
    across = np.repeat(x, 2)
    up = np.repeat(y, 2)
    # where low is better, a point's height holds to its right; where high is, to its left
    return (across[1:], up[:-1]) if sign < 0 else (across[:-1], up[1:])
