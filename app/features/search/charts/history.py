"""All trials of a study in order, by state, with the line of the best so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, ClassVar

import numpy as np
import pyqtgraph as pg
from typing_extensions import override

from espalier.app.features.search.charts.chart import StudyChart
from espalier.app.features.search.charts.marks import Dots, dot_look
from espalier.app.features.search.charts.study_view import Option, figure_option
from espalier.app.figures.study.data import COMPLETE, FAILED, PRUNED, RUNNING
from espalier.app.figures.study.labels import value_words
from espalier.app.number_text import count
from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import dashed, pen, tint
from espalier.model.data.base import Array
from espalier.passes.figure import Figure as Accuracy
from espalier.passes.figure import is_near, wilson

GREY, EARLY, GOOD = range(3)  # looks of dots, from the bottom layer up
BAND = 36  # opacity of the band of noise, of 255
CROWD = 200  # number of failed trials from which ticks are thin


class HistoryChart(StudyChart):
    """A metric by trial number; trials without a value are ticks at the lower edge."""

    name: ClassVar[str] = "History"
    fields: ClassVar[Mapping[str, str]] = {"figure": "y_name", "log": "log_y"}
    growing = True

    def __init__(self) -> None:
        super().__init__()
        self.x_name = "trial"

    @override
    def options(self) -> list[Option]:
        return [figure_option("figure", self.study.names), Option("log", hint=tr("Logarithmic axis"))]

    @override
    def show_study(self, study: Any) -> None:
        if self.y_name not in study.names:
            self.y_name = study.names[0] if study.names else ""
        super().show_study(study)

    @override
    def legend(self) -> str:
        study, look = self.study, self.look
        state = study.state
        entries = [tr('<span style="color:{}">━ best so far</span>', look.text)]
        untold = int(self._without_value().sum())
        if int((state == PRUNED).sum()) > untold:
            entries.append(tr('<span style="color:{}">○ ended early</span>', look.accent))
        if untold:
            entries.append(tr('<span style="color:{}">┃ {} not measured</span>', look.edge, untold))
        if ((state == COMPLETE) & ~study.feasible).any():
            entries.append(tr('<span style="color:{}">● breaks a constraint</span>', look.edge))
        if (failed := int((state == FAILED).sum())) > 0:
            lost = any(t.lost for t in study.trials)
            entries.append(
                tr('<span style="color:{}">┃ {} failed{}</span>', look.bad, failed, tr(" or lost") if lost else "")
            )
        if self.y_name in study.baseline:
            value = value_words(self.y_name, study.baseline[self.y_name])
            entries.append(f'<span style="color:{look.muted}">╌ {escape(study.named)} {value}</span>')
        if sampled := self._sampled:
            band = tr('<span style="color:{}">▒ 95 % of n = {}</span>', look.muted, count(sampled.n))
            entries += [band] if sampled.share else []
            if sampled.guessing is not None:
                value = value_words(self.y_name, sampled.guessing)
                entries.append(tr('<span style="color:{}">┈ guessing {}</span>', look.bad, value))
        return " &nbsp; ".join(entries)

    def build(self, palette: Palette) -> None:
        """Create the baseline, the dots by kind, the line of the best and the ticks."""
        self._edged = ()
        size, alpha = dot_look(len(self.study))
        hollow = (tint(palette.panel, 255), pen(palette.accent, 1.2))
        filled = [(tint(c, alpha), None) for c in (palette.edge, palette.accent)]
        self._dots = Dots(self.plot, size, (filled[0], hollow, filled[1]), above=1)
        self._stairs = pg.PlotCurveItem(pen=pen(palette.text))
        self._stairs.setZValue(5)
        self._edge = pg.PlotCurveItem(pen=pen(palette.bad, 2.0), antialias=False, connect="pairs")
        self._left_out = pg.PlotCurveItem(pen=pen(palette.edge, 2.0), antialias=False, connect="pairs")
        self._now = pg.PlotCurveItem(pen=dashed(palette.accent), connect="pairs")
        low, high = (pg.PlotCurveItem(pen=None) for _ in range(2))
        self._band = pg.FillBetweenItem(low, high, brush=tint(palette.text, BAND))
        self._band.setZValue(0)
        self._ends = low, high
        for item in (self._band, low, high, self._left_out, self._edge, self._now, self._stairs):
            self.plot.addItem(item)
        self._guess: pg.InfiniteLine | None = None
        level = self.study.baseline.get(self.y_name)
        if level is not None and (level > 0 or not self.log_y):
            at = np.log10(level) if self.log_y else level
            self.plot.addItem(pg.InfiniteLine(at, 0, pen=dashed(palette.muted)))

    @override
    def fill(self, fresh: Sequence[int] | None) -> None:
        study = self.study
        y = self.scaled(study.figures[self.y_name], self.log_y)
        x, state = study.number, study.state
        redraw = fresh is None or self._has_redrawn(fresh)
        indices: Array = np.arange(len(study)) if redraw else np.array(fresh, int)
        done = state[indices] == COMPLETE
        kinds = np.select(
            [done & ~study.feasible[indices], state[indices] == PRUNED, done], [GREY, EARLY, GOOD], np.nan
        )
        order = np.argsort(kinds, kind="stable")
        (self._dots.put if redraw else self._dots.add)(x[indices][order], y[indices][order], kinds[order])
        self._drawn_count = len(study)
        self._draw_stairs()
        self._draw_edges()

    def _has_redrawn(self, fresh: Sequence[int]) -> bool:
        """Whether one of these trials was drawn in another state, so that its dot must be replaced."""
        return any(p < self._drawn_count and p not in self._running for p in fresh)

    _drawn_count = 0
    _running: frozenset[int] = frozenset()
    _edged: tuple[float, ...] = ()

    def _draw_stairs(self) -> None:
        best = self.scaled(self.study.best(self.y_name), self.log_y)
        rises = np.flatnonzero(np.diff(best, prepend=np.nan) != 0)
        rises = rises[np.isfinite(best[rises])]
        if not len(rises):
            self._stairs.setData([], [])
            return
        x = np.append(np.repeat(self.study.number[rises], 2)[1:], self.study.number.max())
        self._stairs.setData(x, np.repeat(best[rises], 2))
        self._draw_noise(x, np.repeat(self.study.best(self.y_name)[rises], 2))

    @property
    def _sampled(self) -> Accuracy | None:
        """The samples of the drawn metric if it is the task's main one; otherwise None."""
        sampled = self.study.sampled
        return sampled if sampled and self.y_name == sampled.name else None

    def _draw_noise(self, x: Array, best: Array) -> None:
        """Draw Wilson's interval of the best so far if it is a share, and the level of guessing."""
        if (sampled := self._sampled) is None:
            return
        ends = np.array([wilson(float(value), sampled.n) for value in best])
        for curve, end in zip(self._ends, ends.T, strict=True) if sampled.share else ():
            curve.setData(x, self.scaled(end, self.log_y))
        if self._guess is None and (level := self._guessing()) is not None:
            self._guess = pg.InfiniteLine(level, 0, pen=dashed(self.look.bad))
            self.plot.addItem(self._guess)

    def _guessing(self) -> float | None:
        """Axis position of the majority-class accuracy."""
        chance = self._sampled.guessing if self._sampled else None
        return None if not chance else float(np.log10(chance)) if self.log_y else chance

    def _without_value(self) -> Array:
        """Mask of trials that ended without a value, as they missed a constraint that needs no measurement."""
        return (self.study.state == PRUNED) & np.isnan(self.study.figures[self.y_name])

    def _draw_edges(self) -> None:
        """Draw ticks of trials that failed or have no value, and lines of running ones."""
        study = self.study
        failed, untold = study.state == FAILED, self._without_value()
        missing = failed | untold
        running = np.flatnonzero(study.state == RUNNING)
        self._running = frozenset(running.tolist())
        extent = self.ends()
        low, high = (extent[2], extent[3]) if extent else (0.0, 1.0)
        low -= 0.04 * ((high - low) or abs(low) * 0.1 or 1.0)
        tall = 0.03 * ((high - low) or 1.0)
        self._edge_at = low + tall / 2
        self._missing = np.flatnonzero(missing)
        edged = (low, high, len(self._missing), int(failed.sum()), *running.tolist())
        if edged == self._edged:
            return
        self._edged = edged
        many = len(self._missing) > CROWD
        for item, colour, which in ((self._edge, self.look.bad, failed), (self._left_out, self.look.edge, untold)):
            item.setPen(pen(colour, 1.0 if many else 2.0, 130 if many else 255))
            _pairs(item, study.number[which], low, low + tall)
        _pairs(self._now, study.number[running], low, high)

    def ends(self) -> tuple[float, float, float, float] | None:
        """The range of all trials, without outliers that would flatten the others."""
        y = self.scaled(self.study.figures[self.y_name], self.log_y)
        y = y[np.isfinite(y) & (self.study.state >= COMPLETE)]
        level = self.study.baseline.get(self.y_name)
        if level is not None and (level > 0 or not self.log_y):
            y = np.append(y, np.log10(level) if self.log_y else level)
        guess = self._guessing()
        if len(y) and guess is not None and is_near(guess, float(y.min()), float(y.max())):
            y = np.append(y, guess)
        right = float(self.study.number.max()) if len(self.study) else 1.0
        return (0.0, max(right, 1.0), float(y.min()), float(y.max())) if len(y) else None

    @override
    def spots(self) -> tuple[Array, Array, Array]:
        study = self.study
        if not len(study):
            return super().spots()
        y = self.scaled(study.figures[self.y_name], self.log_y)
        y = np.where(study.state >= COMPLETE, y, np.nan)
        y[self._missing] = self._edge_at
        return study.number, y, np.arange(len(study))


def _pairs(item: pg.PlotCurveItem, x: Array, low: float, high: float) -> None:
    """Set vertical strokes at x."""
    item.setData(np.repeat(x, 2), np.tile([low, high], len(x)), connect="pairs")
