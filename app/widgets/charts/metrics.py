"""Charts of the metrics of a running job by step: loss, accuracy and others, one chart per quantity."""

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

from espalier.app.number_text import cell, count, metric, noise_text, percents
from espalier.app.theme import CATEGORIES, LIGHT, PLOT_WIDTH, SECONDARY, Palette
from espalier.app.widgets.charts.chart import Chart, lighter, pen, tint
from espalier.app.widgets.charts.chart_export import Table
from espalier.app.widgets.file_export import write_picture, write_rows
from espalier.passes.figure import Figure, wilson

Series = Sequence[tuple[int, float]]
COLOURS = tuple(CATEGORIES[k] for k in ("linear", "activation", "matmul", "norm"))
TITLE_HEIGHT = 18.0
LEFT = 44  # pixels of the labels of the vertical axis
MARGIN = 16  # pixels right of the last step, for half of its label
LABEL_DISTANCE = 36, 70  # pixels between two labels of the left and of the bottom axis
PADDING = 0.02  # share of the steps left free on both sides, for the first and last marker
EXPORT_SIZE = QSize(520, 300)  # of one chart in an exported picture
FAINT = 120  # opacity of another run's lines, of 255
BAND = 40  # opacity of a band of noise, of 255
MAX_MARKERS = 40  # longer series are drawn without markers
QUANTITIES = ("loss", "accuracy")  # quantities whose series share a chart


def quantity(name: str) -> str:
    """The quantity of a series: that of `training loss` and `validation loss` is loss."""
    return next((q for q in QUANTITIES if name.endswith(q)), name)


