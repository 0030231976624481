"""Parallel coordinates: a line per trial through choices and goals; brushes select trials, titles move axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import ClassVar

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from typing_extensions import override

from espalier.app.features.search.charts.axes import Axis, axes_made
from espalier.app.features.search.charts.informative import picked
from espalier.app.features.search.charts.line_layers import SHADES, LineLayers
from espalier.app.features.search.charts.painted_chart import elided, joined
from espalier.app.features.search.charts.parallel_pointing import LINE, SIDE, TOP, AxesOfTrials
from espalier.app.features.search.charts.study_view import Option, figure_option
from espalier.app.figures.study.data import COMPLETE, Study
from espalier.app.figures.study.labels import title, value_words
from espalier.app.number_text import count
from espalier.app.translation import tr
from espalier.model.data.base import Array

NARROW = 28  # pixels below which a label is illegible
CLOSE = 38  # pixels between axes below which numbers overlap
APART, FEWEST = 46, 6  # pixels between legible axes; smallest number of axes


class ParallelChart(AxesOfTrials):
    """Lines are drawn in slices into pixmaps, below a sheet with axes and labels."""

    name: ClassVar[str] = "Parallel coordinates"
    fields: ClassVar[Mapping[str, str]] = {"colour": "shade", "all choices": "every"}

    def __init__(self) -> None:
        self.shade = ""
        self.every = False  # an axis for every choice, even if illegible
        self._available_axes, self._trials_at_choice = (
            0,
            0,
        )  # number of possible axes; number of trials when they were chosen
        self._span = (0.0, 1.0)
        super().__init__()
        self._layers = LineLayers(self, self._lay)

    # -- content

    @override
    def options(self) -> list[Option]:
        return [
            figure_option("colour", self.study.names, "colour: ", tr("Metric shown by colour")),
            Option("all choices", hint=tr("An axis for every choice, not only the most informative ones")),
        ]

    @override
    def redraw(self) -> None:
        self._pick_axes()
        super().redraw()

    @override
    def show_study(self, study: Study) -> None:
        if self.shade not in study.names:
            self.shade = study.names[0] if study.names else ""
        order = [a.name for a in self.axes]
        self.study, self.axes = study, []
        self._pick_axes()
        if set(order) == {a.name for a in self.axes}:
            self.axes.sort(key=lambda a: order.index(a.name))
        super().show_study(study)

    def _pick_axes(self) -> None:
        """Choose the axes of the most informative choices, as many as are legible."""
        room = max(int((self.width() - 2 * SIDE) / APART) + 1, FEWEST)
        self._trials_at_choice, self._available_axes = len(self.study), axes_made(self.study)
        self.axes = picked(self.study, self.shade, self.axes, self._available_axes if self.every else room)

    @override
    def empty(self) -> str:
        if (text := self.none_complete()) or not len(self.study):
            return text
        choices = sum(n in self.study.params for n in self.study.scales)
        enough = choices + len(self.study.goals) > 1
        return "" if enough else tr("The trials chose nothing, so that there is nothing to compare.")

    @override
    def legend(self) -> str:
        scale = self.scale(*(value_words(self.shade, v) for v in self._span))
        colour_text = f'<span style="color:{self.look.muted}">{escape(title(self.shade))} {scale}'
        if any(a.brushes for a in self.axes):
            many = count(int(self._wanted.sum()))
            return tr("{} &nbsp; {} of {} brushed · Esc clears</span>", colour_text, many, count(len(self._complete())))
        few = len(self.axes) < self._available_axes
        some = (
            tr(
                " &nbsp; {} of {} axes: what tells most of {}",
                len(self.axes),
                self._available_axes,
                escape(title(self.shade)),
            )
            if few
            else ""
        )
        return tr("{}{} &nbsp; drag on an axis to choose trials, on its title to move it</span>", colour_text, some)

    def _complete(self) -> Array:
        return np.flatnonzero(self.study.state[: len(self._units)] == COMPLETE)

    @override
    def take(self, fresh: Sequence[int] | None) -> None:
        study = self.study
        free = not self._grey and self._drag is None
        if (
            axes_made(study) != self._available_axes
            or (fresh is None and free)
            or (free and len(study) > 2 * self._trials_at_choice)
        ):
            before = [a.name for a in self.axes]
            self._pick_axes()
            fresh = fresh if before == [a.name for a in self.axes] else None
        moved = [a.fit(study) for a in self.axes]
        low_high = self._shade_ends()
        redraw = fresh is None or any(moved) or low_high != self._span
        coloured = self._layers.drawn[1]
        redraw = redraw or any(p < len(coloured) and coloured[p] for p in fresh or ())
        self._span = low_high
        self._note(fresh if not redraw else None)
        if redraw:
            self._sheet = None
            self._layers.restart(int(self.width() - 2 * SIDE + 1), int(self._bottom - self._top))
        self.choose_lines()

    def _note(self, fresh: Sequence[int] | None) -> None:
        """Update the positions of the trials on all axes, of all or of those at these indices."""
        study = self.study
        if fresh is None:
            units = [a.unit(study) for a in self.axes]
            self._units = np.stack(units, 1) if units else np.zeros((len(study), 0))
            return
        if (more := len(study) - len(self._units)) > 0:
            room = np.full((more, len(self.axes)), np.nan)
            self._units = np.concatenate([self._units, room])
        indices = np.array(fresh, int)
        for k, axis in enumerate(self.axes):
            self._units[indices, k] = axis.unit(study, indices)

    def _shade_ends(self) -> tuple[float, float]:
        """The range of the metric from its 5th to its 95th percentile; small changes are ignored."""
        values = self.study.figures[self.shade]
        values = values[(self.study.state == COMPLETE) & np.isfinite(values)]
        if not len(values):
            return 0.0, 1.0
        low, high = (float(v) for v in np.quantile(values, (0.05, 0.95)))
        previous = self._span
        near = 0.1 * (previous[1] - previous[0])
        return previous if abs(low - previous[0]) < near and abs(high - previous[1]) < near else (low, high)

    def choose_lines(self) -> None:
        """Draw trials within the brushes in colour, and all in grey below if there is a brush."""
        complete = self.study.state == COMPLETE
        complete[len(self._units) :] = False  # drawn later
        self._wanted = complete.copy()
        for axis in self.axes:
            if axis.brushes:
                self._wanted &= axis.inside(self.study)
        self._layers.want(complete if self._grey else complete & False, self._wanted)

    @override
    def settle(self) -> None:
        self._layers.settle()

    def _lay(self, indices: Array) -> tuple[Array, Array]:
        """Points of trials in the pixmap, and their shades."""
        xs = [self._x(k) - SIDE for k in range(len(self.axes))]
        rows = self._rows(indices)
        return np.stack([np.broadcast_to(xs, rows.shape), rows], 2), self._shades(indices)

    def _shades(self, indices: Array) -> Array:
        low, high = self._span
        part = (self.study.figures[self.shade][indices] - low) / ((high - low) or 1.0)
        return np.clip(np.nan_to_num(part) * SHADES, 0, SHADES - 1).astype(np.int32)

    @override
    def ground(self, painter: QPainter) -> None:
        self._layers.paint(painter, QPointF(SIDE, self._top))

    @override
    def paint(self, painter: QPainter) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for index, axis in enumerate(self.axes):
            self._paint_axis(painter, axis, self._at(axis, index), index % self._heads)

    @override
    def marks(self, painter: QPainter) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for index, axis in enumerate(self.axes if self._grey else ()):
            _paint_brushes(painter, self, axis, self._at(axis, index))
        for index, colour in ((self.pick, self.look.text), (self.under, self.look.accent)):
            if index is not None and index < len(self._units) and self.study.state[index] == COMPLETE:
                self._paint_line(painter, index, colour)

    def _at(self, axis: Axis, index: int) -> float:
        """x of an axis, or of the drag."""
        return self._drag[2] if self._drag and self._drag[0] == "move" and self._drag[1] is axis else self._x(index)

    def _paint_line(self, painter: QPainter, index: int, colour: str) -> None:
        rows = self._rows(np.array([index]))[0] + self._top
        painter.setPen(QPen(QColor(colour), 2.0))
        joined(painter, [QPointF(self._x(k), y) for k, y in enumerate(rows.tolist())])

    def _paint_axis(self, painter: QPainter, axis: Axis, x: float, row: int) -> None:
        look = self.look
        painter.setPen(QPen(QColor(look.control), 1.2))
        painter.drawLine(QPointF(x, self._y(1)), QPointF(x, self._y(0)))
        gap = (self.width() - 2 * SIDE) / max(len(self.axes) - 1, 1)
        wide = gap * self._heads - 10
        moving = self._drag and self._drag[0] == "move" and self._drag[1] is axis
        painter.setPen(QColor(look.accent if moving or axis.brushes else look.text))
        left, right = max(x - wide / 2, 2.0), min(x + wide / 2, self.width() - 2.0)
        middle = Qt.AlignmentFlag.AlignHCenter
        if x - wide / 2 < 2:
            middle = Qt.AlignmentFlag.AlignLeft
        elif x + wide / 2 > self.width() - 2:
            middle = Qt.AlignmentFlag.AlignRight
        if right - left > NARROW:
            box = QRectF(left, TOP + LINE * row, right - left, LINE)
            elided(painter, box, axis.text, middle, Qt.TextElideMode.ElideMiddle)
        self._paint_ticks(painter, axis, x, gap)

    def _paint_ticks(self, painter: QPainter, axis: Axis, x: float, gap: float) -> None:
        """Draw labels beside an axis on a legible background, as many as fit.

        Close axes with equal categories share the labels of the first one.
        """
        ground = QColor(self.look.panel)
        ground.setAlpha(190)
        index = self.axes.index(axis)
        if gap < NARROW and index and axis.like(self.axes[index - 1]):
            return
        last, metrics = 1e9, painter.fontMetrics()
        ticks = sorted(axis.ticks())
        widest = max((metrics.horizontalAdvance(t) for _, t in ticks), default=0)
        at_end = index == len(self.axes) - 1 and x + widest + 7 > self.width()
        if axis.is_categorical and widest > gap - 8 and index and axis.like(self.axes[index - 1]) and not self._drag:
            return
        if not axis.is_categorical and gap < CLOSE and index < len(self.axes) - 1:
            return  # shown on hover
        room = self._room(index, widest, gap, at_end)
        if room < min(widest, NARROW):
            return
        for part, text in ticks:
            y = self._y(part)
            if last - y < 12:
                continue
            last = y
            short = metrics.elidedText(text, Qt.TextElideMode.ElideRight, room)
            wide = metrics.horizontalAdvance(short) + 4
            box = QRectF(x - wide - 2 if at_end else x + 3, y - 6, wide, 12)
            painter.fillRect(box, ground)
            painter.setPen(QColor(self.look.muted))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, short)
        if np.isnan(self._units[self._complete(), index]).any():
            painter.setPen(QColor(self.look.muted))
            painter.drawText(QRectF(x - 20, self._bottom - 14, 40, 12), Qt.AlignmentFlag.AlignCenter, tr("none"))

    def _room(self, index: int, widest: int, gap: float, at_end: bool) -> int:
        """Width available for labels, limited by the next axis unless it has equal categories."""
        axis, after = self.axes[index], self.axes[index + 1 : index + 2]
        if not axis.is_categorical and not at_end:
            return widest + 2
        shared = widest > gap - 8 and after and axis.like(after[0])
        return int(gap * (2 if shared else 0.5 if index >= len(self.axes) - 2 else 1)) - 8


def _paint_brushes(painter: QPainter, chart: ParallelChart, axis: Axis, x: float) -> None:
    """Draw brushes as boxes of whole pixels, which are cheap to redraw."""
    ground = QColor(chart.look.accent)
    ground.setAlpha(70)
    for low, high in axis.brushes:
        ends = chart.heights(low, high)
        top, tall = round(ends[1]), max(round(ends[0] - ends[1]), 2)
        painter.fillRect(round(x) - 5, top, 10, tall, ground)
        for y in (top, top + tall):
            painter.fillRect(round(x) - 5, y - 1, 10, 2, QColor(chart.look.accent))
