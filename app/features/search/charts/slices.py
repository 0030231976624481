"""A figure against each choice: small multiples of all of them, or one at large."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt, QTimer
from PySide6.QtGui import QColor, QPainter, QPen
from typing_extensions import override

from espalier.app.features.search.charts.axes import ALL, Axis, axes_of, step_of
from espalier.app.features.search.charts.face import Option
from espalier.app.features.search.charts.multiples import HEAD, LEFT, Multiples
from espalier.app.features.search.charts.of_figure import OfFigure
from espalier.app.features.search.charts.painted import elided
from espalier.app.features.search.charts.stamp import Stamps, argb
from espalier.app.figures.study.data import COMPLETE, Study
from espalier.app.figures.study.words import tick_words, title
from espalier.app.widgets.charts.chart import tint
from espalier.model.data.base import Array

SHADES = 24
FEW, NEAR = 400, 9.0  # trials whose dots are large; pixels to a dot
OFTEN = 1.02  # medians are drawn anew when there are so many times more trials
MIDDLES = 5  # trials of a category from which its median is drawn


class SliceChart(OfFigure, Multiples):
    """Dots by trial number, early ones dark; a bar is the median of a category."""

    name: ClassVar[str] = "Slices"
    fields: ClassVar[Mapping[str, str]] = {"figure": "figure", "choice": "only"}

    def __init__(self) -> None:
        self.only = ""
        self._all: list[Axis] = []
        self._ends = (0.0, 1.0)
        self._stamps: list[Stamps] = []
        self._lit: list[Stamps] = []  # dots above the veil, kept: pointing draws the marks again and again
        self._todo: list[int] = []
        self._count = 0
        super().__init__()
        self._work = QTimer(self, interval=0)
        self._work.timeout.connect(self._piece)

    @override
    def options(self) -> list[Option]:
        names = tuple(self.study.names)
        choices = [a for a in self._all if a.scale is not None]
        texts = ("all choices", *(a.text for a in choices))
        figures = Option("figure", names, tuple(map(title, names)))
        return [figures, Option("choice", ("", *(a.name for a in choices)), texts)]

    @override
    def choose(self, name: str, value: Any) -> None:
        self._first = 0
        super().choose(name, value)

    @override
    def show_study(self, study: Study) -> None:
        self._first = 0
        super().show_study(study)

    @override
    def legend(self) -> str:
        stops = "".join(f'<span style="color:{self.look.sequential(k / 4)}">■</span>' for k in range(5))
        more = "" if self._shown >= len(self.axes) else f" &nbsp; {self._shown} of {len(self.axes)} choices: scroll"
        return f'<span style="color:{self.look.muted}">trials {stops} latest; bar: median{more}</span>'

    # -- drawing

    @override
    def take(self, fresh: Sequence[int] | None) -> None:
        study = self.study
        self._lit = []
        self._all = axes_of(study)
        choices = [a for a in self._all if a.scale is not None]
        self.axes = [a for a in choices if a.name == self.only] or choices
        for axis in self.axes:
            axis.fit(study)
        held = self._ends
        self._ends = self._bounds()
        kept = [(a.name, a.low, a.high) for a in self._seen()]
        again = fresh is None or held != self._ends or kept != self._kept or len(study) > 2 * self._count
        self._kept = kept
        if again or fresh is None or any(p < self._done for p in fresh if p not in self._waiting):
            self._restart()
        else:
            self._stamp(np.array(fresh, int), range(len(self._stamps)))
            if len(study) > OFTEN * self._told:  # medians hardly move
                self._sheet = None
        self._done = len(study)
        self._waiting = frozenset(np.flatnonzero(study.state != COMPLETE).tolist())

    _kept: list[tuple[str, float, float]] | None = None
    _done = 0
    _told = 0
    _waiting: frozenset[int] = frozenset()

    def _bounds(self) -> tuple[float, float]:
        values = self.study.figures[self.figure]
        values = values[np.isfinite(values) & (self.study.state == COMPLETE)]
        if not len(values):
            return 0.0, 1.0
        low, high = float(values.min()), float(values.max())
        room = 0.05 * ((high - low) or abs(low) or 1.0)
        held = self._ends
        return held if held[0] <= low and high <= held[1] and high - low > 0.7 * (held[1] - held[0]) else (
            low - room, high + room)  # fmt: skip

    def _restart(self) -> None:
        """Empty multiples, to be drawn one after the other."""
        self._sheet = None
        self._count = max(len(self.study), 50)
        boxes = [self._box(k) for k in range(len(self._seen()))]
        self._stamps = [Stamps(int(b.width()), int(b.height())) for b in boxes]
        self._todo = list(range(len(self._stamps)))
        self._work.start()

    def _piece(self) -> None:
        """One multiple more."""
        if self._todo:
            self._stamp(np.arange(len(self.study)), [self._todo.pop(0)])
            self.update()
        else:
            self._work.stop()

    @override
    def settle(self) -> None:
        while self._todo:
            self._piece()

    def _stamp(self, places: Array, which: Sequence[int]) -> None:
        places = places[self.study.state[places] == COMPLETE]
        palette = argb([self.look.sequential(k / (SHADES - 1)) for k in range(SHADES)])
        shades = np.minimum(places * SHADES // self._count, SHADES - 1)
        seen = self._seen()
        for k in which:
            self._stamps[k].dots(*self._pixels(seen[k], k, places), palette[shades], len(self.study) > FEW)

    def _pixels(self, axis: Axis, place: int, places: Array | slice = ALL) -> tuple[Array, Array]:
        """Where the trials lie in the multiple at a place."""
        box, (low, high) = self._box(place), self._ends
        x = axis.unit(self.study, places) * (box.width() - 6) + 3
        y = (1 - (self.study.figures[self.figure][places] - low) / ((high - low) or 1.0)) * (box.height() - 6) + 3
        return x, y

    @override
    def hover_words(self, at: QPointF) -> str:
        """The whole name of the choice whose title this is."""
        for place, axis in enumerate(self._seen()):
            box = self._box(place)
            if QRectF(box.left(), box.top() - HEAD, box.width(), HEAD).contains(at):
                return axis.name
        return super().hover_words(at)

    @override
    def paint(self, painter: QPainter) -> None:
        look = self.look
        for place, axis in enumerate(self._seen()):
            box = self._box(place)
            painter.setPen(QColor(look.text))
            painter.setFont(self.small(bold=True))
            elided(painter, QRectF(box.left(), box.top() - HEAD + 1, box.width(), 16), axis.text,
                   cut=Qt.TextElideMode.ElideLeft)  # fmt: skip
            painter.setFont(self.small())
            if place % self._columns == 0:
                self._paint_scale(painter, box)
            self._paint_ticks(painter, axis, box)

    @override
    def ground(self, painter: QPainter) -> None:
        for place in range(len(self._stamps)):
            box = self._box(place)
            self._paint_levels(painter, box)
            painter.drawImage(box.topLeft(), self._stamps[place].image())

    @override
    def marks(self, painter: QPainter) -> None:
        if self._left is not None and not self._lit:
            self._lit = self._stamp_left()
        for place, axis in enumerate(self._seen()):
            if self._left is not None:  # a veil over all dots, and those above it that brushes leave
                box = self._box(place)
                painter.fillRect(box, tint(self.look.panel, 200))
                painter.drawImage(box.topLeft(), self._lit[place].image())
            self._paint_rings(painter, axis, place)

    @override
    def dim(self, mask: Array | None) -> None:
        self._lit = []
        super().dim(mask)

    def _stamp_left(self) -> list[Stamps]:
        """Dots that brushes leave, as large as those below."""
        done = np.flatnonzero(self.study.state == COMPLETE)
        left = done[self._stands_out(done)]
        colours, made = np.repeat(argb([self.look.accent]), len(left)), []
        for place, axis in enumerate(self._seen()):
            box = self._box(place)
            made.append(Stamps(int(box.width()), int(box.height())))
            made[-1].dots(*self._pixels(axis, place, left), colours, len(self.study) > FEW)
        return made

    def _levels(self, box: QRectF) -> tuple[list[float], list[float], float]:
        """Round values with their heights, and the step between them."""
        low, high = self._ends
        step = step_of(self.figure, high - low, max(box.height() / 40, 2))
        levels = [float(k * step) for k in np.arange(np.ceil(low / step), np.floor(high / step) + 1)]
        return levels, [box.top() + (1 - (v - low) / (high - low)) * (box.height() - 6) + 3 for v in levels], step

    def _paint_levels(self, painter: QPainter, box: QRectF) -> None:
        painter.setPen(QPen(QColor(self.look.line), 1))
        for y in self._levels(box)[1]:
            painter.drawLine(QPointF(box.left(), y), QPointF(box.right(), y))

    def _paint_scale(self, painter: QPainter, box: QRectF) -> None:
        painter.setPen(QColor(self.look.muted))
        levels, heights, step = self._levels(box)
        for y, text in zip(heights, tick_words(self.figure, levels, step), strict=True):
            elided(painter, QRectF(0, y - 8, LEFT - 4, 16), text, Qt.AlignmentFlag.AlignRight)

    def _paint_ticks(self, painter: QPainter, axis: Axis, box: QRectF) -> None:
        """Labels below, as many as fit; medians of categories."""
        painter.setPen(QColor(self.look.muted))
        last, metrics = -1e9, painter.fontMetrics()
        ticks = axis.ticks()
        for part, text in ticks:
            short = metrics.elidedText(text, Qt.TextElideMode.ElideRight, int(box.width() / 2))
            wide = metrics.horizontalAdvance(short)
            x = min(max(box.left() + 3 + part * (box.width() - 6) - wide / 2, box.left() - 4), box.right() + 4 - wide)
            if x > last + 6:
                painter.drawText(QPointF(x, box.bottom() + 12), short)
                last = x + wide
        if axis.words:
            self._paint_medians(painter, axis, box)

    def _paint_medians(self, painter: QPainter, axis: Axis, box: QRectF) -> None:
        self._told = len(self.study)
        values, (low, high) = self.study.figures[self.figure], self._ends
        chosen = axis.values(self.study)
        done = np.isfinite(values) & (self.study.state == COMPLETE)
        painter.setPen(QPen(QColor(self.look.text), 2))
        for place, (part, _) in enumerate(axis.ticks()):
            mine = values[done & (chosen == place)]
            if len(mine) >= MIDDLES:
                y = box.top() + (1 - (float(np.median(mine)) - low) / (high - low)) * (box.height() - 6) + 3
                x, half = box.left() + 3 + part * (box.width() - 6), 0.3 * box.width() / max(len(axis.ticks()), 1)
                painter.drawLine(QPointF(x - half, y), QPointF(x + half, y))

    def _paint_rings(self, painter: QPainter, axis: Axis, place: int) -> None:
        marks = [p for p in (self.pick, self.under) if p is not None and self.study.state[p] == COMPLETE]
        if not marks:
            return
        x, y = self._pixels(axis, place, np.array(marks))
        box = self._box(place)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(self.look.text), 1.6))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for across, down in zip(x.tolist(), y.tolist(), strict=True):
            if math.isfinite(across + down):
                painter.drawEllipse(box.topLeft() + QPointF(across, down), 5.0, 5.0)

    # -- pointing

    @override
    def near(self, at: QPointF) -> int | None:
        for place, axis in enumerate(self._seen()):
            box = self._box(place)
            if box.adjusted(-3, -3, 3, 3).contains(at):
                x, y = self._pixels(axis, place)
                far = np.hypot(x + box.left() - at.x(), y + box.top() - at.y())
                far[~np.isfinite(far) | (self.study.state != COMPLETE)] = np.inf
                best = int(np.argmin(far))
                return best if far[best] <= NEAR else None
        return None