def quantities(names: Sequence[str]) -> list[str]:
    """The quantities of these series, each a chart: loss, accuracy, then the others."""
    needed = dict.fromkeys(quantity(n) for n in names)
    return sorted(needed, key=lambda q: QUANTITIES.index(q) if q in QUANTITIES else len(QUANTITIES))


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
        """Draw series of (step, value) by name; existing lines are only extended.

        `others`: series of another run named `beside`, drawn faint and dashed. `last`: the last step of the charts
        beside this one. `samples`: on which an accuracy is measured, 0 if unknown.
        """
        self.series = {name: list(series[name]) for name in sorted(series)}
        self.others = {n: list(p) for n, p in (others or {}).items() if n in self.series}
        self.beside = beside
        self.last = max(last, last_step([*self.series.values(), *self.others.values()]))
        had_samples, self.samples = bool(self.samples), samples if self.what == "accuracy" else 0
        same = self.series.keys() == self._lines.keys() and self.others.keys() == self._faint.keys()
        if same and had_samples == bool(self.samples):
            self._fill()
        else:
            self.draw(self.look)

    def draw(self, palette: Palette) -> None:
        """Set up the title with its legend, the axes and the lines."""
        left = self.plot.getAxis("left")
        left.setStyle(tickAlpha=255, maxTickLevel=0)
        left.enableAutoSIPrefix(False)
        left.setTickPen(pen(palette.line, 1.0))
        left.setGrid(255)
        left.setWidth(LEFT)
        left.setStyle(hideOverlappingLabels=MARGIN)
        left.tickStrings = self._tick_labels
        left.tickSpacing = lambda low, high, size: [(spacing(high - low, size / LABEL_DISTANCE[0]), 0)]
        self._set_title()
        self.plot.layout.setContentsMargins(0, 0, MARGIN, 0)
        self.plot.layout.setRowFixedHeight(0, TITLE_HEIGHT)
        bottom = self.plot.getAxis("bottom")
        bottom.setStyle(hideOverlappingLabels=MARGIN)
        bottom.tickStrings = step_labels
        bottom.tickSpacing = lambda low, high, size: [(max(spacing(high - low, size / LABEL_DISTANCE[1]), 1.0), 0)]
        self.plot.clear()
        self._lines, self._faint, self._bands = {}, {}, {}
        for index, name in enumerate(self.series):
            if self.samples:
                self._bands[name] = low, high = pg.PlotCurveItem(pen=None), pg.PlotCurveItem(pen=None)
                for item in (low, high, pg.FillBetweenItem(low, high, brush=tint(self.colour(index, palette), BAND))):
                    self.plot.addItem(item)
            if name in self.others:
                faint = pen(self.colour(index, palette), PLOT_WIDTH, FAINT)
                faint.setStyle(Qt.PenStyle.DashLine)
                self._faint[name] = self.plot.plot(pen=faint, connect="finite")
            self._lines[name] = self.plot.plot(pen=pen(self.colour(index, palette)), connect="finite")
        for line in (*self._lines.values(), *self._faint.values()):
            line.setDownsampling(auto=True, method="peak")  # draws the minimum and maximum of each pixel
        self._fill()

    def colour(self, index: int, palette: Palette) -> str:
        """The colour of the series of this index."""
        return lighter(COLOURS[index % len(COLOURS)], palette)

    def _set_title(self) -> None:
        """Set the longest title that fits."""
        font = QFont(self.font())
        font.setPixelSize(round(SECONDARY + 0.5))
        document = QTextDocument()
        document.setDefaultFont(font)
        document.setDocumentMargin(0)
        for parts in self._titles():
            title = " &nbsp; ".join(parts)
            document.setHtml(title)
            if document.idealWidth() <= self.width() - LEFT:
                break
        self.plot.setTitle(title, justify="left", color=self.look.text, size=f"{SECONDARY + 0.5}px")
        self.plot.titleLabel.setMinimumWidth(0)  # a title must not widen the plot
        self.plot.titleLabel.setMaximumWidth(1)

    def _titles(self) -> Iterator[list[str]]:
        """The parts of the title, from the longest version to the shortest."""
        what = f"<b>{escape(self.what[:1].upper() + self.what[1:])}</b>"
        names = [name.removesuffix(self.what).strip() for name in self.series]
        values = [metric(n, points[-1][1]) if points else "" for n, points in self.series.items()]
        full = self._coloured([f"{n} {v}".strip() for n, v in zip(names, values, strict=True)])
        dashed = f"dashed: {escape(self.beside)}" if self.others else "by optimiser step"
        dashed += f" &nbsp; ▒ 95 % of n = {count(self.samples)}" if self.samples else ""
        yield [what, *full, f'<span style="color:{self.look.muted}">{dashed}</span>']
        yield [what, *full]
        yield [what, *self._coloured(values)]
        yield [what]

    def _coloured(self, texts: Sequence[str]) -> list[str]:
        """Texts about the series as HTML, each in the colour of its line."""
        return [
            f'<span style="color:{self.colour(k, self.look)}">{escape(text)}</span>' for k, text in enumerate(texts)
        ]

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        if "plot" in vars(self) and not self.closed:  # also called during construction and destruction
            self._set_title()

    def _fill(self) -> None:
        self._set_title()
        for index, (name, line) in enumerate(self._lines.items()):
            steps, values = np.array(self.series[name], float).reshape(-1, 2).T
            markers = len(steps) <= MAX_MARKERS
            colour = self.colour(index, self.look)
            line.setData(steps, values, symbol="o" if markers else None, symbolSize=5,
                         symbolBrush=colour, symbolPen=None)  # fmt: skip
            for curve, ends in zip(self._bands.get(name, ()), self._noise(values), strict=False):
                curve.setData(steps, ends)
        for name, line in self._faint.items():
            steps, values = np.array(self.others[name], float).reshape(-1, 2).T
            line.setData(steps, values)
        self._set_range()

    def _noise(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ends of the Wilson 95 % intervals of accuracies."""
        low, high = np.array([wilson(float(s), self.samples) for s in shares]).reshape(-1, 2).T
        return low, high

    def _set_range(self) -> None:
        """Show all steps; no range below zero without negative values, none above 100 % for an accuracy."""
        points = [p for series in (*self.series.values(), *self.others.values()) for p in series]
        low = 0.0 if all(value >= 0 for _, value in points) else None
        high = 1.005 if self.what == "accuracy" else None
        box = self.plot.getViewBox()
        box.setLimits(yMin=low, yMax=high)
        box.setXRange(-PADDING * self.last, (1 + PADDING) * self.last, padding=0)
        box.prepareForPaint()  # computes the range now; while painting, it would paint twice

    def _tick_labels(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        if self.what == "accuracy":
            return percents(values, spacing)
        labels = [cell(float(f"{v:.4g}")) for v in values]
        return labels if len(set(labels)) == len(labels) else [precisely(v, spacing) for v in values]

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        x = self.plot.vb.mapSceneToView(QPointF(self.mapToScene(event.pos()))).x()
        QToolTip.showText(event.globalPosition().toPoint(), self.hover_text_at(x), self)

    def hover_text_at(self, x: float) -> str:
        """The values nearest to step `x`, for the tool tip."""
        lines = []
        for name, points in self.series.items():
            if points:
                step, value = min(points, key=lambda p: abs(p[0] - x))
                other = min(self.others.get(name, ()), key=lambda p: abs(p[0] - step), default=None)
                compared = f" · {self.beside}: {metric(name, other[1])}" if other else ""
                lines.append(f"{name} {metric(name, value)} at step {count(step)}{compared}")
                lines += [noise_text(Figure(value, self.samples))] if self.samples else []
        return "\n".join(lines)

    def table(self) -> Table:
        """One row per step, one column per series."""
        return table(self.series)


def step_labels(values: Sequence[float], scale: float, spacing: float) -> list[str]:
    """Tick labels of whole, non-negative steps; empty for other values."""
    return [count(round(v)) if v >= 0 and float(v).is_integer() else "" for v in values]


def precisely(value: float, spacing: float) -> str:
    """The value with enough digits to distinguish it from its neighbours at `spacing`."""
    digits = math.ceil(math.log10(abs(value) / spacing)) + 1 if value and spacing > 0 else 1
    return f"{value:.{max(digits, 1)}g}".replace("e-0", "e−").replace("e-", "e−").replace("-", "−")


def last_step(series: Iterable[Series]) -> int:
    """The last step of all series; 1 if there is none, so that the axis has a length."""
    return max((step for points in series for step, _ in points), default=0) or 1


def spacing(span: float, labels: float) -> float:
    """The distance of ticks, 1, 2 or 5 times a power of ten: about `labels` ticks in `span`, at least two."""
    if not (span > 0 and math.isfinite(span)):
        return 1.0
    wanted = span / max(labels, 1.0)
    low = 10.0 ** math.floor(math.log10(min(wanted, span / 2)))
    steps = [k * low for k in (1, 2, 5, 10, 20, 50, 100)]
    fitting = [s for s in steps if s <= span / 2]
    return next((s for s in fitting if s >= wanted), fitting[-1])


def table(series: Mapping[str, Series]) -> Table:
    """Series as one table, with a row for each step at which any has a value."""
    values = {name: dict(points) for name, points in series.items()}
    steps = sorted({step for points in values.values() for step in points})
    return ("step", *values), [[s, *(points.get(s, "") for points in values.values())] for s in steps]


def export(charts: Sequence[MetricChart], path: Path) -> None:
    """Write charts side by side to a .png (twice their size in pixels), .svg or .csv file. Raises FileError."""
    if path.suffix == ".csv":
        names, rows = table({n: p for c in charts for n, p in c.series.items()})
        write_rows(path, [names, *rows])
        return
    copies = [_export_copy(c) for c in charts]
    size = QSize(EXPORT_SIZE.width() * len(copies), EXPORT_SIZE.height())
    write_picture(path, size, lambda device: _paint(copies, device, size))


def _export_copy(chart: MetricChart) -> MetricChart:
    """A copy of a chart in the light theme and in EXPORT_SIZE."""
    copy = MetricChart(chart.what)
    copy.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen)
    copy.resize(EXPORT_SIZE)
    copy.show()
    copy.set_theme(LIGHT)
    copy.show_series(chart.series, chart.others, chart.beside, chart.last, chart.samples)
    QApplication.sendPostedEvents()
    return copy


def _paint(charts: Sequence[MetricChart], device: QPaintDevice, size: QSize) -> None:
    painter = QPainter(device)
    painter.fillRect(QRect(0, 0, size.width(), size.height()), QColor(LIGHT.panel))
    for i, chart in enumerate(charts):
        target = QRectF(i * EXPORT_SIZE.width(), 0, EXPORT_SIZE.width(), EXPORT_SIZE.height())
        chart.render(painter, target, chart.rect())
        chart.close()
        chart.deleteLater()
    painter.end()
