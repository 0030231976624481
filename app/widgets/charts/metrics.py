"""Figures of a running job over its steps: loss, accuracy, learning rate, one chart for each quantity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QMouseEvent, QPaintDevice, QPainter, QResizeEvent, QTextDocument
from PySide6.QtWidgets import QApplication, QToolTip, QWidget

from espalier.app.theme import CATEGORIES, LIGHT, PLOT_WIDTH, SECONDARY, Palette
from espalier.app.widgets.charts.chart import Chart, pen, tint
from espalier.app.widgets.charts.picture import Table
from espalier.app.widgets.paper import write_picture, write_rows
from espalier.app.words import cell, count, metric, noise_words, percents
from espalier.passes.figure import Figure, wilson

Series = Sequence[tuple[int, float]]
COLOURS = tuple(CATEGORIES[k] for k in ("linear", "activation", "matmul", "norm"))
LIGHTER = 135  # per cent, for lines on a dark ground
TITLE_HEIGHT = 18.0
LEFT = 44  # of the labels of the values
MARGIN = 16  # right of the last step, for half of its label
BETWEEN = 36, 70  # pixels between two labels, of the left axis and the bottom one
SIDE = 0.02  # of the steps, free on both sides for the markers of the first and the last
PICTURE = QSize(520, 300)  # of one chart in an exported picture
FAINT = 120  # opacity of another run's lines, of 255
BAND = 40  # opacity of a band of noise, of 255
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
        self.last = 1
        self.samples = 0
        self._bands: dict[str, tuple[pg.PlotCurveItem, pg.PlotCurveItem]] = {}
        self._lines: dict[str, pg.PlotDataItem] = {}
        self._faint: dict[str, pg.PlotDataItem] = {}
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setAccessibleName(f"{what} by step")

    def sizeHint(self) -> QSize:
        return QSize(300, 130)

    def show_series(
        self,
        series: Mapping[str, Series],
        others: Mapping[str, Series] | None = None,
        beside: str = "",
        last: int = 1,
        samples: int = 0,
    ) -> None:
        """Draw these series by name, (step, value) in order; lines that are there already only grow.

        `others` are those of another run, called `beside`: drawn faint and dashed under them. `last` is the step up to
        which the charts beside this one go; `samples`: on how many an accuracy is measured, 0 where that is not known.
        """
        self.series = {name: list(series[name]) for name in sorted(series)}
        self.others = {n: list(p) for n, p in (others or {}).items() if n in self.series}
        self.beside = beside
        self.last = max(last, last_step([*self.series.values(), *self.others.values()]))
        known, self.samples = bool(self.samples), samples if self.what == "accuracy" else 0
        same = self.series.keys() == self._lines.keys() and self.others.keys() == self._faint.keys()
        if same and known == bool(self.samples):
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
        left.setWidth(LEFT)
        left.setStyle(hideOverlappingLabels=MARGIN)
        left.tickStrings = self._tick_words
        left.tickSpacing = lambda low, high, size: [(spacing(high - low, size / BETWEEN[0]), 0)]
        self._head()
        self.plot.layout.setContentsMargins(0, 0, MARGIN, 0)
        self.plot.layout.setRowFixedHeight(0, TITLE_HEIGHT)
        bottom = self.plot.getAxis("bottom")
        bottom.setStyle(hideOverlappingLabels=MARGIN)
        bottom.tickStrings = whole_words
        bottom.tickSpacing = lambda low, high, size: [(max(spacing(high - low, size / BETWEEN[1]), 1.0), 0)]
        self.plot.clear()
        self._lines, self._faint, self._bands = {}, {}, {}
        for place, name in enumerate(self.series):
            if self.samples:
                self._bands[name] = low, high = pg.PlotCurveItem(pen=None), pg.PlotCurveItem(pen=None)
                for item in (low, high, pg.FillBetweenItem(low, high, brush=tint(self.colour(place, palette), BAND))):
                    self.plot.addItem(item)
            if name in self.others:
                faint = pen(self.colour(place, palette), PLOT_WIDTH, FAINT)
                faint.setStyle(Qt.PenStyle.DashLine)
                self._faint[name] = self.plot.plot(pen=faint, connect="finite")
            self._lines[name] = self.plot.plot(pen=pen(self.colour(place, palette)), connect="finite")
        for line in (*self._lines.values(), *self._faint.values()):
            line.setDownsampling(auto=True, method="peak")  # of thousands of steps, the highest and lowest of a pixel
        self._fill()

    def colour(self, place: int, palette: Palette) -> str:
        """The colour of the series at a place, light enough for the ground."""
        plain = COLOURS[place % len(COLOURS)]
        return QColor(plain).lighter(LIGHTER).name() if palette.dark else plain

    def _head(self) -> None:
        """The longest title that there is room for."""
        font = QFont(self.font())
        font.setPixelSize(round(SECONDARY + 0.5))
        measured = QTextDocument()
        measured.setDefaultFont(font)
        measured.setDocumentMargin(0)
        for words in self._titles():
            title = " &nbsp; ".join(words)
            measured.setHtml(title)
            if measured.idealWidth() <= self.width() - LEFT:
                break
        self.plot.setTitle(title, justify="left", color=self.look.text, size=f"{SECONDARY + 0.5}px")
        self.plot.titleLabel.setMinimumWidth(0)  # a title must not widen the plot beyond what is seen
        self.plot.titleLabel.setMaximumWidth(1)

    def _titles(self) -> Iterator[list[str]]:
        """The words of the title, from all of them to the fewest."""
        what = f"<b>{escape(self.what[:1].upper() + self.what[1:])}</b>"
        names = [name.removesuffix(self.what).strip() for name in self.series]
        values = [metric(n, points[-1][1]) if points else "" for n, points in self.series.items()]
        full = self._inked([f"{n} {v}".strip() for n, v in zip(names, values, strict=True)])
        dashed = f"dashed: {escape(self.beside)}" if self.others else "by optimiser step"
        dashed += f" &nbsp; ▒ 95 % of n = {count(self.samples)}" if self.samples else ""
        yield [what, *full, f'<span style="color:{self.look.muted}">{dashed}</span>']
        yield [what, *full]
        yield [what, *self._inked(values)]
        yield [what]

    def _inked(self, words: Sequence[str]) -> list[str]:
        """Words about the series, each in the colour of its line."""
        return [
            f'<span style="color:{self.colour(k, self.look)}">{escape(word)}</span>' for k, word in enumerate(words)
        ]

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        if "plot" in vars(self) and not self.closed:  # it is resized while it is made and while it goes, too
            self._head()

    def _fill(self) -> None:
        self._head()
        for place, (name, line) in enumerate(self._lines.items()):
            steps, values = np.array(self.series[name], float).reshape(-1, 2).T
            few = len(steps) <= MARKED
            colour = self.colour(place, self.look)
            line.setData(steps, values, symbol="o" if few else None, symbolSize=5,
                         symbolBrush=colour, symbolPen=None)  # fmt: skip
            for end, ends in zip(self._bands.get(name, ()), self._noise(values), strict=False):
                end.setData(steps, ends)
        for name, line in self._faint.items():
            steps, values = np.array(self.others[name], float).reshape(-1, 2).T
            line.setData(steps, values)
        self._bound()

    def _noise(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ends of Wilson's 95 % intervals of accuracies."""
        low, high = np.array([wilson(float(s), self.samples) for s in shares]).reshape(-1, 2).T
        return low, high

    def _bound(self) -> None:
        """All steps of the run; no room below zero where no figure is, none above 100 % of an accuracy."""
        points = [p for series in (*self.series.values(), *self.others.values()) for p in series]
        low = 0.0 if all(value >= 0 for _, value in points) else None
        high = 1.005 if self.what == "accuracy" else None
        box = self.plot.getViewBox()
        box.setLimits(yMin=low, yMax=high)
        box.setXRange(-SIDE * self.last, (1 + SIDE) * self.last, padding=0)
        box.prepareForPaint()  # the range of the figures: found while it paints, it would be painted again

    def _tick_words(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        if self.what == "accuracy":
            return percents(values, spacing)
        words = [cell(float(f"{v:.4g}")) for v in values]
        return words if len(set(words)) == len(words) else [precisely(v, spacing) for v in values]

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
                lines += [noise_words(Figure(value, self.samples))] if self.samples else []
        return "\n".join(lines)

    def table(self) -> Table:
        """One row a step, one column a series."""
        return table(self.series)


def whole_words(values: Sequence[float], scale: float, spacing: float) -> list[str]:
    """Whole numbers only: there is no step between two, and none before the first."""
    return [count(round(v)) if v >= 0 and float(v).is_integer() else "" for v in values]


def precisely(value: float, spacing: float) -> str:
    """With as many digits as tell it from its neighbours at `spacing`."""
    digits = math.ceil(math.log10(abs(value) / spacing)) + 1 if value and spacing > 0 else 1
    return f"{value:.{max(digits, 1)}g}".replace("e-0", "e−").replace("e-", "e−").replace("-", "−")


def last_step(series: Iterable[Series]) -> int:
    """The last step of any of these; 1 where there is none, so that an axis has a length."""
    return max((step for points in series for step, _ in points), default=0) or 1


def spacing(span: float, room: float) -> float:
    """1, 2 or 5 times a power of ten: about as many labels on an axis as there is `room` for, but two at least."""
    if not (span > 0 and math.isfinite(span)):
        return 1.0
    wish = span / max(room, 1.0)
    low = 10.0 ** math.floor(math.log10(min(wish, span / 2)))
    steps = [k * low for k in (1, 2, 5, 10, 20, 50, 100)]
    fitting = [s for s in steps if s <= span / 2]
    return next((s for s in fitting if s >= wish), fitting[-1])


def table(series: Mapping[str, Series]) -> Table:
    """Series as one table: a row for each step at which any has a value."""
    found = {name: dict(points) for name, points in series.items()}
    steps = sorted({step for points in found.values() for step in points})
    return ("step", *found), [[s, *(points.get(s, "") for points in found.values())] for s in steps]


def export(charts: Sequence[MetricChart], path: Path) -> None:
    """Write charts side by side to a .png (twice their size in pixels), .svg or .csv file; raises FileError."""
    if path.suffix == ".csv":
        names, rows = table({n: p for c in charts for n, p in c.series.items()})
        write_rows(path, [names, *rows])
        return
    drawn = [_large(c) for c in charts]
    size = QSize(PICTURE.width() * len(drawn), PICTURE.height())
    write_picture(path, size, lambda device: _paint(drawn, device, size))


def _large(chart: MetricChart) -> MetricChart:
    """The same chart in the size of a picture, whatever room there is on the screen."""
    made = MetricChart(chart.what)
    made.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen)
    made.resize(PICTURE)
    made.show()
    made.set_theme(LIGHT)
    made.show_series(chart.series, chart.others, chart.beside, chart.last, chart.samples)
    QApplication.sendPostedEvents()
    return made


def _paint(charts: Sequence[MetricChart], device: QPaintDevice, size: QSize) -> None:
    painter = QPainter(device)
    painter.fillRect(QRect(0, 0, size.width(), size.height()), QColor(LIGHT.panel))
    for place, chart in enumerate(charts):
        chart.render(painter, QRectF(place * PICTURE.width(), 0, PICTURE.width(), PICTURE.height()), chart.rect())
        chart.close()
        chart.deleteLater()
    painter.end()
