"""Figures of a running job over its steps: loss, accuracy, learning rate, one chart for each quantity."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QMouseEvent, QPaintDevice, QPainter, QPixmap
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QApplication, QToolTip, QWidget

from app.plots.chart import Chart, Table, pen
from app.theme import CATEGORIES, PLOT_WIDTH, SECONDARY, Palette
from app.words import cell, count, metric, percent

Series = Sequence[tuple[int, float]]
COLOURS = tuple(CATEGORIES[k] for k in ("linear", "activation", "matmul", "norm"))
LIGHTER = 135  # per cent, for lines on a dark ground
TITLE_HEIGHT = 18.0
PICTURE = QSize(520, 300)  # of one chart in an exported picture
FAINT = 120  # opacity of another run's lines, of 255
MARKED = 40  # points up to which each has a marker
SHARES = ("loss", "accuracy")  # quantities whose series share a chart


def quantity(name: str) -> str:
    """What a series measures: `training loss` and `validation loss` are both a loss."""
    return next((q for q in SHARES if name.endswith(q)), name)


def quantities(names: Sequence[str]) -> list[str]:
    """The charts that these series need: losses first, then accuracies, then the others."""
    found = dict.fromkeys(quantity(n) for n in names)
    return sorted(found, key=lambda q: SHARES.index(q) if q in SHARES else len(SHARES))


class MetricChart(Chart):
    """The series of one quantity over optimiser steps."""

    def __init__(self, what: str, parent: QWidget | None = None) -> None:
        self.what = what
        self.series: dict[str, Series] = {}
        self.others: dict[str, Series] = {}
        self.beside = ""
        self._lines: dict[str, pg.PlotDataItem] = {}
        self._faint: dict[str, pg.PlotDataItem] = {}
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setAccessibleName(f"{what} by step")

    def sizeHint(self) -> QSize:
        return QSize(300, 130)

    def show_series(
        self, series: Mapping[str, Series], others: Mapping[str, Series] | None = None, beside: str = ""
    ) -> None:
        """Draw these series by name, (step, value) in order; lines that are there already only grow.

        `others` are those of another run, called `beside`: drawn faint and dashed under them.
        """
        self.series = {name: list(series[name]) for name in sorted(series)}
        self.others = {n: list(p) for n, p in (others or {}).items() if n in self.series}
        self.beside = beside
        if self.series.keys() == self._lines.keys() and self.others.keys() == self._faint.keys():
            self._fill()
        else:
            self.draw(self.look)

    def draw(self, palette: Palette) -> None:
        """Title with the legend in words, grid lines across, and the lines."""
        left = self.plot.getAxis("left")
        left.setStyle(tickAlpha=255, maxTickLevel=0)
        left.enableAutoSIPrefix(False)
        left.setTickPen(pen(palette.line, 1.0))
        left.setGrid(255)
        left.setWidth(44)
        left.tickStrings = self._tick_words
        self.plot.setTitle(self._title(palette), justify="left", color=palette.text, size=f"{SECONDARY + 0.5}px")
        self.plot.layout.setRowFixedHeight(0, TITLE_HEIGHT)
        self.plot.getAxis("bottom").tickStrings = whole_words
        self.plot.clear()
        self._lines, self._faint = {}, {}
        for place, name in enumerate(self.series):
            if name in self.others:
                faint = pen(self.colour(place, palette), PLOT_WIDTH, FAINT)
                faint.setStyle(Qt.PenStyle.DashLine)
                self._faint[name] = self.plot.plot(pen=faint, connect="finite")
            self._lines[name] = self.plot.plot(pen=pen(self.colour(place, palette)), connect="finite")
        self._fill()

    def colour(self, place: int, palette: Palette) -> str:
        """The colour of the series at a place, light enough for the ground."""
        plain = COLOURS[place % len(COLOURS)]
        return QColor(plain).lighter(LIGHTER).name() if palette.dark else plain

    def _title(self, palette: Palette) -> str:
        words = [f"<b>{self.what[:1].upper() + self.what[1:]}</b>"]
        for place, name in enumerate(self.series):
            short = name.removesuffix(self.what).strip()
            last = f"{short} {metric(name, self.series[name][-1][1])}" if self.series[name] else short
            words.append(f'<span style="color:{self.colour(place, palette)}">{last.strip()}</span>')
        dashed = f"dashed: {self.beside}" if self.others else "by optimiser step"
        return " &nbsp; ".join([*words, f'<span style="color:{palette.muted}">{dashed}</span>'])

    def _fill(self) -> None:
        self.plot.setTitle(self._title(self.look), justify="left", color=self.look.text, size=f"{SECONDARY + 0.5}px")
        for place, (name, line) in enumerate(self._lines.items()):
            steps, values = np.array(self.series[name], float).reshape(-1, 2).T
            few = len(steps) <= MARKED
            colour = self.colour(place, self.look)
            line.setData(steps, values, symbol="o" if few else None, symbolSize=5,
                         symbolBrush=colour, symbolPen=None)  # fmt: skip
        for name, line in self._faint.items():
            steps, values = np.array(self.others[name], float).reshape(-1, 2).T
            line.setData(steps, values)
        self._bound()

    def _bound(self) -> None:
        """No room below zero where no figure is, none above 100 % of an accuracy, none before the first step."""
        points = [p for series in (*self.series.values(), *self.others.values()) for p in series]
        low = 0.0 if all(value >= 0 for _, value in points) else None
        high = 1.005 if self.what == "accuracy" else None
        self.plot.getViewBox().setLimits(xMin=0.0, yMin=low, yMax=high)

    def _tick_words(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        if self.what == "accuracy":
            return [percent(v, 0 if spacing >= 0.01 else 1) for v in values]
        return [cell(float(f"{v:.4g}")) for v in values]

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        x = self.plot.vb.mapSceneToView(QPointF(self.mapToScene(event.pos()))).x()
        QToolTip.showText(event.globalPosition().toPoint(), self.words_at(x), self)

    def words_at(self, x: float) -> str:
        """The figures nearest to step `x`, for the hover."""
        lines = []
        for name, points in self.series.items():
            if points:
                step, value = min(points, key=lambda p: abs(p[0] - x))
                other = min(self.others.get(name, ()), key=lambda p: abs(p[0] - step), default=None)
                told = f" · {self.beside}: {metric(name, other[1])}" if other else ""
                lines.append(f"{name} {metric(name, value)} at step {count(step)}{told}")
        return "\n".join(lines)

    def table(self) -> Table:
        """One row a step, one column a series."""
        return table(self.series)


def whole_words(values: Sequence[float], scale: float, spacing: float) -> list[str]:
    """Whole numbers only: there is no step between two."""
    return [count(round(v)) if float(v).is_integer() else "" for v in values]


def table(series: Mapping[str, Series]) -> Table:
    """Series as one table: a row for each step at which any has a value."""
    found = {name: dict(points) for name, points in series.items()}
    steps = sorted({step for points in found.values() for step in points})
    return ("step", *found), [[s, *(points.get(s, "") for points in found.values())] for s in steps]


def export(charts: Sequence[MetricChart], path: Path) -> None:
    """Write charts side by side to a .png (twice their size in pixels), .svg or .csv file; raises OSError."""
    if path.suffix == ".csv":
        names, rows = table({n: p for c in charts for n, p in c.series.items()})
        with path.open("w", newline="", encoding="utf-8") as handle:
            csv.writer(handle).writerows([names, *rows])
        return
    drawn = [_large(c) for c in charts]
    size = QSize(PICTURE.width() * len(drawn), PICTURE.height())
    path.touch()  # Qt does not tell why it cannot write
    if path.suffix == ".svg":
        made = QSvgGenerator()
        made.setFileName(str(path))
        made.setSize(size)
        made.setViewBox(QRect(0, 0, size.width(), size.height()))
        _paint(drawn, made, size)
    else:
        picture = QPixmap(size * 2)
        picture.setDevicePixelRatio(2)
        _paint(drawn, picture, size)
        picture.save(str(path))


def _large(chart: MetricChart) -> MetricChart:
    """The same chart in the size of a picture, whatever room there is on the screen."""
    made = MetricChart(chart.what)
    made.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen)
    made.resize(PICTURE)
    made.show()
    made.set_theme(chart.look)
    made.show_series(chart.series, chart.others, chart.beside)
    QApplication.sendPostedEvents()
    return made


def _paint(charts: Sequence[MetricChart], device: QPaintDevice, size: QSize) -> None:
    painter = QPainter(device)
    painter.fillRect(QRect(0, 0, size.width(), size.height()), QColor(charts[0].look.panel))
    for place, chart in enumerate(charts):
        chart.render(painter, QRectF(place * PICTURE.width(), 0, PICTURE.width(), PICTURE.height()), chart.rect())
        chart.close()
        chart.deleteLater()
    painter.end()
