"""What trials told on their way, by samples or steps: weak ones end early, the best so far stands out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from typing_extensions import override

from espalier.app.features.search.charts.axes import step_of
from espalier.app.features.search.charts.density import SHADES, Density
from espalier.app.features.search.charts.face import Option
from espalier.app.features.search.charts.painted import PaintedChart, elided, joined
from espalier.app.features.search.charts.pieces import Pieces
from espalier.app.figures.study.data import COMPLETE, PRUNED, RUNNING, Study
from espalier.app.figures.study.on_the_way import SEEN, core_of, figure_of, leading
from espalier.app.figures.study.words import tick_words, title, value_words
from espalier.app.words import count
from espalier.model.data.base import Array

LEFT, RIGHT, TOP, FOOT = 64, 16, 10, 38
NEAR = 8.0
OFTEN = 1.02  # the ends are looked at anew when there are so many times more values
NONE = (
    "No trial tells values on its way. A search with rungs, or with a pruner, measures on growing parts of the data"
    " first, and ends weak trials there."
)


class IntermediateChart(PaintedChart):
    """A line a trial: coloured by what it came to, grey where it was ended early."""

    name: ClassVar[str] = "Intermediate values"

    def __init__(self) -> None:
        self.log = False
        self._steps: list[int] = []
        self._column: dict[int, int] = {}
        self._values: Array = np.zeros((0, 0))
        self._ends = (0.0, 1.0)
        self._counted = 0  # values from which the ends were made
        super().__init__()
        self._pieces = Pieces(self, self._lay)

    @property
    def figure(self) -> str:
        """What is told on the way: the first goal."""
        return figure_of(self.study)

    @override
    def options(self) -> list[Option]:
        return [Option("log", hint="Samples on a logarithmic axis")]

    @override
    def option(self, name: str) -> Any:
        return self.log

    @override
    def choose(self, name: str, value: Any) -> None:
        self.log = value
        self.take(None)

    @override
    def empty(self) -> str:
        if len(self.study) and not any(t.steps for t in self.study.trials):
            return NONE
        return super().empty()

    @override
    def legend(self) -> str:
        low, high = (value_words(self.figure, v) for v in self._ends)
        stops = "".join(f'<span style="color:{self.look.sequential(k / 4)}">■</span>' for k in range(5))
        early = int(((self.study.state == PRUNED) & ~(self.study.facts["unmeasured"] > 0)).sum())
        told = f" &nbsp; grey: {count(early)} ended early" * bool(early)
        return f'<span style="color:{self.look.muted}">came to {low} {stops} {high}{told}</span> &nbsp; ━ best'

    @override
    def show_study(self, study: Study) -> None:
        self._steps, self._column, self._values, self._counted = [], {}, np.zeros((0, 0)), 0
        super().show_study(study)

    # -- what is drawn

    @override
    def take(self, fresh: Sequence[int] | None) -> None:
        study = self.study
        places = range(len(study)) if fresh is None else fresh
        fits = self._note(places)
        ends = self._bounds()
        drawn = self._pieces.drawn
        again = fresh is None or not fits or ends != self._ends
        again = again or any(p < len(d) and d[p] for p in places for d in drawn)
        self._ends = ends
        if again:
            self._sheet = None
            self._pieces.restart(int(self.width() - LEFT - RIGHT) + 1, int(self.height() - TOP - FOOT))
        told = np.isfinite(self._values).sum(1) > 1 if self._values.size else np.zeros(len(study), bool)
        self._pieces.want(told & (study.state == PRUNED), told & (study.state == COMPLETE))

    def _note(self, places: Sequence[int]) -> bool:
        """Write down what trials told; whether no step is new."""
        steps = sorted({s for p in places for s, _ in self.study.trials[p].steps} - set(self._column))
        if steps:
            held, old = self._values, self._steps
            self._steps = sorted([*old, *steps])
            self._column = {s: k for k, s in enumerate(self._steps)}
            self._values = np.full((len(held), len(self._steps)), np.nan)
            if old:
                self._values[:, [self._column[s] for s in old]] = held
        rows = len(self.study) - len(self._values)
        if rows > 0:
            more = max(rows, len(self._values) // 2)
            self._room = np.full((len(self._values) + more, len(self._steps)), np.nan)
            self._room[: len(self._values)] = self._values
            self._values = self._room[: len(self.study)]
        for place in places:
            for step, value in self.study.trials[place].steps:
                self._values[place, self._column[step]] = value
        return not steps

    def _bounds(self) -> tuple[float, float]:
        """All values but the worst hundredth; wider than before or as before."""
        values = self._values[np.isfinite(self._values)]
        if not len(values):
            return 0.0, 1.0
        if self._counted <= len(values) < OFTEN * self._counted:
            return self._ends
        self._counted = len(values)
        held, (low, high, room) = self._ends, core_of(values, rising=self.study.sign(self.figure) > 0)
        inside = held[0] <= low and high <= held[1] and (held[1] - held[0]) < 1.6 * (high - low + 2 * room)
        return held if inside else (low - room, high + room)

    def _lay(self, layer: Density, places: Array, sign: int) -> None:
        rows = self._values[places]
        last = np.where(np.isfinite(rows), np.arange(rows.shape[1]), -1).max(1)
        final = rows[np.arange(len(rows)), np.maximum(last, 0)]
        low, high = self._ends
        shades = np.clip((final - low) / ((high - low) or 1.0) * SHADES, 0, SHADES - 1).astype(np.int32)
        y = ((1 - (rows - low) / ((high - low) or 1.0)) * layer.height).astype(np.float32)
        before = np.full(len(rows), -1)
        for k in range(rows.shape[1]):
            there = np.isfinite(rows[:, k])
            for j in np.unique(before[there & (before >= 0)]).tolist():
                which = np.flatnonzero(there & (before == j))
                left, right = (round(self._x(self._steps[m]) - LEFT) for m in (j, k))
                layer.add(left, right, y[which, j], y[which, k], shades[which], sign)
            before[there] = k

    @override
    def settle(self) -> None:
        self._pieces.settle()

    # -- where things lie

    def _x(self, step: float) -> float:
        low, high = (self._steps[0], self._steps[-1]) if self._steps else (0, 1)
        if self.log and low > 0:
            step, low, high = np.log(step), np.log(low), np.log(high)
        return LEFT + (self.width() - LEFT - RIGHT) * ((step - low) / (high - low) if high > low else 0.5)

    def _y(self, value: float) -> float:
        low, high = self._ends
        return TOP + (1 - (value - low) / ((high - low) or 1.0)) * (self.height() - TOP - FOOT)

    @override
    def paint(self, painter: QPainter) -> None:
        look = self.look
        step = step_of(self.figure, self._ends[1] - self._ends[0], (self.height() - TOP - FOOT) / 44)
        first = np.ceil(self._ends[0] / step)
        levels = [float(k * step) for k in np.arange(first, np.floor(self._ends[1] / step) + 1)]
        for level, text in zip(levels, tick_words(self.figure, levels, step), strict=True):
            painter.setPen(QPen(QColor(look.line), 1))
            painter.drawLine(QPointF(LEFT, self._y(level)), QPointF(self.width() - RIGHT, self._y(level)))
            painter.setPen(QColor(look.muted))
            elided(painter, QRectF(0, self._y(level) - 8, LEFT - 6, 16), text, Qt.AlignmentFlag.AlignRight)
        self._paint_steps(painter)

    @override
    def marks(self, painter: QPainter) -> None:
        self._pieces.paint(painter, QPointF(LEFT, TOP))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_lines(painter)

    def _paint_steps(self, painter: QPainter) -> None:
        painter.setPen(QColor(self.look.muted))
        last = -1e9
        for step in self._steps:
            x = self._x(step)
            if x - last > 52:
                last = x
                left = min(x - 30, self.width() - 62.0)
                box = QRectF(left, self.height() - FOOT + 3, 60, 14)
                painter.drawText(box, Qt.AlignmentFlag.AlignCenter, count(step))
        across = QRectF(LEFT, self.height() - 18, self.width() - LEFT - RIGHT, 16)
        painter.drawText(across, Qt.AlignmentFlag.AlignCenter, f"{SEEN[self.study.counted]}; {title(self.figure)}")

    def _paint_lines(self, painter: QPainter) -> None:
        """The best, those that run, the one that is picked and the one under the pointer."""
        study, look = self.study, self.look
        best = leading(study)
        strong = [(int(p), look.accent, 1.4) for p in np.flatnonzero(study.state == RUNNING)]
        strong += [(best, look.text, 1.8)] if best is not None else []
        strong += [(p, c, 2.0) for p, c in ((self.pick, look.text), (self.under, look.accent)) if p is not None]
        for place, colour, width in strong:
            dots = [QPointF(self._x(s), self._y(v)) for s, v in study.trials[place].steps]
            painter.setPen(QPen(QColor(colour), width))
            joined(painter, dots)
            painter.setBrush(QColor(look.panel if study.state[place] == PRUNED else colour))
            for dot in dots[-1:]:
                painter.drawEllipse(dot, 3.0, 3.0)

    def near(self, at: QPointF) -> int | None:
        """The trial whose line passes nearest."""
        if not self._values.size:
            return None
        xs = np.array([self._x(s) for s in self._steps])
        k = int(np.clip(np.searchsorted(xs, at.x()), 1, max(len(xs) - 1, 1)))
        if len(xs) < 2:
            y = self._values[:, 0]
        else:
            part = float(np.clip((at.x() - xs[k - 1]) / max(xs[k] - xs[k - 1], 1e-9), 0, 1))
            y = self._values[:, k - 1] * (1 - part) + self._values[:, k] * part
        low, high = self._ends
        rows = TOP + (1 - (y - low) / ((high - low) or 1.0)) * (self.height() - TOP - FOOT)
        away = np.where(np.isnan(rows), np.inf, np.abs(rows - at.y()))
        best = int(np.argmin(away))
        return best if away[best] <= NEAR else None

    @override
    def words_at(self, place: int) -> str:
        steps = self.study.trials[place].steps
        told = " → ".join(value_words(self.figure, v) for _, v in steps[-4:])
        return f"{super().words_at(place)}\n{title(self.figure)} on the way: {told}"
