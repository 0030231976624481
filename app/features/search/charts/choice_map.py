"""Choices by trial as a map: a row per choice, a column per trial, coloured by bits or by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen
from typing_extensions import override

from espalier.app.features.search.charts.axes import Axis, axes_of
from espalier.app.features.search.charts.painted_chart import PaintedChart, elided
from espalier.app.features.search.charts.study_view import Option, figure_option
from espalier.app.figures.study.data import COMPLETE, Scale, Study
from espalier.app.figures.study.labels import bits_of, plain, title, value_words
from espalier.app.number_text import figure, plural
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import tint
from espalier.app.widgets.charts.chart_export import Table
from espalier.model.data.base import Array

TOP, FOOT, STRIP = 20, 20, 34  # height of the metric's strip above the map
SHOWN: dict[str, int] = {"best 30": 30, "best 200": 200, "all by goal": 0, "all in order": 0, "front": 0}
SHADES = 64
WORDS = 46  # pixels of a cell that fits its format's label
RIGHT = Qt.AlignmentFlag.AlignRight


class ChoiceMap(PaintedChart):
    """Cells by choice and trial, below a strip with the goal."""

    name: ClassVar[str] = "Choice map"
    fields: ClassVar[Mapping[str, str]] = {"trials": "which", "figure": "figure"}

    def __init__(self) -> None:
        self.which, self.figure = "best 30", ""
        self._brushed: Array | None = None  # trials selected by brushes
        self.axes: list[Axis] = []
        self.indices: Array = np.zeros(0, int)
        self._image: QImage | None = None
        self._shade: Array = np.zeros((0, 0))
        self._bits = (2.0, 32.0)
        super().__init__()

    @override
    def options(self) -> list[Option]:
        return [Option("trials", tuple(SHOWN), tuple(SHOWN)), figure_option("figure", self.study.names, "by ")]

    @override
    def show_study(self, study: Study) -> None:
        self._brushed = None
        if self.figure not in study.names:
            self.figure = study.names[0] if study.names else ""
        super().show_study(study)

    def dim(self, mask: Array | None) -> None:
        """Highlight these trials."""
        self._brushed = mask
        self.update()

    @override
    def empty(self) -> str:
        if len(self.study) and not len(self.study.params.names):
            return tr("The trials chose nothing.")
        if (text := self.none_complete()) or not len(self.study):
            return text
        return (
            ""
            if self._any()
            else tr("No trial meets the constraints yet, so there is neither a front nor a best trial.")
        )

    @override
    def legend(self) -> str:
        low, high = (tr("{} bits", figure(b)) for b in self._bits)
        scale = self.scale(tr("formats {}", low), high) if self._formats else self.scale("least", "most")
        many = plural(len(self.indices), "trial")
        return f'<span style="color:{self.look.muted}">{scale} &nbsp; {many}</span>'

    @property
    def _formats(self) -> bool:
        return any(a.scale and a.scale.choice.kind == "format" for a in self.axes)

    # -- content

    def _order(self) -> Array:
        """The shown trials, from left to right."""
        study = self.study
        if self.which == "all in order":
            return np.flatnonzero(study.state == COMPLETE)
        if self.which == "front":
            goals = [g.figure for g in study.goals]
            return study.front(goals)
        merit = study.merit(self.figure)
        best = np.argsort(-merit, kind="stable")
        best = best[np.isfinite(merit[best])]
        return best[: SHOWN[self.which] or None]

    def _any(self) -> bool:
        """Whether any trial is shown."""
        merit = self.study.feasible if self.which == "front" else np.isfinite(self.study.merit(self.figure))
        return self.which == "all in order" or bool(merit.any())

    @override
    def take(self, fresh: Sequence[int] | None) -> None:
        previous = self.indices, [a.scale and len(a.scale.values) for a in self.axes]
        self.axes = [a for a in axes_of(self.study) if a.scale is not None]
        for axis in self.axes:
            axis.fit(self.study)
        self.indices = self._order()
        sizes = [a.scale and len(a.scale.values) for a in self.axes]
        if fresh is not None and sizes == previous[1] and np.array_equal(self.indices, previous[0]):
            return
        self._sheet = None
        sampled = self._sampled()
        ends = _log_ends(self.axes)
        self._bits = 2 ** ends[0], 2 ** ends[1]
        columns = [_shades(a, self.study, sampled, ends) for a in self.axes]
        self._shade = np.stack(columns) if columns else np.zeros((0, len(sampled)))
        colours = (QColor(self.look.sequential(k / (SHADES - 1))).rgba() for k in range(SHADES))
        palette = np.array(list(colours), np.uint32)
        cells = palette[np.clip(np.nan_to_num(self._shade) * (SHADES - 1), 0, SHADES - 1).astype(int)]
        cells[np.isnan(self._shade)] = 0
        self._pixels = np.ascontiguousarray(cells)
        high, wide = self._pixels.shape
        self._image = QImage(self._pixels.data, wide, high, 4 * wide,
                             QImage.Format.Format_ARGB32_Premultiplied) if wide and high else None  # fmt: skip

    def _sampled(self) -> Array:
        """Evenly spaced trials if there are more than pixels."""
        room = max(int(self._box().width()), 1)
        if len(self.indices) <= room:
            return self.indices
        return self.indices[np.linspace(0, len(self.indices) - 1, room).astype(int)]

    # -- geometry

    def _box(self) -> QRectF:
        metrics = self.fontMetrics()
        widest = max((metrics.horizontalAdvance(a.text) for a in self.axes), default=80)
        left = min(widest + 16.0, self.width() * 0.36)
        top = TOP + STRIP
        return QRectF(left, top, max(self.width() - left - 10, 1), max(self.height() - top - FOOT, 1))

    @override
    def paint(self, painter: QPainter) -> None:
        box = self._box()
        self._paint_strip(painter, box)
        self._paint_names(painter, box)
        if self._image is not None:
            painter.drawImage(box, self._image)
        self._paint_cells(painter, box)
        painter.setPen(QColor(self.look.muted))
        order = (
            tr("trials in order") if self.which == "all in order" else tr("trials, best {} first", title(self.figure))
        )
        order = tr("trials of the front, by the first goal") if self.which == "front" else order
        elided(painter, QRectF(box.left(), box.bottom() + 3, box.width(), 16), order)

    @override
    def marks(self, painter: QPainter) -> None:
        box = self._box()
        self._paint_veil(painter, box)
        painter.setPen(QPen(QColor(self.look.text), 1.4))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for index in (self.pick, self.under):
            columns = np.flatnonzero(self.indices == index) if index is not None else []
            for column in columns:
                wide = box.width() / len(self.indices)
                painter.drawRect(QRectF(box.left() + column * wide, TOP, max(wide, 2), STRIP + box.height()))

    def _paint_veil(self, painter: QPainter, box: QRectF) -> None:
        """Fade the columns of trials outside the brushes."""
        sampled = self._sampled()
        if self._brushed is None or not len(sampled):
            return
        wide, veil = box.width() / len(sampled), tint(self.look.panel, 200)
        there = np.zeros(len(self.study), bool)  # newer trials are outside
        there[: len(self._brushed)] = self._brushed[: len(there)]
        for column in np.flatnonzero(~there[sampled]).tolist():
            painter.fillRect(QRectF(box.left() + column * wide, TOP, wide, STRIP + box.height()), veil)

    def _paint_names(self, painter: QPainter, box: QRectF) -> None:
        """Names of rows, as many as are legible."""
        tall = box.height() / max(len(self.axes), 1)
        every = max(int(np.ceil(13 / tall)), 1)
        painter.setPen(QColor(self.look.text))
        for row in range(0, len(self.axes), every):
            line = QRectF(4, box.top() + row * tall, box.left() - 12, max(tall, 13))
            elided(painter, line, self.axes[row].text, RIGHT, Qt.TextElideMode.ElideLeft)

    def _paint_strip(self, painter: QPainter, box: QRectF) -> None:
        """The metric of each trial as a bar."""
        sampled = self._sampled()
        values = self.study.figures[self.figure][sampled]
        there = values[np.isfinite(values)]
        if not len(there):
            return
        low, high = float(there.min()), float(there.max())
        low -= 0.15 * ((high - low) or 1.0)
        painter.setPen(QColor(self.look.muted))
        elided(painter, QRectF(4, TOP, box.left() - 12, STRIP - 4), title(self.figure), RIGHT)
        ends = f"{value_words(self.figure, values[0])} … {value_words(self.figure, values[-1])}"
        elided(painter, QRectF(box.left(), 2, box.width(), TOP - 4), ends)
        wide = box.width() / len(sampled)
        part = (np.nan_to_num(values, nan=low) - low) / ((high - low) or 1.0)
        colour = QColor(self.look.bar)
        gap = 1.0 if wide > 4 else 0.0
        for k, height in enumerate(part.tolist()):
            tall = (STRIP - 4) * height
            painter.fillRect(QRectF(box.left() + k * wide, TOP + STRIP - 4 - tall, wide - gap, tall), colour)

    def _paint_cells(self, painter: QPainter, box: QRectF) -> None:
        """Lines between cells and their formats, if there is room."""
        rows, wide = len(self.axes), box.width() / max(len(self.indices), 1)
        tall = box.height() / max(rows, 1)
        painter.setPen(QPen(QColor(self.look.panel), 1))
        for row in range(1, rows if tall > 6 else 0):
            y = box.top() + row * tall
            painter.drawLine(QPointF(box.left(), y), QPointF(box.right(), y))
        for column in range(1, len(self.indices) if wide > 6 else 0):
            x = box.left() + column * wide
            painter.drawLine(QPointF(x, box.top()), QPointF(x, box.bottom()))
        if wide < WORDS or tall < 13:
            return
        for row, axis in enumerate(self.axes):
            for column in range(len(self.indices)):
                cell = QRectF(box.left() + column * wide, box.top() + row * tall, wide, tall)
                shade = float(self._shade[row, column])
                painter.setPen(QColor("#1C2127" if shade > 0.55 else "#FFFFFF"))
                if shade == shade:
                    middle = Qt.AlignmentFlag.AlignHCenter
                    elided(painter, cell.adjusted(2, 0, -2, 0), self._chosen(axis, int(self.indices[column])), middle)

    def _chosen(self, axis: Axis, index: int) -> str:
        value = self.study.trials[index].params.get(axis.name)
        scale: Scale | None = axis.scale
        if scale and not scale.numeric:
            return plain(value, scale.choice.fit)
        return figure(value) if value is not None else tr("none")

    # -- pointing

    def cell_at(self, at: QPointF) -> tuple[int, int] | None:
        """Row and column under the pointer."""
        box = self._box()
        inside = QRectF(box.left(), TOP, box.width(), STRIP + box.height()).contains(at)
        if not inside or not len(self.indices) or not self.axes:
            return None
        row = int((at.y() - box.top()) / box.height() * len(self.axes)) if at.y() >= box.top() else -1
        column = int((at.x() - box.left()) / box.width() * len(self.indices))
        return min(row, len(self.axes) - 1), min(column, len(self.indices) - 1)

    def _name_at(self, at: QPointF) -> str:
        """The full name of the choice whose label is at a position."""
        box = self._box()
        row = int((at.y() - box.top()) / box.height() * max(len(self.axes), 1)) if at.y() >= box.top() else -1
        return self.axes[row].name if at.x() < box.left() and 0 <= row < len(self.axes) else ""

    @override
    def near(self, at: QPointF) -> int | None:
        cell = self.cell_at(at)
        return int(self.indices[cell[1]]) if cell else None

    @override
    def hover_text(self, at: QPointF) -> str:
        cell = self.cell_at(at)
        if cell is None:
            return self._name_at(at)
        index = int(self.indices[cell[1]])
        axis = self.axes[cell[0]] if cell[0] >= 0 else None
        return (f"{axis.name}: {self._chosen(axis, index)}\n" if axis else "") + self.hover_text_at(index)

    def table(self) -> Table:
        """A row per choice, a column per trial."""
        head = ("choice", *(f"trial {self.study.trials[p].number}" for p in self.indices))
        return head, [(a.name, *(self._chosen(a, int(p)) for p in self.indices)) for a in self.axes]


def _shades(axis: Axis, study: Study, indices: Array, ends: tuple[float, float]) -> Array:
    """Shade in 0 … 1 of each trial: the logarithm of a format's bits, else the position on the axis."""
    assert axis.scale is not None
    values = axis.values(study)[indices]
    if axis.scale.choice.kind != "format":
        return axis.part(values)
    bits = np.array([_log_bits(v) for v in axis.scale.values])
    low, high = ends
    shade = (bits - low) / ((high - low) or 1.0)
    return np.where(np.isnan(values), np.nan, shade[np.nan_to_num(values).astype(int)])


def _log_ends(axes: Sequence[Axis]) -> tuple[float, float]:
    """Logarithms of the smallest and largest bits of the study's formats."""
    scales = [a.scale for a in axes if a.scale and a.scale.choice.kind == "format"]
    logs = [_log_bits(v) for s in scales for v in s.values]
    return min(logs, default=1.0), max(logs, default=5.0)


def _log_bits(value: Any) -> float:
    return float(np.log2(max(bits_of(value) or 1.0, 1.0)))
