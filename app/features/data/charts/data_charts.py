"""Charts of a data set: class shares by split, and the histogram of text lengths with the max length."""

from __future__ import annotations

from html import escape

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QMouseEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.number_text import count, percent
from espalier.app.theme import SECONDARY, Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart import Chart, lighter, pen, tint
from espalier.app.widgets.charts.chart_export import Table
from espalier.app.widgets.charts.metrics import COLOURS, TITLE_HEIGHT, step_labels
from espalier.model.data.summary import DataSummary

MAX_CLASSES = 24  # classes drawn, the most frequent ones
NAME_LENGTH = 14  # characters of a class name below its bars
NO_PEN = QPen(Qt.PenStyle.NoPen)


class DataChart(Chart):
    """Base of the charts of a data set; `set_summary` sets the data set."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self.summary: DataSummary | None = None
        self._heading = ""
        super().__init__(parent)
        self.setMouseTracking(True)
        self.plot.getViewBox().setDefaultPadding(0)
        self.setMinimumWidth(130)

    def sizeHint(self) -> QSize:
        return QSize(240, 130)

    def set_summary(self, summary: DataSummary | None) -> None:
        """Draw another data set, or none."""
        self.summary = summary
        self.draw(self.look)

    def _set_heading(self, text: str, palette: Palette) -> None:
        self._heading = text
        self.plot.setTitle(text, justify="left", color=palette.text, size=f"{SECONDARY + 0.5}px")
        self.plot.titleLabel.setMinimumWidth(0)  # a long title must not widen the plot
        self.plot.titleLabel.setMaximumWidth(1)
        self.plot.layout.setRowFixedHeight(0, TITLE_HEIGHT)

    def tooltip_at(self, x: float) -> str:
        """Tooltip text at `x`."""
        return ""

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        text = self.tooltip_at(self.plot.vb.mapSceneToView(QPointF(self.mapToScene(event.pos()))).x())
        QToolTip.showText(event.globalPosition().toPoint(), text, self)


class ClassChart(DataChart):
    """Grouped bars: the share of each class in every split."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Share of each class by split"))

    @property
    def shown(self) -> list[int]:
        """Indices of the drawn classes, in order; windows of a text have none."""
        if self.summary is None or not self.summary.classes:
            return []
        counts = self.summary.counts
        return sorted(sorted(range(len(counts)), key=lambda c: -counts[c])[:MAX_CLASSES])

    def draw(self, palette: Palette) -> None:
        """A group of bars for each class."""
        self.plot.clear()
        summary, shown = self.summary, self.shown
        if summary is None or not summary.splits or not shown:
            return
        width, heading = 0.8 / len(summary.splits), ["<b>Classes</b>"]
        top = 0.0
        for index, split in enumerate(summary.splits):
            plain = COLOURS[index % len(COLOURS)]
            colour = lighter(plain, palette)
            shares = [split.counts[c] / max(split.samples, 1) for c in shown]
            top = max([top, *shares])
            x = np.arange(len(shown)) - 0.4 + (index + 0.5) * width
            bars = pg.BarGraphItem(x=x, height=shares, width=width * 0.86, pen=NO_PEN, brush=tint(colour, 200))
            self.plot.addItem(bars)
            heading.append(f'<span style="color:{colour}">{escape(split.name)}</span>')
        if len(shown) < len(summary.classes):
            heading.append(tr('<span style="color:{}">the {} most frequent</span>', palette.muted, len(shown)))
        self._set_heading(" &nbsp; ".join(heading), palette)
        self._axes(summary, shown, top)

    def _axes(self, summary: DataSummary, shown: list[int], top: float) -> None:
        left = self.plot.getAxis("left")
        left.setWidth(40)
        left.tickStrings = lambda values, scale, spacing: [percent(v, 0) for v in values]
        self.plot.setXRange(-0.6, len(shown) - 0.4, padding=0)
        self.plot.setYRange(0, max(top * 1.08, 0.01), padding=0)
        every = max(1, -(-len(shown) * 7 // max(self.width() // 12, 1))) if len(shown) > 8 else 1
        names = [(at, short(summary.classes[c])) for at, c in enumerate(shown) if at % every == 0]
        self.plot.getAxis("bottom").setTicks([names])

    def tooltip_at(self, x: float) -> str:
        """Counts and shares of a class in all splits."""
        shown, summary = self.shown, self.summary
        if summary is None or not 0 <= round(x) < len(shown):
            return ""
        at = shown[round(x)]
        lines = [
            f"{s.name}: {count(s.counts[at])} ({percent(s.counts[at] / max(s.samples, 1))})" for s in summary.splits
        ]
        return "\n".join([summary.classes[at], *lines])

    def table(self) -> Table:
        """One row a class, one column a split."""
        if self.summary is None:
            return (), ()
        rows = [[c, *(s.counts[at] for s in self.summary.splits)] for at, c in enumerate(self.summary.classes)]
        return ("class", *(s.name for s in self.summary.splits)), rows


class LengthChart(DataChart):
    """Histogram of text lengths in tokens, with the max length."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.plot.hideAxis("left")
        self.plot.getAxis("bottom").tickStrings = step_labels
        self.setAccessibleName(tr("Lengths of the texts in tokens"))

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of texts in each bin, over all splits."""
        lengths = [s.lengths for s in self.summary.splits if s.lengths] if self.summary else []
        return tuple(sum(column) for column in zip(*lengths, strict=True))

    def draw(self, palette: Palette) -> None:
        """Draw the bars, those beyond the max length in another colour, and a line at the max length if in range."""
        self.plot.clear()
        summary, counts = self.summary, self.counts
        if summary is None or not counts:
            return
        edges, limit = np.array(summary.edges), summary.max_length
        centres, width = (edges[:-1] + edges[1:]) / 2, float(edges[1] - edges[0]) * 0.86
        beyond = edges[:-1] > limit
        for where, colour in ((~beyond, palette.bar), (beyond, palette.bad)):
            if where.any():
                self.plot.addItem(pg.BarGraphItem(x=centres[where], height=np.array(counts)[where], width=width,
                                                  pen=NO_PEN, brush=tint(colour, 165)))  # fmt: skip
        top = max(counts) * 1.08
        if limit <= edges[-1]:
            self.plot.addItem(pg.PlotCurveItem([limit, limit], [0, top], pen=pen(palette.bad, 1.4), antialias=False))
        self.plot.setXRange(0, float(edges[-1]), padding=0)
        self.plot.setYRange(0, top, padding=0)
        cut = f'<span style="color:{palette.bad if summary.cut else palette.muted}">{truncation_text(summary)}</span>'
        self._set_heading(tr("<b>Tokens</b> &nbsp; {}", cut), palette)

    def tooltip_at(self, x: float) -> str:
        """Count and share of a bin."""
        summary, counts = self.summary, self.counts
        at = int(np.searchsorted(summary.edges, x, side="right")) - 1 if summary else -1
        if summary is None or not 0 <= at < len(counts):
            return ""
        last = at == len(counts) - 1 and summary.longest >= summary.edges[-1]
        span = tr("{} or more", summary.edges[at]) if last else bin_text(summary.edges[at], summary.edges[at + 1])
        return tr("{} tokens: {} texts ({})", span, count(counts[at]), percent(counts[at] / max(sum(counts), 1)))

    def table(self) -> Table:
        """One row a bin."""
        edges = self.summary.edges if self.summary else ()
        return ("from", "to", "texts"), list(zip(edges, edges[1:], self.counts, strict=False))


def bin_text(low: int, high: int) -> str:
    """`12`, or `12 … 15`."""
    return str(low) if high - low == 1 else f"{low} … {high - 1}"


def truncation_text(summary: DataSummary) -> str:
    """How many texts the max length truncates."""
    if not summary.cut:
        return tr("max length {} truncates none", count(summary.max_length))
    return tr("max length {} truncates {}", count(summary.max_length), percent(summary.cut))


def short(name: str) -> str:
    """A class name truncated to fit below its bars."""
    return name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1]}…"
