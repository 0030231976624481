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

from espalier.app.figures.smoothing import smoothed
from espalier.app.number_text import cell, count, metric, noise_text, percents
from espalier.app.theme import CATEGORIES, LIGHT, PLOT_WIDTH, SECONDARY, Palette
from espalier.app.translation import tr
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
FAINT = 120  # opacity of other runs' lines and of what was smoothed, of 255
BAND = 40  # opacity of a band of noise, of 255
MAX_MARKERS = 40  # longer series are drawn without markers
QUANTITIES = ("loss", "accuracy")  # quantities whose series share a chart; they are measured, so they are smoothed
DASHES = {  # of other runs, by their order
    "dashed": Qt.PenStyle.DashLine, "dotted": Qt.PenStyle.DotLine, "dash-dot": Qt.PenStyle.DashDotLine,
    "dash-dot-dot": Qt.PenStyle.DashDotDotLine,
}  # fmt: skip
MAX_OTHERS = len(DASHES)


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
        self.others: Mapping[str, Mapping[str, Series]] = {}  # by run, then by name
        self.smoothing = 0.0
        self.last = 1
        self.samples = 0
        self._bands: dict[str, tuple[pg.PlotCurveItem, pg.PlotCurveItem]] = {}
        self._lines: dict[str, pg.PlotDataItem] = {}
        self._raw: dict[str, pg.PlotDataItem] = {}
        self._faint: dict[tuple[str, str], pg.PlotDataItem] = {}
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setAccessibleName(tr("{} by step", what))

    def sizeHint(self) -> QSize:
        return QSize(300, 130)

    def show_series(
        self,
        series: Mapping[str, Series],
        others: Mapping[str, Mapping[str, Series]] | None = None,
        last: int = 1,
        samples: int = 0,
        smoothing: float = 0.0,
    ) -> None:
        """Draw series of (step, value) by name; existing lines are only extended.

        `others`: series of other runs, at most MAX_OTHERS, drawn faint and dashed. `last`: the last step of the charts
        beside this one. `samples`: on which an accuracy is measured, 0 if unknown. `smoothing`: the weight of
        `smoothed`; what was smoothed is drawn faint behind.
        """
        self.series = {name: list(series[name]) for name in sorted(series)}
        runs = {
            run: {n: list(p) for n, p in found.items() if n in self.series} for run, found in (others or {}).items()
        }
        self.others = dict([(run, found) for run, found in runs.items() if found][:MAX_OTHERS])
        self.last = max(last, last_step(self._all()))
        had_samples, self.samples = bool(self.samples), samples if self.what == "accuracy" else 0
        had_raw, self.smoothing = bool(self.smoothing), smoothing if self.what in QUANTITIES else 0.0
        drawn = [(run, name) for run, found in self.others.items() for name in found]
        same = self.series.keys() == self._lines.keys() and drawn == list(self._faint)
        if same and had_samples == bool(self.samples) and had_raw == bool(self.smoothing):
            self._fill()
        else:
            self.draw(self.look)

    def _all(self) -> list[Series]:
        return [*self.series.values(), *(points for found in self.others.values() for points in found.values())]

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
        self._lines, self._raw, self._faint, self._bands = {}, {}, {}, {}
        for index, name in enumerate(self.series):
            if self.samples:
                self._bands[name] = low, high = pg.PlotCurveItem(pen=None), pg.PlotCurveItem(pen=None)
                for item in (low, high, pg.FillBetweenItem(low, high, brush=tint(self.colour(index, palette), BAND))):
                    self.plot.addItem(item)
            if self.smoothing:
                faint = pen(self.colour(index, palette), 1.0, FAINT)
                self._raw[name] = self.plot.plot(pen=faint, connect="finite")
            self._lines[name] = self.plot.plot(pen=pen(self.colour(index, palette)), connect="finite")
        names = list(self.series)
        for (run, found), style in zip(self.others.items(), DASHES.values(), strict=False):
            for name in found:
                faint = pen(self.colour(names.index(name), palette), PLOT_WIDTH, FAINT)
                faint.setStyle(style)
                self._faint[run, name] = self.plot.plot(pen=faint, connect="finite")
        for line in (*self._lines.values(), *self._raw.values(), *self._faint.values()):
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
        runs = zip(DASHES, self.others, strict=False)
        dashed = " &nbsp; ".join(f"{style}: {escape(run)}" for style, run in runs) or tr("by optimiser step")
        dashed += tr(" &nbsp; smoothed {:.2f}", self.smoothing) if self.smoothing else ""
        dashed += tr(" &nbsp; ▒ 95 % of n = {}", count(self.samples)) if self.samples else ""
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
            line.setData(steps, self.smooth(values), symbol="o" if markers else None, symbolSize=5,
                         symbolBrush=colour, symbolPen=None)  # fmt: skip
            if name in self._raw:
                self._raw[name].setData(steps, values)
            for curve, ends in zip(self._bands.get(name, ()), self._noise(values), strict=False):
                curve.setData(steps, ends)
        for (run, name), line in self._faint.items():
            steps, values = np.array(self.others[run][name], float).reshape(-1, 2).T
            line.setData(steps, self.smooth(values))
        self._set_range()

    def smooth(self, values: np.ndarray) -> np.ndarray:
        """The values as they are drawn."""
        return np.array(smoothed(values.tolist(), self.smoothing)) if self.smoothing else values

    def _noise(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ends of the Wilson 95 % intervals of accuracies."""
        low, high = np.array([wilson(float(s), self.samples) for s in shares]).reshape(-1, 2).T
        return low, high

    def _set_range(self) -> None:
        """Show all steps; no range below zero without negative values, none above 100 % for an accuracy."""
        points = [p for series in self._all() for p in series]
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
                index, (step, value) = min(enumerate(points), key=lambda p: abs(p[1][0] - x))
                smooth = self.smooth(np.array([v for _, v in points[: index + 1]]))[-1] if self.smoothing else value
                mean = tr(", smoothed {}", metric(name, float(smooth))) if self.smoothing else ""
                lines.append(
                    tr("{} {}{} at step {}{}", name, metric(name, value), mean, count(step), self._compared(name, step))
                )
                lines += [noise_text(Figure(value, self.samples))] if self.samples else []
        return "\n".join(lines)

    def _compared(self, name: str, step: int) -> str:
        """The values of other runs nearest to a step, for the tool tip."""
        nearest = {
            run: min(found[name], key=lambda p: abs(p[0] - step))
            for run, found in self.others.items() if found.get(name)
        }  # fmt: skip
        return "".join(f" · {run}: {metric(name, value)}" for run, (_, value) in nearest.items())

    def columns(self) -> dict[str, Series]:
        """The series as columns: as they are, smoothed, and those of the other runs."""
        found: dict[str, Series] = dict(self.series)
        if self.smoothing:
            for name, points in self.series.items():
                values = smoothed([v for _, v in points], self.smoothing)
                found[f"{name} (smoothed {self.smoothing:.2f})"] = [
                    (s, v) for (s, _), v in zip(points, values, strict=True)
                ]
        return found | {f"{run}: {name}": p for run, of in self.others.items() for name, p in of.items()}

    def export(self, path: Path) -> None:
        """Write the chart alone, in the size of exported charts. Raises FileError."""
        export([self], path)

    def table(self) -> Table:
        """One row per step, one column per series."""
        return table(self.columns())


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
        names, rows = table({n: p for c in charts for n, p in c.columns().items()})
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
    copy.show_series(chart.series, chart.others, chart.last, chart.samples, chart.smoothing)
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
